"""A result whose file changed while the search ran: carry it over, and verify it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from accelopt_lsp.agents.normalise import around_function
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.profiler.base import Profiler
from accelopt_lsp.workbench.optimization import OptimizeReport
from accelopt_lsp.workbench.profile import get_profiler, job_for
from accelopt_lsp.workbench.requests import KernelRequest, ResolvedKernel, resolve_kernel


def stale(report: OptimizeReport, current_text: str) -> bool:
    """Whether the file changed since the run began, so that the result needs a re-check."""
    return current_text != report.kernel.text


def refit(report: OptimizeReport, current_text: str) -> str | None:
    """The result carried over to a text that changed outside the kernel.

    None if the kernel itself changed, if the result changes other parts of the file as well,
    or if there is no result. What comes out is not verified; see :func:`recheck`.
    """
    if report.new_text is None:
        return None
    if not stale(report, current_text):
        return report.new_text
    name = report.kernel.source.qualname
    old = around_function(report.kernel.text, name)
    new = around_function(report.new_text, name)
    current = around_function(current_text, name)
    if old is None or new is None or current is None:
        return None
    before, kernel, after = current
    if kernel != old[1] or (old[0], old[2]) != (new[0], new[2]):
        return None
    return before + new[1] + after


async def recheck(
    report: OptimizeReport,
    current_text: str,
    *,
    profiler: Profiler | None = None,
    backend: str = "simulator",
) -> OptimizeReport | None:
    """The result for the current text, verified again; None if it no longer holds.

    That of an unfinished run (``report.seeds``) is verified in any case, as a run does at its end.
    Both versions are profiled anew where the text changed, since a constant outside the kernel
    may have changed with it.
    """
    changed = stale(report, current_text)
    if not changed and not report.seeds:
        return report
    text = refit(report, current_text)
    if text is None:
        return None
    chosen = profiler or get_profiler(backend)
    request = KernelRequest(
        path=report.kernel.path,
        text=current_text,
        function=report.kernel.source.qualname,
        arguments=_given(report.kernel),
        target=report.kernel.target,
        reference=report.kernel.reference,
        grid=report.kernel.arguments.grid,
        settings=report.kernel.settings,
    )
    kernel = resolve_kernel(request)
    job = job_for(kernel)
    before = await chosen.profile(job)
    after = await chosen.profile(
        evolve(
            job,
            source=text,
            seeds=report.seeds or (0,),
            rescaled=report.rescaled,
            baseline=None if kernel.reference else current_text,
        )
    )
    if not isinstance(before, Profile) or not isinstance(after, Profile):
        return None
    if after.correct is not True or before.latency_ms is None or after.latency_ms is None:
        return None
    if after.latency_ms >= before.latency_ms:
        return None
    checked = "all seeds" if report.seeds else "one seed"
    note = f"the file changed during the run; the result was verified again on {checked}"
    return evolve(
        report,
        kernel=kernel,
        baseline=before,
        best=after,
        new_text=text,
        seeds=(),
        notes=(*report.notes, note) if changed else report.notes,
    )


def _given(kernel: ResolvedKernel) -> Mapping[str, Any]:
    """Arguments that callers gave, which win over what the text says."""
    origins = kernel.arguments.origins
    return {
        name: spec for name, spec in kernel.arguments.values.items() if origins.get(name) == "given"
    }
