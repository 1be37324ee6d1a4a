"""The parent's side of the simulator: starts the children, feeds them, never trusts them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import evolve

from accelopt_lsp.nki.arguments import FileSpec, spec_leaves
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.profiler.base import Failure, FailureKind, Job, Progress
from accelopt_lsp.profiler.simulator.errors import KernelNotFound
from accelopt_lsp.profiler.simulator.process import Child, ChildEnded
from accelopt_lsp.profiler.simulator.protocol import (
    Access,
    JudgeTask,
    KernelTask,
    Role,
    Run,
    failure_from_dict,
    profile_from_dict,
    project_of,
    task_to_dict,
)
from accelopt_lsp.profiler.simulator.signature import kernel_parameters
from accelopt_lsp.profiler.simulator.variants import (
    Variant,
    VariantError,
    VariantProfile,
    variant_profile_from_dict,
)

GRACE_SECONDS = 6.0
"""Time beyond its own limit that a child gets to say so itself."""
_EXPLICIT_ORIGINS = frozenset({"given", "directive"})


class JobFailed(Exception):
    """Carries a failure to the end of the job."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class JobRun:
    """One job under way.

    Args:
        profiled: a profile is wanted, not only the verdicts on the job's seeds.
        variants: further schedules of the trace that are wanted.
    """

    def __init__(
        self,
        job: Job,
        scratch: Path,
        progress: Progress | None,
        *,
        profiled: bool = True,
        variants: tuple[Variant, ...] = (),
    ) -> None:
        self.job = job
        self.scratch = scratch
        self.progress = progress
        self.profiled = profiled
        self.children: list[Child] = []
        self.judge: Child | None = None
        self.kernel: Child | None = None
        self.verdicts: dict[int, dict[str, Any]] = {}
        self.profile_found: Profile | None = None
        self.variants = variants
        self.variants_found: list[VariantProfile] = []

    @property
    def reads(self) -> set[str]:
        """Files that the job's processes read; what they found depends on them."""
        found: set[str] = set()
        return found.union(*(child.reads for child in self.children))

    async def close(self) -> None:
        await asyncio.gather(*(c.kill() for c in self.children), return_exceptions=True)
        await asyncio.to_thread(shutil.rmtree, self.scratch, True)

    def report(self, message: str, share: float | None = None) -> None:
        if self.progress is not None:
            with contextlib.suppress(Exception):
                self.progress(message, share)

    def access(self) -> Access:
        job = self.job
        return Access(
            scratch=str(self.scratch),
            project=str(project_of(job.path)),
            read_paths=(*(str(p.resolve()) for p in job.read_paths), *self.given_files()),
            seconds=job.limits.seconds,
            memory_bytes=job.limits.memory_bytes,
            instructions=job.limits.instructions,
            hidden=tuple(str(path.resolve()) for path in job.hidden),
        )

    def given_files(self) -> list[str]:
        """Files that the user named as arguments; a directive in the text gives no such right."""
        values, origins = self.job.arguments.values, self.job.arguments.origins
        folder = self.job.path.parent
        return [
            str((folder / part.path).resolve())
            for name, spec in values.items()
            if origins.get(name, "given") == "given"
            for part in spec_leaves(spec)
            if isinstance(part, FileSpec)
        ]

    async def start(self, role: Role) -> Child:
        child = await Child.start(role, self.scratch)
        self.children.append(child)
        return child

    async def run(self) -> None:
        """Run the job; what it finds is in the attributes then.

        Raises:
            JobFailed: there is no profile, or no verdict.
        """
        job = self.job
        with_reference = job.reference is not None
        needs_judge = bool(job.seeds) or (with_reference and self.lacks_values())
        # Both start at once: one imports while the other makes inputs.
        self.kernel = await self.start(Role.KERNEL)
        runs: tuple[Run, ...] = ()
        known: frozenset[int] = frozenset()
        if needs_judge:
            self.judge = await self.start(Role.JUDGE)
            await self.judge.send(task_to_dict(self.judge_task(self.judge.token)))
            runs = await self.inputs()
            if not with_reference and job.baseline is not None and job.seeds:
                known = await self.baseline(runs)
        await self.run_kernel(runs, known)
        if self.profiled and self.profile_found is None:
            raise JobFailed(Failure(FailureKind.CRASH, "the kernel's process sent no profile"))
        if len(self.variants_found) != len(self.variants):
            raise JobFailed(Failure(FailureKind.CRASH, "the kernel's process left variants out"))
        await self.save_timeline()

    def lacks_values(self) -> bool:
        """Whether parameters have no SPEC, so that only the reference can tell them."""
        try:
            parameters = kernel_parameters(self.job.source, self.job.function)
        except (SyntaxError, ValueError, RecursionError, MemoryError, KernelNotFound):
            return False
        return any(p.required and p.name not in self.job.arguments.values for p in parameters)

    def judge_task(self, token: str) -> JudgeTask:
        job = self.job
        values = job.arguments.values
        origins = job.arguments.origins
        explicit = tuple(n for n in values if origins.get(n, "given") in _EXPLICIT_ORIGINS)
        baseline = job.baseline if job.reference is None else None
        return JudgeTask(
            token=token,
            access=evolve(self.access(), hidden=()),
            path=str(job.path),
            source=job.source,
            function=job.function,
            specs={n: str(s) for n, s in values.items()},
            explicit=explicit,
            seeds=job.seeds,
            rescaled={r.seed: (r.scale, r.shift) for r in job.rescaled if r.seed in job.seeds},
            reference=None if job.reference is None else str(job.reference.resolve()),
            cache=None if job.cache is None else str(job.cache.resolve()),
            cache_key="" if baseline is None else f"{job.target}\0{job.arguments.grid}\0{baseline}",
        )

    def kernel_task(self, child: Child, runs: tuple[Run, ...], **changes: Any) -> dict[str, Any]:
        job = self.job
        task = KernelTask(
            token=child.token,
            access=self.access(),
            path=str(job.path),
            source=job.source,
            function=job.function,
            target=job.target,
            nki_version=job.nki_version,
            grid=tuple(job.arguments.grid),
            specs={n: str(s) for n, s in job.arguments.values.items()},
            runs=runs,
            profile=self.profiled,
            what_ifs=job.what_ifs,
            abridged=job.abridged,
            variants=self.variants,
            timeline=None if job.timeline is None else "timeline.json",
        )
        return task_to_dict(evolve(task, **changes))

    async def inputs(self) -> tuple[Run, ...]:
        """Inputs of all runs, from the judge."""
        assert self.judge is not None
        self.report("making inputs")
        runs = []
        for _ in self.job.seeds or (None,):
            message = await self.answer(self.judge, "inputs")
            runs.append(Run(message["seed"], message["arguments"]))
        return tuple(runs)

    async def answer(self, child: Child, *events: str) -> dict[str, Any]:
        """The next answer of a child.

        Raises:
            JobFailed: it reports a failure, or ends.
        """
        limit = self.job.limits.seconds + GRACE_SECONDS
        try:
            async with asyncio.timeout(limit):
                message = await child.next(*events)
        except TimeoutError:
            raise JobFailed(self.out_of_time(child)) from None
        except ChildEnded:
            raise JobFailed(await self.crashed(child)) from None
        if message["event"] == "failure":
            raise JobFailed(_failure(message, self.job.reference))
        return message

    async def baseline(self, runs: tuple[Run, ...]) -> frozenset[int]:
        """Outputs of the baseline kernel become the expected ones, unless they are cached."""
        job = self.job
        assert self.judge is not None and job.baseline is not None
        ready = await self.answer(self.judge, "ready")
        known = frozenset(ready["expected"])
        wanted = tuple(r for r in runs if r.seed not in known)
        if not wanted or job.baseline == job.source:
            return frozenset(job.seeds) if job.baseline != job.source else frozenset({-1})
        self.report("running the baseline for reference")
        child = await self.start(Role.KERNEL)
        await child.send(
            self.kernel_task(
                child, wanted, source=job.baseline, profile=False, timeline=None, variants=()
            )
        )
        for _ in wanted:
            message = await self.answer(child, "outputs")
            await self.judge.send({"command": "expect", **_outputs(message)})
            await self.answer(self.judge, "expected")
        await child.kill()
        return frozenset(job.seeds)

    async def run_kernel(self, runs: tuple[Run, ...], known: frozenset[int]) -> None:
        """Run the kernel; outputs go to the judge as they come."""
        assert self.kernel is not None
        job, kernel = self.job, self.kernel
        await kernel.send(self.kernel_task(kernel, runs))
        judged = (
            self.judge is not None
            and bool(job.seeds)
            and (job.reference is not None or job.baseline is not None)
        )
        pending: asyncio.Task[None] | None = None
        outputs: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        if judged:
            pending = asyncio.create_task(self.judge_outputs(outputs, known))
        try:
            await self.follow(kernel, outputs if judged else None, len(runs), pending)
            outputs.put_nowait(None)
            if pending is not None:
                await pending
        finally:
            if pending is not None and not pending.done():
                pending.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await pending

    async def follow(
        self,
        kernel: Child,
        outputs: asyncio.Queue[dict[str, Any] | None] | None,
        runs: int,
        judging: asyncio.Task[None] | None,
    ) -> None:
        limit = self.job.limits.seconds + GRACE_SECONDS
        finished = 0
        try:
            async with asyncio.timeout(limit):
                async for message in kernel.events():
                    event = message.get("event")
                    if event == "progress":
                        share = finished / (runs + 1) if runs else None
                        self.report(str(message.get("message"))[:200], share)
                    elif event == "outputs":
                        finished += 1
                        if outputs is not None:
                            outputs.put_nowait(message)
                    elif event == "profile":
                        self.profile_found = _profile(message)
                    elif event == "variant":
                        self.variants_found.append(_variant(message, len(self.variants_found)))
                    elif event == "failure":
                        raise JobFailed(_failure(message, None))
                    elif event == "done":
                        return
                    wrong = any(not v["correct"] for v in self.verdicts.values())
                    if wrong and (self.profile_found is not None or not self.profiled):
                        return
                    if judging is not None and judging.done():
                        judging.result()
        except TimeoutError:
            raise JobFailed(self.out_of_time(kernel)) from None
        except ChildEnded:
            pass
        raise JobFailed(await self.crashed(kernel))

    async def judge_outputs(
        self, outputs: asyncio.Queue[dict[str, Any] | None], known: frozenset[int]
    ) -> None:
        """Compare each run's outputs with what they should be."""
        judge = self.judge
        assert judge is not None
        itself = known == frozenset({-1})
        if self.job.reference is not None:
            await self.answer(judge, "ready")
        rescaled = {r.seed for r in self.job.rescaled}
        while (message := await outputs.get()) is not None:
            seed = int(message["seed"])
            if itself and seed in rescaled:
                # The baseline is right by definition, but may overflow at another scale.
                await judge.send({"command": "expect", **_outputs(message)})
                answer = await self.answer(judge, "expected")
                self.verdicts[seed] = {"correct": answer["finite"], "error": 0.0, "message": ""}
                continue
            if itself:
                self.verdicts[seed] = {"correct": True, "error": 0.0, "message": ""}
                continue
            await judge.send({"command": "compare", **_outputs(message)})
            self.verdicts[seed] = await self.answer(judge, "verdict")

    async def save_timeline(self) -> None:
        made = self.scratch / "timeline.json"
        if self.job.timeline is not None and made.is_file() and not made.is_symlink():
            try:
                self.job.timeline.parent.mkdir(parents=True, exist_ok=True)
                await asyncio.to_thread(shutil.move, made, self.job.timeline)
            except OSError as error:
                why = f"cannot write the timeline {self.job.timeline}: {error.strerror or error}"
                raise JobFailed(Failure(FailureKind.ARGUMENTS, why)) from None

    def timed_out(self) -> Failure:
        return self.out_of_time(self.kernel)

    def out_of_time(self, child: Child | None) -> Failure:
        line = None if child is None else child.line
        subject = "the reference" if child is not None and child is self.judge else "the kernel"
        place = "" if line is None else f"; it was at line {line}"
        return Failure(
            FailureKind.TIMEOUT,
            f"{subject} did not end within {self.job.limits.seconds:g} seconds{place}",
            line,
        )

    async def crashed(self, child: Child) -> Failure:
        """Explain the end of a child that sent no answer."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(child.process.wait(), 2)
        code = child.process.returncode
        subject = "the reference's process" if child is self.judge else "the kernel's process"
        line = self.stuck_line() or child.line
        place = "" if line is None else f"; it was at line {line}"
        stuck = self.scratch / "stuck.txt"
        if stuck.is_file() and b"Timeout" in stuck.read_bytes()[:200]:
            return evolve(self.out_of_time(child), line=line)
        if code == -signal.SIGKILL:
            return Failure(
                FailureKind.MEMORY, f"{subject} was killed, probably for its memory{place}", line
            )
        if code == -signal.SIGXCPU:
            return self.out_of_time(child)
        what = f"signal {signal.Signals(-code).name}" if code and code < 0 else f"exit code {code}"
        said = self.last_words()
        if said:
            return Failure(FailureKind.CRASH, f"{subject} ended by {what}: {said}", line)
        return Failure(FailureKind.CRASH, f"{subject} ended by {what}{place}", line)

    def last_words(self) -> str:
        """What a child wrote to its standard error before any user code ran."""
        try:
            text = (self.scratch / "stderr.txt").read_text("utf-8", "replace")[-2000:]
        except OSError:
            return ""
        return text.strip().rpartition("\n")[2][:300]

    def stuck_line(self) -> int | None:
        """Line of the kernel's file in a stack that was written when nothing else worked."""
        try:
            text = (self.scratch / "stuck.txt").read_text("utf-8", "replace")[:20_000]
        except OSError:
            return None
        for row in text.splitlines():
            if f'File "{self.job.path}", line ' in row:
                digits = row.partition(", line ")[2].partition(" ")[0]
                return int(digits) if digits.isdigit() else None
        return None


def _outputs(message: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a kernel's answer that the judge needs."""
    return {
        "seed": int(message["seed"]),
        "single": bool(message.get("single")),
        "outputs": [
            {"file": os.path.basename(str(o["file"])), "dtype": str(o["dtype"])}
            for o in message["outputs"]
        ],
    }


def _profile(message: Mapping[str, Any]) -> Profile:
    try:
        return profile_from_dict(message["profile"])
    except Exception as error:
        raise JobFailed(
            Failure(FailureKind.CRASH, f"the kernel's process sent no valid profile ({error})")
        ) from error


def _variant(message: Mapping[str, Any], number: int) -> VariantProfile:
    try:
        if message.get("number") != number:
            raise VariantError("out of order")
        return variant_profile_from_dict(message.get("profile"))
    except VariantError as error:
        raise JobFailed(
            Failure(FailureKind.CRASH, f"the kernel's process sent no valid variant ({error})")
        ) from error


def _failure(message: Mapping[str, Any], reference: Path | None) -> Failure:
    try:
        return failure_from_dict(message["failure"])
    except Exception as error:
        raise JobFailed(
            Failure(FailureKind.CRASH, f"the child sent no valid failure ({error})")
        ) from error
