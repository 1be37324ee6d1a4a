"""What analysis could not know, filled in from a traced run.

Static analysis counts without executing anything, and says where that ends: a loop over a list that
it does not know, a call into a library, a branch on a value. A simulated profile has counted what
every line issued. Both count the same things with the same code, so figures of the one take the
place of unknowns of the other; each says where it comes from.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from attrs import evolve

from accelopt_lsp.analysis import KernelAnalysis
from accelopt_lsp.analysis.hints import build_hints
from accelopt_lsp.nki.profile import LineIssued, Profile, Provenance
from accelopt_lsp.nki.workload import LineWork, LoopWork, Traffic, Workload
from accelopt_lsp.workbench.profile import (
    ProfileReport,
    ProfileRequest,
    known_profile,
    profile_kernel,
)
from accelopt_lsp.workbench.requests import KernelRequest
from accelopt_lsp.workbench.settings import Settings


def trace_request(
    path: Path, text: str, function: str, settings: Settings | None = None
) -> ProfileRequest:
    """A run on shapes alone, in the sandboxed child; nothing is verified."""
    return ProfileRequest(KernelRequest(path, text, function, settings=settings), verify=False)


async def traced(
    path: Path, text: str, function: str, settings: Settings | None = None
) -> ProfileReport:
    """Trace a kernel; :func:`known_trace` finds the result from then on.

    Raises:
        RequestError: the kernel cannot be found or lacks arguments.
        SettingsError: the project's settings cannot be used.
    """
    return await profile_kernel(trace_request(path, text, function, settings))


def known_trace(
    analysis: KernelAnalysis, path: Path, text: str, settings: Settings
) -> Profile | None:
    """The profile of an earlier run of the kernel as it stands, verified or not. Runs nothing."""
    request = trace_request(path, text, analysis.source.qualname, settings)
    found = known_profile(evolve(request, verify=True, what_ifs=True))
    if found is None:
        found = known_profile(evolve(request, verify=True))
    if found is None and analysis.arguments.reference is not None:
        found = known_profile(request)
    return found


def filled(analysis: KernelAnalysis, profile: Profile) -> KernelAnalysis:
    """An analysis with what a simulated profile of the same text knows.

    Lines that analysis had counted in full keep their figures; all others, totals and the
    profile come from the run. Diagnostics stay: they are about the text.

    Args:
        profile: simulated, of the same text and arguments.
    """
    work = analysis.workload or Workload()
    if profile.issued_lines is not None and not work.complete:
        work = _filled(work, profile, profile.issued_lines)
    return evolve(analysis, workload=work, profile=profile, hints=build_hints(work, profile))


def _filled(work: Workload, profile: Profile, traced: tuple[LineIssued, ...]) -> Workload:
    counted = {line.line: line for line in work.lines}
    once = {line.line: line for line in work.uncounted}
    lines = tuple(_line(row, counted.get(row.line), once.get(row.line)) for row in traced)
    runs = {line.line: line.count for line in lines}
    routes: dict[str, int] = {}
    for row in traced:
        for route, count in row.routes.items():
            routes[route] = routes.get(route, 0) + count
    return evolve(
        work,
        lines=lines,
        loops=_loops(work, runs),
        issued=profile.issued,
        traffic=Traffic(routes),
        unknowns=(),
        resolved=work.unknowns,
        unknown_instructions={},
        provenance=profile.provenance,
    )


def _line(row: LineIssued, known: LineWork | None, once: LineWork | None) -> LineWork:
    if known is not None and dict(known.issued.instructions) == dict(row.issued.instructions):
        return known
    engine, busy = max(row.issued.engine_ns.items(), key=lambda i: i[1], default=("", 0.0))
    return LineWork(
        line=row.line,
        count=_executions(row, once or known),
        issued=row.issued,
        engine=engine,
        engine_ns=busy,
        shape=None if once is None else once.shape,
        descriptor_bytes=row.descriptor_bytes,
        traffic=Traffic(row.routes),
        provenance=Provenance.SIMULATED,
    )


def _executions(row: LineIssued, once: LineWork | None) -> int:
    """How often the line's call ran, judged by what one execution issues."""
    total = row.issued.total_instructions
    if once is None or not once.issued.total_instructions:
        return min(row.issued.instructions.values(), default=1)
    return max(1, total * max(once.count, 1) // once.issued.total_instructions)


def _loops(work: Workload, runs: dict[int, int]) -> tuple[LoopWork, ...]:
    """Loops of unknown length: a body ran as often as the lines that stand right in it."""
    done: list[LoopWork] = []
    for loop in work.loops:
        if loop.total_trips is None:
            loop = _loop(loop, work, done, runs)
        done.append(loop)
    return tuple(done)


def _loop(loop: LoopWork, work: Workload, done: list[LoopWork], runs: dict[int, int]) -> LoopWork:
    inner = [
        other for other in work.loops if loop.line < other.line and other.end_line <= loop.end_line
    ]
    own = [
        count
        for line, count in runs.items()
        if loop.line < line <= loop.end_line and not _inside(line, inner)
    ]
    around = [o for o in done if o.line < loop.line <= o.end_line]
    entries = max(around, key=lambda o: o.line).total_trips if around else 1
    total = max(own, default=None)
    trips = loop.trips
    if trips is not None and entries is not None:
        total = trips * entries
    elif total is not None and entries and total % entries == 0:
        trips = total // entries
    return evolve(loop, trips=trips, total_trips=total, provenance=Provenance.SIMULATED)


def _inside(line: int, loops: Iterable[LoopWork]) -> bool:
    return any(loop.line <= line <= loop.end_line for loop in loops)
