"""Apply the fixes that diagnostics name: one for an editor, all safe ones for ``check --fix``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from accelopt_lsp.analysis import FileAnalysis, KernelAnalysis
from accelopt_lsp.nki.arguments import KernelArguments
from accelopt_lsp.nki.diagnostics import Diagnostic, Fix, Position
from accelopt_lsp.nki.lines import split_lines
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.rewrites import NotApplicable, apply_named
from accelopt_lsp.workbench.check import Selection, check_text, find_files
from accelopt_lsp.workbench.requests import RequestError, read_source, write_source
from accelopt_lsp.workbench.settings import Settings, settings_for

MAX_FIXES_PER_FILE = 100
EVERYTHING = Selection()


def apply_fix(
    text: str,
    fix: Fix,
    *,
    function: str | None = None,
    arguments: KernelArguments | None = None,
    target: Target | str | None = None,
) -> str:
    """The text with one fix applied.

    Raises:
        NotApplicable: the fix does not fit this text.
    """
    if fix.rewrite == "replace-name":
        return _replace_name(text, fix.parameters)
    return apply_named(text, function, fix.rewrite, fix.parameters, arguments, target)


def _replace_name(text: str, parameters: Mapping[str, Any]) -> str:
    """Exchange an attribute name on one line."""
    old, new = str(parameters["old"]), str(parameters["new"])
    lines = split_lines(text)
    index = int(parameters["line"]) - 1
    if not 0 <= index < len(lines):
        raise NotApplicable(f"the text has no line {index + 1}")
    changed, count = re.subn(rf"(?<=\.){re.escape(old)}\b", lambda _: new, lines[index], count=1)
    if not count:
        raise NotApplicable(f"line {index + 1} has no name {old}")
    lines[index] = changed
    return "".join(lines)


@frozen(slots=True)
class Fixed:
    """A file that was changed, and how many fixes that took."""

    path: Path
    fixes: int


def fix_paths(
    paths: Iterable[Path],
    settings: Settings | None = None,
    *,
    target: str | None = None,
    exclude: Sequence[str] = (),
    selection: Selection = EVERYTHING,
) -> tuple[Fixed, ...]:
    """Apply every safe fix of the selected findings in files and folders, and write what changed.

    Raises:
        RequestError: a path does not exist, or a file cannot be written.
        SettingsError: a project's settings cannot be used.
    """
    changed = []
    for path in list(find_files(paths, settings, exclude)):
        try:
            before = read_source(path)
        except RequestError:
            # check reports files that cannot be read.
            continue
        after, count = fix_text(
            before, path, settings or settings_for(path), target=target, selection=selection
        )
        if after != before:
            write_source(path, after, like=path)
            changed.append(Fixed(path, count))
    return tuple(changed)


def fix_text(
    text: str,
    path: Path,
    settings: Settings,
    *,
    target: str | None = None,
    selection: Selection = EVERYTHING,
) -> tuple[str, int]:
    """The text with its safe fixes applied, those of selected findings, and how many there were.

    The text is analyzed anew after each fix, since a fix moves the others.
    """
    count = 0
    refused: set[tuple[str, str]] = set()
    while count < MAX_FIXES_PER_FILE:
        analysis = check_text(text, path, settings, target=target)
        step = _first_safe(text, analysis, selection, refused)
        if step is None:
            break
        text = step
        count += 1
    return text, count


def _first_safe(
    text: str, analysis: FileAnalysis, selection: Selection, refused: set[tuple[str, str]]
) -> str | None:
    for diagnostic in analysis.diagnostics:
        fix = diagnostic.fix
        if fix is None or not fix.safe or not selection.takes(diagnostic.code):
            continue
        key = (diagnostic.code, repr(sorted(fix.parameters.items())))
        if key in refused:
            continue
        kernel = _kernel_at(analysis, diagnostic)
        try:
            return apply_fix(
                text,
                fix,
                function=kernel.source.qualname if kernel else None,
                arguments=kernel.arguments if kernel else None,
                target=kernel.target if kernel else None,
            )
        except NotApplicable:
            refused.add(key)
    return None


def _kernel_at(analysis: FileAnalysis, diagnostic: Diagnostic) -> KernelAnalysis | None:
    place: Position = diagnostic.span.start
    return next((k for k in analysis.kernels if k.source.span.contains(place)), None)
