"""Diagnostics on a project's ``pyproject.toml``: settings that cannot be used, at their lines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from accelopt_lsp.agents.llm.settings import LlmSettingsError, llm_settings
from accelopt_lsp.nki.diagnostics import Diagnostic, Position, Severity, Span
from accelopt_lsp.workbench.settings import (
    SettingsError,
    own_settings,
    parse_settings,
    project_file,
    project_text,
    read_toml,
)

CODE = "settings"
MAX_PROBLEMS = 50
"""Nobody reads more of one file, and each is looked for in all of its lines."""
_PLACE = re.compile(r"at line (\d+), column (\d+)")
_TABLE = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*(?P<key>"[^"]*"|'[^']*'|[\w.-]+)\s*=""")
_PARTS = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([\w-]+))\s*(?:\.|$)""")
_ROOT = ("tool", "accelopt")


def check_project_file(text: str) -> tuple[Diagnostic, ...]:
    """What is wrong with ``[tool.accelopt]`` of a ``pyproject.toml``. Never raises."""
    lines = text.split("\n")
    try:
        data = read_toml(text)
    except ValueError as error:
        place = _PLACE.search(str(error))
        line = min(int(place.group(1)), len(lines)) if place else len(lines)
        message = _PLACE.sub("", str(error)).replace("()", "").strip()
        return (_diagnostic(lines, line, f"this is no TOML: {message}"),)
    tool = data.get("tool")
    table = tool.get("accelopt") if isinstance(tool, dict) else None
    if table is None:
        return ()
    if not isinstance(table, dict):
        return (_diagnostic(lines, find_line(lines, _ROOT), "[tool.accelopt] must be a table"),)
    found = []
    for name, value in own_settings(table).items():
        found += _problems(lines, name, value)
        if len(found) >= MAX_PROBLEMS:
            break
    llm = table.get("llm")
    if llm is not None and len(found) < MAX_PROBLEMS:
        found += _model_problems(lines, llm)
    return tuple(sorted(found, key=lambda d: d.span))


def _problems(lines: Sequence[str], name: str, value: Any) -> list[Diagnostic]:
    """One setting's problems; of a table, those of each entry."""
    entries = [{k: v} for k, v in value.items()] if isinstance(value, dict) and value else [value]
    found: dict[tuple[int, str], Diagnostic] = {}
    for entry in entries:
        if len(found) >= MAX_PROBLEMS:
            break
        try:
            parse_settings({name: entry})
        except SettingsError as error:
            line = find_line(lines, (*_ROOT, *error.keys))
            found.setdefault((line, str(error)), _diagnostic(lines, line, str(error)))
    return list(found.values())


def _model_problems(lines: Sequence[str], table: Any) -> list[Diagnostic]:
    root = (*_ROOT, "llm")
    if not isinstance(table, dict):
        line = find_line(lines, root)
        return [_diagnostic(lines, line, "[tool.accelopt.llm] must be a table")]
    found: list[Diagnostic] = []
    for name, value in table.items():
        for keys, entry in _entries(name, value):
            if len(found) >= MAX_PROBLEMS:
                return found
            try:
                llm_settings(entry, None, {})
            except LlmSettingsError as error:
                line = find_line(lines, (*root, *keys))
                found.append(_diagnostic(lines, line, str(error)))
    return found


def _entries(name: str, value: Any) -> list[tuple[tuple[str, ...], Mapping[str, Any]]]:
    if isinstance(value, dict) and value:
        return [((name, key), {name: {key: entry}}) for key, entry in value.items()]
    return [((name,), {name: value})]


def project_problems(path: Path) -> tuple[Path, tuple[Diagnostic, ...]] | None:
    """The ``pyproject.toml`` that counts for a file, and what is wrong with it; None without one.

    Read again only when it has changed.
    """
    file = project_file(path)
    if file is None:
        return None
    try:
        state = file.stat()
        return file, _checked(file, state.st_mtime_ns, state.st_size)
    except OSError:
        return None


@lru_cache(maxsize=32)
def _checked(file: Path, modified: int, size: int) -> tuple[Diagnostic, ...]:
    try:
        return check_project_file(project_text(file))
    except UnicodeDecodeError:
        return (_diagnostic([""], 1, "this is no UTF-8"),)
    except ValueError as error:
        return (_diagnostic([""], 1, str(error)),)


def find_line(lines: Sequence[str], keys: Sequence[str]) -> int:
    """The line (from 1) that a key stands on; else that of the innermost table around it."""
    best, depth = 1, 0
    table: tuple[str, ...] = ()
    for number, text in enumerate(lines, 1):
        head = _TABLE.match(text)
        if head is not None:
            table = parts(head.group(1))
            full = table
        else:
            key = _KEY.match(text)
            if key is None:
                continue
            full = (*table, *parts(key.group("key")))
        common = len(full) if tuple(keys[: len(full)]) == full else 0
        if common > depth:
            best, depth = number, common
    return best


def parts(name: str) -> tuple[str, ...]:
    """A dotted name as its parts: ``tool."a.b"`` as ``tool`` and ``a.b``."""
    return tuple(a or b or c for a, b, c in _PARTS.findall(name))


def _diagnostic(lines: Sequence[str], line: int, message: str) -> Diagnostic:
    text = lines[line - 1] if 1 <= line <= len(lines) else ""
    start = len(text) - len(text.lstrip()) + 1
    end = max(start + 1, len(text.rstrip()) + 1)
    span = Span(Position(line, start), Position(line, end))
    return Diagnostic(CODE, Severity.ERROR, message, span)
