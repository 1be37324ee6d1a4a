"""Comment directives: ``# accelopt: x=f32[4096,1024] eps=1e-5 target=trn1`` and suppressions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from attrs import field, frozen

from accelopt_lsp.analysis.kernels import KernelSource
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.arguments import ArgumentSpec, SpecError, parse_spec, split_top_level
from accelopt_lsp.nki.diagnostics import Diagnostic, Position, Severity, Span, covers
from accelopt_lsp.nki.dialects import is_version
from accelopt_lsp.nki.targets import get_target

DIRECTIVE = re.compile(r"#\s*accelopt:\s*(.*)$")
_IGNORE = re.compile(r"^ignore(-file)?\s*(?:\[([^\]]*)\])?")
BAD_DIRECTIVE = "D001"
RESERVED = ("target", "reference", "grid", "nki-version")


@frozen(slots=True)
class Directive:
    """What one or several directive lines say.

    Attributes:
        values: parameter name to SPEC.
        target, reference, nki_version: if given.
        grid: SPMD launch grid.
        line: of the first directive.
        problems: (line, text, message) for what could not be read.
    """

    values: Mapping[str, ArgumentSpec] = field(factory=dict)
    target: str | None = None
    reference: str | None = None
    nki_version: str | None = None
    grid: tuple[int, ...] = ()
    line: int | None = None
    problems: tuple[tuple[int, str, str], ...] = ()


def parse_directive(text: str, line: int = 1) -> Directive:
    """Read the part after ``# accelopt:``. Never raises; problems are listed.

    Items are separated by blanks outside brackets and quotes.
    """
    values: dict[str, ArgumentSpec] = {}
    named: dict[str, str] = {}
    grid: tuple[int, ...] = ()
    problems: list[tuple[int, str, str]] = []
    for item in split_top_level(text.strip(), " "):
        name, separator, spec = item.partition("=")
        name, spec = name.strip(), spec.strip()
        if not separator or not name:
            problems.append((line, item, f"expected NAME=SPEC, got {item!r}"))
            continue
        try:
            if name == "grid":
                grid = _grid(spec)
            elif name == "target":
                named[name] = get_target(spec).name
            elif name == "nki-version" and not is_version(spec.strip("'\"")):
                problems.append((line, item, f"expected a version such as 0.6, got {spec!r}"))
            elif name in RESERVED:
                named[name] = spec.strip("'\"")
            else:
                values[name] = parse_spec(spec)
        except ValueError as error:
            problems.append((line, item, str(error)))
    return Directive(
        values,
        named.get("target"),
        named.get("reference"),
        named.get("nki-version"),
        grid,
        line,
        tuple(problems),
    )


def _grid(text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(part) for part in text.strip("()[] ").split(",") if part.strip())
    except ValueError:
        sizes = ()
    if not sizes or any(size < 1 for size in sizes):
        raise SpecError(f"grid must be positive integers such as 2 or (2,4), got {text!r}")
    return sizes


def merge(directives: list[Directive]) -> Directive:
    """Several directive lines as one; later lines win."""
    merged = Directive()
    for one in directives:
        merged = Directive(
            {**merged.values, **one.values},
            one.target or merged.target,
            one.reference or merged.reference,
            one.nki_version or merged.nki_version,
            one.grid or merged.grid,
            merged.line or one.line,
            (*merged.problems, *one.problems),
        )
    return merged


def kernel_directive(document: Document, kernel: KernelSource) -> Directive:
    """Directives above a kernel (or its decorator) or in the first lines of its body."""
    found = []
    for line in directive_lines(document, kernel):
        match = DIRECTIVE.search(document.lines[line - 1])
        assert match is not None
        found.append(parse_directive(match[1], line))
    return merge(found)


def directive_lines(document: Document, kernel: KernelSource) -> list[int]:
    """Lines (from 1) of a kernel's directives, in their order."""
    found = []
    for line in (*_lines_above(document, kernel), *_lines_inside(document, kernel)):
        match = DIRECTIVE.search(document.lines[line - 1])
        if match and not _IGNORE.match(match[1]):
            found.append(line)
    return found


def _lines_above(document: Document, kernel: KernelSource) -> list[int]:
    lines: list[int] = []
    for line in range(kernel.first_line - 1, 0, -1):
        text = document.lines[line - 1].strip()
        if text and not text.startswith("#"):
            break
        lines.append(line)
    # Comments between decorators and the def belong to the kernel too.
    between = range(kernel.first_line, kernel.line)
    return [*reversed(lines), *(n for n in between if document.lines[n - 1].strip()[:1] == "#")]


def _lines_inside(document: Document, kernel: KernelSource) -> list[int]:
    """Comment lines between the signature and the first statement, docstring skipped."""
    if kernel.node is None:
        return []
    body = kernel.node.child_by_field_name("body")
    parameters = kernel.node.child_by_field_name("parameters")
    if body is None or parameters is None:
        return []
    start = int(parameters.end_point.row) + 1
    statements = [c for c in body.named_children if c.type != "comment"]
    if statements and _is_string(statements[0].type, statements[0].named_children):
        docstring = statements.pop(0)
        skipped = range(document.line_of(docstring), int(docstring.end_point.row) + 2)
    else:
        skipped = range(0)
    end = document.line_of(statements[0]) if statements else kernel.end_line + 1
    return [
        line
        for line in range(start, min(end, document.line_count + 1))
        if line not in skipped and document.lines[line - 1].strip().startswith("#")
    ]


def _is_string(kind: str, children: list) -> bool:  # type: ignore[type-arg]
    return kind == "expression_statement" and bool(children) and children[0].type == "string"


def directive_template(kernel: KernelSource) -> str:
    """A directive line to fill in, for parameters that have no default.

    The sizes are placeholders that the writer replaces; two-dimensional bf16 is the most
    common argument.
    """
    parts = [
        f"{p.name}=bf16[128,512]"
        for p in kernel.parameters
        if p.default is None and p.kind in ("positional", "keyword") and p.name != "self"
    ]
    return "# accelopt: " + " ".join(parts or ["target=trn2"])


def directive_diagnostics(document: Document, kernel: KernelSource) -> Iterator[Diagnostic]:
    """What is wrong with a kernel's directives."""
    directive = kernel_directive(document, kernel)
    for line, item, message in directive.problems:
        yield Diagnostic(BAD_DIRECTIVE, Severity.WARNING, message, _item_span(document, line, item))
    names = {p.name for p in kernel.parameters}
    if any(p.kind == "kwargs" for p in kernel.parameters):
        return
    for name in directive.values:
        if name not in names and directive.line is not None:
            line = directive.line
            yield Diagnostic(
                BAD_DIRECTIVE,
                Severity.WARNING,
                f"{kernel.name} has no parameter {name!r}; it has {', '.join(sorted(names))}",
                _item_span(document, line, name),
            )


def _item_span(document: Document, line: int, item: str) -> Span:
    text = document.lines[line - 1] if line <= len(document.lines) else ""
    start = text.find(item)
    if start < 0:
        return document.line_span(line)
    return Span(Position(line, start + 1), Position(line, start + len(item) + 1))


@frozen(slots=True)
class Suppressions:
    """Codes that comments switch off. An empty set of codes means all of them."""

    by_line: Mapping[int, frozenset[str]] = field(factory=dict)
    file: frozenset[str] | None = None

    def hides(self, diagnostic: Diagnostic) -> bool:
        """Whether a comment on the diagnostic's line, or for the file, switches it off."""
        if self.file is not None and _covers(self.file, diagnostic.code):
            return True
        codes = self.by_line.get(diagnostic.span.start.line)
        return codes is not None and _covers(codes, diagnostic.code)


def _covers(codes: frozenset[str], code: str) -> bool:
    return not codes or covers(codes, code)


def suppression_diagnostics(document: Document, known: tuple[str, ...]) -> Iterator[Diagnostic]:
    """Codes in suppressions that no rule has.

    Args:
        known: codes of all rules.
    """
    if "accelopt:" not in document.text:
        return
    for number, text in enumerate(document.lines, 1):
        match = DIRECTIVE.search(text)
        ignore = _IGNORE.match(match[1]) if match else None
        for code in (ignore[2] or "").split(",") if ignore is not None else ():
            wanted = code.strip()
            if wanted and not any(k.startswith(wanted.upper()) for k in known):
                message = f"no rule's code begins with {wanted!r}"
                span = _item_span(document, number, wanted)
                yield Diagnostic(BAD_DIRECTIVE, Severity.WARNING, message, span)


def find_suppressions(document: Document) -> Suppressions:
    """``# accelopt: ignore[P10]`` on a line, ``# accelopt: ignore-file[P10]`` anywhere."""
    known: Suppressions | None = document.cache.get("suppressions")
    if known is None:
        known = document.cache["suppressions"] = _read_suppressions(document)
    return known


def _read_suppressions(document: Document) -> Suppressions:
    if "accelopt:" not in document.text:
        return Suppressions()
    by_line: dict[int, frozenset[str]] = {}
    file: frozenset[str] | None = None
    for number, text in enumerate(document.lines, 1):
        match = DIRECTIVE.search(text)
        ignore = _IGNORE.match(match[1]) if match else None
        if ignore is None:
            continue
        codes = frozenset(c.strip().upper() for c in (ignore[2] or "").split(",") if c.strip())
        if ignore[1]:
            file = codes if file is None or not codes or not file else file | codes
        else:
            by_line[number] = codes
    return Suppressions(by_line, file)
