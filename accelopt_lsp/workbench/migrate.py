"""Migrate legacy kernels to current NKI, and hold the result against the original."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from accelopt_lsp.analysis.kernels import find_kernels
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.arguments import KernelArguments
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.lines import split_lines
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.nki.targets import get_target
from accelopt_lsp.profiler.base import Job, Limits, Profiler
from accelopt_lsp.profiler.simulator import SimulatorProfiler
from accelopt_lsp.rewrites import NotApplicable
from accelopt_lsp.rewrites.migrate import migrate_text
from accelopt_lsp.workbench.requests import (
    KernelRequest,
    RequestError,
    ResolvedKernel,
    read_source,
    resolve_kernel,
)


@frozen(slots=True)
class MigrateRequest:
    """What to migrate.

    Attributes:
        kernel: a legacy kernel; its file is migrated as a whole, since it imports one dialect.
        partial: leave what cannot be migrated with a comment that says why.
        verify: run original and result on the same inputs.
        seeds: inputs to verify with.
    """

    kernel: KernelRequest
    partial: bool = False
    verify: bool = True
    seeds: tuple[int, ...] = (0,)


@frozen(slots=True)
class Check:
    """What a run of a migrated kernel showed.

    Attributes:
        function: qualified name.
        correct: whether outputs are those of the original; None if it was not run.
        error: largest relative error.
        reason: why it was not run, or what went wrong.
    """

    function: str
    correct: bool | None = None
    error: float | None = None
    reason: str = ""


@frozen(slots=True)
class MigrateReport:
    """What came of it.

    Attributes:
        path: file.
        text, new_text: before and after.
        by_hand: (line, reason) of what is left to do.
        checks: one for every kernel of the file.
    """

    path: Path
    text: str
    new_text: str
    by_hand: tuple[tuple[int, str], ...] = ()
    checks: tuple[Check, ...] = ()

    @property
    def diff(self) -> str:
        return "".join(
            difflib.unified_diff(
                split_lines(self.text),
                split_lines(self.new_text),
                f"a/{self.path.name}",
                f"b/{self.path.name}",
            )
        )

    @property
    def wrong(self) -> bool:
        """Whether some kernel is known to compute something else than before."""
        return any(check.correct is False for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """The object of ``accelopt migrate --json``."""
        return {
            "schema_version": 1,
            "file": str(self.path),
            "diff": self.diff,
            "by_hand": [{"line": line, "reason": reason} for line, reason in self.by_hand],
            "kernels": [
                {
                    "kernel": check.function,
                    "correct": check.correct,
                    "max_relative_error": check.error,
                    "reason": check.reason or None,
                }
                for check in self.checks
            ],
        }


async def migrate_file(request: MigrateRequest, profiler: Profiler | None = None) -> MigrateReport:
    """Migrate the kernels of a file.

    Raises:
        RequestError: no such file or kernel, no legacy kernel, or one that cannot be migrated;
            the message names the line and what to do by hand.
        SettingsError: the project's settings cannot be used.
    """
    path = request.kernel.path.resolve()
    text = read_source(path) if request.kernel.text is None else request.kernel.text
    found = [k for k in find_kernels(Document.parse(text)) if k.dialect is Dialect.LEGACY]
    if not found:
        raise RequestError(f"{path} has no kernel in the legacy dialect")
    names = [k.qualname for k in found]
    wanted = request.kernel.function
    if wanted is not None and wanted not in names and wanted not in {k.name for k in found}:
        raise RequestError(f"{path} has no legacy kernel {wanted!r}; it has {', '.join(names)}")
    resolved: dict[str, ResolvedKernel] = {}
    missing: dict[str, str] = {}
    for kernel in found:
        own = wanted in (None, kernel.qualname, kernel.name)
        given = request.kernel.arguments if own and len(found) == 1 or wanted and own else {}
        try:
            resolved[kernel.qualname] = resolve_kernel(
                evolve(request.kernel, text=text, function=kernel.qualname, arguments=dict(given))
            )
        except RequestError as error:
            missing[kernel.qualname] = str(error)
    arguments = {name: k.arguments for name, k in resolved.items()}
    target = next((k.target for k in resolved.values()), request.kernel.target or "trn1")
    try:
        made = migrate_text(text, arguments, get_target(target), partial=request.partial)
    except NotApplicable as error:
        first = next(iter(missing.values()), "")
        hint = f" ({first})" if "not known" in str(error) and first else ""
        raise RequestError(f"{path.name}: {error}{hint}") from None
    report = MigrateReport(path, text, made.text, made.by_hand)
    if not request.verify:
        return report
    checks = [Check(name, reason=reason) for name, reason in missing.items()]
    if made.by_hand:
        checks += [Check(name, reason="something is left to do by hand") for name in resolved]
    else:
        runner = profiler or SimulatorProfiler()
        for name, kernel_found in resolved.items():
            checks.append(await _checked(name, kernel_found, made.text, request.seeds, runner))
    return evolve(report, checks=tuple(checks))


async def _checked(
    name: str, kernel: ResolvedKernel, new_text: str, seeds: tuple[int, ...], profiler: Profiler
) -> Check:
    """Run a migrated kernel on the inputs of the original, and compare."""
    return await check_migration(
        Job(
            path=kernel.path,
            source=new_text,
            function=name,
            arguments=kernel.arguments,
            target=kernel.target,
            seeds=seeds,
            baseline=kernel.text,
        ),
        profiler,
    )


async def check_migration(job: Job, profiler: Profiler | None = None) -> Check:
    """Whether a migrated kernel computes what its baseline or reference computes."""
    runner = profiler or SimulatorProfiler()
    outcome = await runner.profile(job)
    if isinstance(outcome, Profile):
        return Check(job.function, outcome.correct, outcome.max_relative_error)
    if job.baseline is not None:
        own = await runner.profile(evolve(job, source=job.baseline))
        if not isinstance(own, Profile):
            reason = f"the original does not run either: {own.message}"
            return Check(job.function, None, reason=reason)
    return Check(job.function, False, reason=str(outcome.message))


__all__ = [
    "Check",
    "KernelArguments",
    "Limits",
    "MigrateReport",
    "MigrateRequest",
    "check_migration",
    "migrate_file",
]
