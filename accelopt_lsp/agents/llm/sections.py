"""Sections of prompts: the kernel and what it stands among, its profile, what others learned.

Everything that is shown is text from elsewhere, so fences are longer than any inside, and every
section is bounded.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from attrs import frozen

from accelopt_lsp.agents.normalise import around_function, function_text
from accelopt_lsp.agents.roles import Experience, Plan, Problem
from accelopt_lsp.nki.lines import split_lines
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.nki.python_source import parse_python
from accelopt_lsp.rewrites import Site

_FENCE = re.compile(r"^[ \t]*(`{3,})", re.MULTILINE)


@frozen(slots=True)
class Detail:
    """How much of everything a prompt shows.

    Attributes:
        code: characters of the kernel, which is never shortened before all else.
        context: characters of what the kernel's file defines beside it.
        reference: characters of the reference implementation.
        calls: calls of NKI that are described; ``related`` ones and ``limits`` included or not.
        lines: dearest source lines of the profile.
        sites: ready-made rewrites.
        experiences, experience: how many, and characters of each of their parts.
        tried: earlier steps.
    """

    code: int = 60_000
    context: int = 16_000
    reference: int = 6_000
    calls: int = 40
    related: bool = True
    limits: bool = True
    lines: int = 12
    sites: int = 40
    experiences: int = 16
    experience: int = 1_200
    tried: int = 60


DETAILS = (
    Detail(),
    Detail(reference=3_000, related=False, lines=8, sites=20, experiences=8, experience=600),
    Detail(
        context=8_000,
        reference=0,
        related=False,
        limits=False,
        lines=6,
        sites=12,
        experiences=4,
        experience=300,
        tried=30,
    ),
    Detail(
        context=4_000,
        reference=0,
        calls=0,
        related=False,
        limits=False,
        lines=4,
        sites=6,
        experiences=0,
        tried=15,
    ),
)
"""From everything to the least that a model can work with."""


def fenced(code: str, language: str = "python") -> str:
    """A block of code; the code cannot end it."""
    longest = max((len(m[1]) for m in _FENCE.finditer(code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{code.rstrip()}\n{fence}"


def limited(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}\n... ({len(text) - most} more characters)"


def kernel_code(source: str, function: str, detail: Detail) -> str:
    """The kernel as it stands in its file."""
    return fenced(limited(function_text(source, function), detail.code))


def numbered_code(source: str, function: str, detail: Detail) -> str:
    """The kernel with the line numbers of its file, by which profile and rewrites name lines."""
    parts = around_function(source, function)
    before, code = ("", source) if parts is None else parts[:2]
    first = before.count("\n") + 1
    lines = split_lines(limited(code, detail.code))
    width = len(str(first + len(lines)))
    numbered = (f"{n:>{width}}| {line}".rstrip() for n, line in enumerate(lines, first))
    return fenced("\n".join(numbered), "")


@lru_cache(maxsize=64)
def beside_kernel(source: str, function: str, detail: Detail) -> str:
    """Imports, constants and helpers of the file that a function uses, also through others."""
    try:
        module = parse_python(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "(the file cannot be read)"
    top = function.partition(".")[0]
    kernel = next((n for n in module.body if top in _bound(n)), None)
    if kernel is None:
        return "(none)"
    makers = {name: node for node in module.body for name in _bound(node)}
    needed: set[int] = set()
    pending: list[ast.AST] = [kernel]
    while pending:
        for name in _used(pending.pop()):
            node = makers.get(name)
            if node is not None and node is not kernel and id(node) not in needed:
                needed.add(id(node))
                pending.append(node)
    lines = split_lines(source)
    texts = [_text(node, lines) for node in module.body if id(node) in needed]
    return fenced(limited("".join(texts), detail.context)) if texts else "(none)"


def _bound(node: ast.AST) -> set[str]:
    """Names that a top-level statement defines."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {a.asname or a.name.partition(".")[0] for a in node.names}
    inner = ast.walk(node)
    return {n.id for n in inner if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _used(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _text(node: ast.stmt, lines: Sequence[str]) -> str:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(d.lineno for d in decorators)])
    text = "".join(lines[first - 1 : node.end_lineno]).rstrip() + "\n"
    return f"\n{text}\n" if isinstance(node, ast.FunctionDef | ast.ClassDef) else text


def reference_code(problem: Problem, detail: Detail) -> str:
    """What the kernel computes, as its reference says it."""
    if problem.reference is None or not detail.reference:
        return "(not given: the outputs of the kernel as it is)"
    text = _read(problem.reference)
    if not text:
        return "(cannot be read)"
    return fenced(limited(function_text(text, "forward"), detail.reference))


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def arguments(problem: Problem) -> str:
    given = ", ".join(f"{name}={spec}" for name, spec in problem.arguments.values.items())
    grid = problem.arguments.grid
    return (given or "(none)") + (f", launched on a grid of {grid}" if grid else "")


def sites(items: Sequence[Site], detail: Detail) -> str:
    rows = []
    for n, site in enumerate(items[: detail.sites], 1):
        benefit = f"; {site.benefit}" if site.benefit else ""
        place = f"line {site.line}"
        known = place in site.description
        rows.append(f"- S{n}: {site.description}{'' if known else f' ({place})'}{benefit}")
    return "\n".join(rows) or "(none)"


def experiences(items: Sequence[Experience], detail: Detail) -> str:
    return "".join(_experience(n, e, detail) for n, e in _numbered(items, detail)) or "(none)"


def _numbered(items: Sequence[Experience], detail: Detail) -> Iterator[tuple[int, Experience]]:
    return iter(enumerate(items[: detail.experiences], 1))


def _experience(number: int, experience: Experience, detail: Detail) -> str:
    word = "helped" if experience.helpful else "made it slower, avoid it"
    record = f"{experience.wins} wins, {experience.losses} losses since"
    rows = [f"## E{number}: {experience.title}\n{word}: {experience.ratio:.2f} times; {record}\n\n"]
    rows.append(limited(experience.text, detail.experience) + "\n")
    for title, code in (("Before", experience.before), ("After", experience.after)):
        if code:
            rows.append(f"\n{title}:\n{fenced(limited(code, detail.experience), '')}\n")
    return "".join(rows)


def tried(plans: Sequence[Plan], detail: Detail) -> str:
    """Earlier steps, the latest of many."""
    titles = list(dict.fromkeys(plan.title for plan in plans))
    left = len(titles) - detail.tried
    rows = [f"- {title}" for title in titles[-detail.tried :]]
    return "\n".join([*rows, *([f"- and {left} others"] if left > 0 else [])]) or "(nothing)"


def profile_text(
    profile: Profile, source: str, detail: Detail = DETAILS[0], floor_ms: float | None = None
) -> str:
    """A profile as a model reads it: what bounds the time, and the dearest lines."""
    return "\n".join(_profile_rows(profile, source, detail, floor_ms))


def _profile_rows(
    profile: Profile, source: str, detail: Detail, floor_ms: float | None
) -> Iterator[str]:
    peak = profile.percent_of_peak
    share = f", {peak:.1f} % of the hardware's peak" if peak is not None else ""
    yield f"- latency {_number(profile.latency_ms)} ms{share}"
    if floor_ms is not None:
        yield f"- attainable: {_number(floor_ms)} ms, for the bytes and products that must be"
    shares = sorted((profile.bounded_shares or {}).items(), key=lambda item: (-item[1], item[0]))
    bounding = [f"{name} {part:.0%}" for name, part in shares if part >= 0.02]
    if bounding:
        yield f"- bounded by {', '.join(bounding)} of the time"
    elif profile.bound is not None:
        yield f"- bound by {profile.bound.value}"
    busy = sorted(profile.engine_busy_ms.items())
    yield f"- busy: {', '.join(f'{name} {_number(ms)} ms' for name, ms in busy)}"
    yield from _rates(profile)
    yield f"- {', '.join(_traffic(profile))}"
    for what_if in sorted(profile.what_ifs or (), key=lambda w: -w.speedup)[:6]:
        if what_if.speedup > 1.01:
            yield f"- what if {what_if.condition()}: {what_if.speedup:.2f} times as fast"
    for gap in (profile.idle or ())[:4]:
        yield f"- {gap.engine} stands still for {_number(gap.total_ms)} ms: {gap.reason()}"
    yield "- dearest lines:"
    yield from _lines(profile, source, detail.lines)


def _rates(profile: Profile) -> Iterator[str]:
    """How well an engine uses the time in which it works."""
    for use in profile.engines or ():
        if use.attainable and use.busy >= 0.05:
            part = use.achieved / use.attainable
            size = f", descriptors of {use.mean_bytes:.0f} B" if use.mean_bytes else ""
            yield f"- {use.engine} works at {part:.0%} of its rate while busy{size}"


def _traffic(profile: Profile) -> Iterator[str]:
    counters = profile.counters
    for name, words in (
        ("hbm_read_bytes", "HBM reads"),
        ("hbm_write_bytes", "HBM writes"),
        ("spill_save_bytes", "spilled"),
        ("spill_reload_bytes", "re-loaded after spills"),
    ):
        value = counters.get(name)
        if value:
            yield f"{words} {value / 1e6:.4g} MB"
    flops, moved = counters.get("hardware_flops"), counters.get("transpose_flops")
    if flops:
        part = f" ({moved / flops:.0%} in transposes)" if moved else ""
        yield f"Tensor Engine {flops / 1e9:.4g} GFLOP{part}"
    yield f"{profile.issued.total_instructions} instructions"


def _lines(profile: Profile, source: str, most: int) -> Iterable[str]:
    text = split_lines(source)
    for line in profile.lines[:most]:
        code = text[line.line - 1].strip() if 0 < line.line <= len(text) else ""
        critical = f", {_number(line.critical_ms)} ms critical" if line.critical_ms else ""
        moved = f", {line.bytes / 1e6:.4g} MB" if line.bytes else ""
        yield (
            f"  - line {line.line} `{code[:100]}` ({line.engine}): {line.instructions} "
            f"instructions, {_number(line.busy_ms)} ms busy{critical}{moved}"
        )


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"
