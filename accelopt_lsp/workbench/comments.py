"""Comments that steer us, written into a text: suppressions and the target of a kernel."""

from __future__ import annotations

import ast
import re

from accelopt_lsp.analysis.directives import (
    DIRECTIVE,
    directive_lines,
    find_suppressions,
    parse_directive,
)
from accelopt_lsp.analysis.kernels import find_kernels
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.lines import split_lines
from accelopt_lsp.nki.python_source import parse_python

_IGNORE = re.compile(r"(#\s*accelopt:\s*ignore)(\[[^\]]*\])?(?!-)")
_IGNORE_FILE = re.compile(r"(#\s*accelopt:\s*ignore-file)(\[[^\]]*\])?")
_CODING = re.compile(r"#.*coding[:=]")
_TARGET = re.compile(r"(?<![\w-])target\s*=\s*\S+")


def suppress(text: str, line: int, code: str) -> str | None:
    """The text with a rule switched off on one line; None where no comment can stand there.

    Args:
        line: from 1; an ``# accelopt: ignore[...]`` comment that it has gains the code.
    """
    lines = split_lines(text)
    if not 1 <= line <= len(lines):
        return None
    body, end = _parted(lines[line - 1])
    match = _IGNORE.search(body)
    if match is not None:
        body = _with_code(body, match, code)
    elif body.rstrip().endswith("\\"):
        return None
    else:
        body = f"{body.rstrip()}  # accelopt: ignore[{code}]"
    lines[line - 1] = body + end
    changed = "".join(lines)
    return changed if _means_the_same(text, changed) and _suppresses(changed, line) else None


def suppress_in_file(text: str, code: str) -> str | None:
    """The text with a rule switched off everywhere in it."""
    lines = split_lines(text)
    for number, line in enumerate(lines):
        match = _IGNORE_FILE.search(line)
        if match is not None:
            lines[number] = _with_code(line, match, code)
            break
    else:
        first = 0
        while first < min(2, len(lines)) and (
            lines[first].startswith("#!") or _CODING.match(lines[first])
        ):
            first += 1
        _, end = _parted(lines[0]) if lines else ("", "\n")
        lines.insert(first, f"# accelopt: ignore-file[{code}]{end or chr(10)}")
    changed = "".join(lines)
    return changed if _means_the_same(text, changed) else None


def with_target(text: str, function: str, target: str) -> str | None:
    """The text with a kernel's directive naming a target; None if there is no such kernel."""
    document = Document.parse(text)
    kernel = next((k for k in find_kernels(document) if function in (k.qualname, k.name)), None)
    if kernel is None:
        return None
    lines = split_lines(text)
    found = directive_lines(document, kernel)
    # Of several the last one counts.
    named = [n for n in found if _TARGET.search(_directive(lines[n - 1]))]
    if named:
        lines[named[-1] - 1] = _TARGET.sub(f"target={target}", lines[named[-1] - 1])
    elif found:
        body, end = _parted(lines[found[-1] - 1])
        lines[found[-1] - 1] = f"{body.rstrip()} target={target}{end}"
    else:
        head, end = _parted(lines[kernel.first_line - 1])
        indent = head[: len(head) - len(head.lstrip())]
        lines.insert(kernel.first_line - 1, f"{indent}# accelopt: target={target}{end or chr(10)}")
    return "".join(lines)


def _directive(line: str) -> str:
    match = DIRECTIVE.search(line)
    return match[1] if match is not None and parse_directive(match[1]).target else ""


def _with_code(line: str, match: re.Match[str], code: str) -> str:
    """A comment with one more code; one without codes covers all of them already."""
    codes = match[2]
    if codes is None:
        return line
    named = [c.strip() for c in codes[1:-1].split(",") if c.strip()]
    if code not in named:
        named.append(code)
    return f"{line[: match.start()]}{match[1]}[{', '.join(named)}]{line[match.end() :]}"


def _parted(line: str) -> tuple[str, str]:
    """A line and its end."""
    body = line.rstrip("\r\n")
    return body, line[len(body) :]


def _suppresses(text: str, line: int) -> bool:
    return line in find_suppressions(Document.parse(text)).by_line


def _means_the_same(before: str, after: str) -> bool:
    """A comment in the wrong place, inside a string for example, changes what the text means."""
    try:
        old = ast.dump(parse_python(before))
    except (SyntaxError, ValueError, RecursionError):
        return True  # half-typed text means nothing yet
    try:
        return ast.dump(parse_python(after)) == old
    except (SyntaxError, ValueError, RecursionError):
        return False
