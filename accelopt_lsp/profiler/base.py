"""The contract of every profiler: a job goes in, a profile or a failure comes out."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from attrs import field, frozen

from accelopt_lsp.nki.arguments import KernelArguments
from accelopt_lsp.nki.profile import Profile

VALUES_DECIDE = "how often loops run depends on values"
"""How the note begins that says whether a profile is that of certain inputs."""
VERIFICATION_SEEDS = (0, 21, 42, 63, 84)
"""Seeds that a result must be verified on before it is offered."""


@frozen(slots=True)
class Limits:
    """What a child process may use.

    Attributes:
        seconds: wall-clock time of the whole job.
        memory_bytes: address space of the child.
        instructions: issued instructions before a kernel counts as endless.
    """

    seconds: float = 300.0
    memory_bytes: int = 12 << 30
    instructions: int = 5_000_000


@frozen(slots=True)
class Rescaling:
    """Inputs of another scale: what a kernel computes must not hang on how large its inputs are.

    Every floating-point tensor becomes ``(x + shift * rms(x)) * scale``, or all ``shift * scale``
    where it was all zero; masks and other tensors of two values, integers, booleans and scalars
    stay.

    Attributes:
        seed: of the inputs; no other run of a job has it.
        scale, shift: the change, the shift in units of a tensor's root mean square.
    """

    seed: int
    scale: float
    shift: float = 0.0

    def __str__(self) -> str:
        shifted = f"shifted by {self.shift:g} of their root mean square, " if self.shift else ""
        return f"inputs {shifted}times {self.scale:g}"


@frozen(slots=True)
class Job:
    """One kernel to run.

    Attributes:
        path: file the source belongs to; relative imports and messages refer to it.
        source: text of the file, which may differ from what is on disk.
        function: qualified name of the kernel in it.
        arguments: what to call it with.
        target: target name.
        nki_version: NKI version in force, such as ``0.6``; None is unknown.
        seeds: inputs to verify with, one run each; empty to trace shapes only.
        rescaled: which of the seeds stand for inputs of another scale.
        reference: file with ``forward`` (and, optionally, ``get_inputs``,
            ``transform_to_nki_inputs``, ``transform_nki_outputs``, ``rtol``).
        baseline: source whose kernel of the same name gives the expected outputs when there
            is no reference.
        cache: folder where expected outputs are kept between jobs with equal inputs.
        read_paths: further folders the kernel may read.
        hidden: files that the kernel may not read, wherever they are.
        limits: what the child may use.
        timeline: file to write a Chrome/Perfetto trace to.
        what_ifs: also schedule with one thing changed at a time.
        abridged: trace a few iterations of loops for all of them, where these are proved alike;
            the trace is the same either way.
    """

    path: Path
    source: str
    function: str
    arguments: KernelArguments
    target: str
    seeds: tuple[int, ...] = ()
    rescaled: tuple[Rescaling, ...] = ()
    reference: Path | None = None
    baseline: str | None = None
    cache: Path | None = None
    read_paths: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    limits: Limits = Limits()
    timeline: Path | None = None
    nki_version: str | None = None
    what_ifs: bool = False
    abridged: bool = True


class FailureKind(StrEnum):
    """Why there is no profile."""

    SYNTAX = "syntax"
    NOT_FOUND = "not-found"
    ARGUMENTS = "arguments"
    REJECTED = "rejected"
    UNSUPPORTED = "unsupported"
    EXCEPTION = "exception"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    SANDBOX = "sandbox"
    CRASH = "crash"
    REFERENCE = "reference"


@frozen(slots=True)
class Failure:
    """A job without a profile: what went wrong, and where.

    Attributes:
        kind: what sort of failure.
        message: one clear sentence that says what to do.
        line, column: place in the job's source, from 1, if one is known.
        code: rule code, when a limit of the hardware was broken.
        trace: lines of the kernel's own stack, innermost last: (file, line, text).
    """

    kind: FailureKind
    message: str
    line: int | None = None
    column: int | None = None
    code: str | None = None
    trace: tuple[tuple[str, int, str], ...] = field(default=())


Outcome = Profile | Failure
Progress = Callable[[str, float | None], Any]
"""Called with a message and, where known, the share of the job that is done."""


class Profiler(Protocol):
    """Anything that can turn a job into a profile. Cancelling the task kills the job."""

    name: str

    async def profile(self, job: Job, progress: Progress | None = None) -> Outcome: ...
