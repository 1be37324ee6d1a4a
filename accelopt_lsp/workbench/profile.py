"""Profile one kernel: simulate (or measure) it and verify its outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.profiler.base import Failure, Job, Limits, Profiler, Progress
from accelopt_lsp.profiler.cache import ResultCache, cache_dir
from accelopt_lsp.profiler.simulator import SimulatorProfiler
from accelopt_lsp.profiler.yardsticks import by_known_problem
from accelopt_lsp.workbench.requests import (
    KernelRequest,
    RequestError,
    ResolvedKernel,
    resolve_kernel,
)
from accelopt_lsp.workbench.settings import SettingsError


@frozen(slots=True)
class ProfileRequest:
    """What to profile.

    Attributes:
        kernel: which kernel, with what.
        verify: compare outputs with the reference on one seed.
        backend: ``simulator``.
        timeline: file for a Chrome/Perfetto trace.
        what_ifs: also schedule with one thing changed at a time.
        use_cache: take the result of an earlier, equal request, and keep this one's.
        read_paths: further folders the kernel may read.
    """

    kernel: KernelRequest
    verify: bool = True
    backend: str = "simulator"
    timeline: Path | None = None
    what_ifs: bool = False
    use_cache: bool = True
    read_paths: tuple[Path, ...] = ()


@frozen(slots=True)
class ProfileReport:
    """What came of it: a profile or a failure, and what was profiled."""

    kernel: ResolvedKernel
    profile: Profile | None
    failure: Failure | None

    def to_json(self) -> dict[str, Any]:
        """The object of ``accelopt profile --json``; a failure has an ``error`` instead."""
        if self.profile is not None:
            return self.profile.to_json()
        assert self.failure is not None
        return failure_json(self.failure, self.kernel)


def failure_json(failure: Failure, kernel: ResolvedKernel) -> dict[str, Any]:
    """A failure as JSON, with the place in the kernel's file."""
    return {
        "schema_version": 1,
        "kernel": kernel.source.qualname,
        "target": kernel.target,
        "error": {
            "kind": failure.kind.value,
            "message": failure.message,
            "path": str(kernel.path),
            "line": failure.line,
            "column": failure.column,
            "code": failure.code,
        },
    }


def get_profiler(backend: str, *, use_cache: bool = True) -> Profiler:
    """The profiler of that name.

    Args:
        backend: ``simulator``.
        use_cache: keep results in the user's cache folder, and take them from there.

    Raises:
        RequestError: no such backend is configured.
    """
    if backend == "simulator":
        return SimulatorProfiler(results=ResultCache(cache_dir()) if use_cache else None)
    raise RequestError(f"no backend {backend!r} is configured; available: simulator")


def job_for(kernel: ResolvedKernel, *, seeds: tuple[int, ...] = ()) -> Job:
    """The job that runs a resolved kernel."""
    return Job(
        path=kernel.path,
        source=kernel.text,
        function=kernel.source.qualname,
        arguments=kernel.arguments,
        target=kernel.target,
        nki_version=kernel.settings.nki_version or kernel.arguments.nki_version,
        seeds=seeds,
        reference=kernel.reference,
        read_paths=tuple(Path(p) for p in kernel.settings.read_paths),
        limits=Limits(seconds=kernel.settings.timeout_seconds),
    )


async def profile_kernel(
    request: ProfileRequest, progress: Progress | None = None
) -> ProfileReport:
    """Run a kernel on a profiler. Cancelling the task kills the run.

    Without a reference there is nothing to verify against; the report then says so in the
    profile's notes, and ``correct`` is None.

    Raises:
        RequestError: the kernel cannot be found or lacks arguments.
        SettingsError: the project's settings cannot be used.
    """
    kernel = resolve_kernel(request.kernel)
    profiler = get_profiler(request.backend, use_cache=request.use_cache)
    job = _job(request, kernel)
    outcome = await profiler.profile(job, progress)
    if isinstance(outcome, Failure):
        return ProfileReport(kernel, None, outcome)
    return ProfileReport(kernel, _with_remark(outcome, request, job), None)


def known_profile(request: ProfileRequest) -> Profile | None:
    """What :func:`profile_kernel` would take from the cache of results. Runs nothing.

    None as well where the request cannot be carried out.
    """
    results = ResultCache(cache_dir())
    if request.backend != "simulator" or not request.use_cache or not results.path.exists():
        return None
    try:
        job = _job(request, resolve_kernel(request.kernel))
    except (RequestError, SettingsError):
        return None
    found = results.find(job)
    return None if found is None else _with_remark(by_known_problem(found, job), request, job)


def _job(request: ProfileRequest, kernel: ResolvedKernel) -> Job:
    verify = request.verify and kernel.reference is not None
    job = job_for(kernel, seeds=(0,) if verify else ())
    return evolve(
        job,
        timeline=request.timeline,
        what_ifs=request.what_ifs,
        read_paths=(*job.read_paths, *request.read_paths),
    )


def _with_remark(profile: Profile, request: ProfileRequest, job: Job) -> Profile:
    """Say so where verification was wanted and there is nothing to verify against."""
    if job.seeds or not request.verify:
        return profile
    remark = (
        "outputs not verified: no reference (name one with --reference or in the "
        "kernel's directive)"
    )
    return evolve(profile, notes=(*profile.notes, remark))
