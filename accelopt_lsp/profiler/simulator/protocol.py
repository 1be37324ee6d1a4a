"""What parent and child processes say to each other: one JSON object a line.

A kernel child runs kernels; a judge child makes inputs, runs references and compares outputs.
They are two processes so that a kernel never shares memory with the outputs it is compared to.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import attrs
from attrs import field, frozen

from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.profiler.base import Failure, FailureKind
from accelopt_lsp.profiler.simulator.variants import Variant, variant_from_dict

MAX_LINE = 64 << 20
"""Longest message that is read, in bytes."""


class Role(StrEnum):
    """What a child is for."""

    KERNEL = "kernel"
    JUDGE = "judge"


@frozen(slots=True)
class Run:
    """One run of a kernel.

    Attributes:
        seed: of its inputs; None when only shapes are traced.
        arguments: parameter to encoded value, in the order of the call.
    """

    seed: int | None
    arguments: Mapping[str, Any]


@frozen(slots=True)
class Access:
    """What a child may use.

    Attributes:
        scratch: folder it may write to.
        project: folder of the kernel's project.
        read_paths: further folders it may read.
        hidden: files that it may not read.
        seconds, memory_bytes, instructions: limits of the job.
    """

    scratch: str
    project: str
    read_paths: tuple[str, ...]
    seconds: float
    memory_bytes: int
    instructions: int
    hidden: tuple[str, ...] = ()


@frozen(slots=True)
class KernelTask:
    """What a kernel child is to do.

    Attributes:
        token: to be repeated in every answer.
        path, source, function: the kernel.
        specs: SPECs of arguments for a run that only traces shapes.
        grid: launch grid.
        runs: runs with values, in order; the first one is traced.
        profile: schedule the trace and send a profile.
        timeline: file in the scratch folder for a Chrome trace.
        nki_version: NKI version in force; names that it lacks are rejected.
        what_ifs: schedule the trace with one thing changed at a time, too.
        variants: further schedules of the trace, each answered by a compact profile.
        abridged: a trace of shapes may leave out iterations that are proved alike.
    """

    token: str
    access: Access
    path: str
    source: str
    function: str
    target: str
    grid: tuple[int, ...] = ()
    specs: Mapping[str, str] = field(factory=dict)
    runs: tuple[Run, ...] = ()
    profile: bool = True
    timeline: str | None = None
    nki_version: str | None = None
    what_ifs: bool = False
    variants: tuple[Variant, ...] = ()
    abridged: bool = True


@frozen(slots=True)
class JudgeTask:
    """What a judge child is to do.

    Attributes:
        specs: SPEC by parameter, of those that are known.
        explicit: parameters whose SPEC wins over the reference's ``get_inputs``.
        seeds: inputs to make; empty for shapes only.
        rescaled: (scale, shift) of seeds that stand for inputs of another scale.
        reference: file with ``forward``.
        cache: folder for expected outputs.
        cache_key: what else the expected outputs depend on (source of the baseline).
    """

    token: str
    access: Access
    path: str
    source: str
    function: str
    specs: Mapping[str, str]
    explicit: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    rescaled: Mapping[int, tuple[float, float]] = field(factory=dict)
    reference: str | None = None
    cache: str | None = None
    cache_key: str = ""


def to_json(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def task_to_dict(task: KernelTask | JudgeTask) -> dict[str, Any]:
    return attrs.asdict(task)


def _access(data: Mapping[str, Any]) -> Access:
    paths = {name: tuple(data[name]) for name in ("read_paths", "hidden")}
    return Access(**{**data, **paths})


def kernel_task(data: Mapping[str, Any]) -> KernelTask:
    """Read a task."""
    values = dict(data)
    values["access"] = _access(values["access"])
    values["grid"] = tuple(values["grid"])
    values["runs"] = tuple(Run(r["seed"], r["arguments"]) for r in values["runs"])
    values["variants"] = tuple(variant_from_dict(v) for v in values["variants"])
    return KernelTask(**values)


def judge_task(data: Mapping[str, Any]) -> JudgeTask:
    """Read a task."""
    values = dict(data)
    values["access"] = _access(values["access"])
    values["explicit"] = tuple(values["explicit"])
    values["seeds"] = tuple(values["seeds"])
    values["rescaled"] = {
        int(s): (scale, shift) for s, (scale, shift) in values["rescaled"].items()
    }
    return JudgeTask(**values)


def profile_to_dict(profile: Profile) -> dict[str, Any]:
    return attrs.asdict(profile)


def profile_from_dict(data: Mapping[str, Any]) -> Profile:
    """Read a profile.

    Raises:
        Exception: it is none (the child is not to be trusted).
    """
    import cattrs

    found: Profile = cattrs.Converter().structure(data, Profile)
    return found


def failure_to_dict(failure: Failure) -> dict[str, Any]:
    return attrs.asdict(failure)


def failure_from_dict(data: Mapping[str, Any]) -> Failure:
    """Read a failure.

    Raises:
        Exception: it is none.
    """
    values = dict(data)
    values["kind"] = FailureKind(values["kind"])
    values["message"] = str(values["message"])
    values["trace"] = tuple((str(f), int(n), str(t)) for f, n, t in values["trace"])
    return Failure(**values)


class Channel:
    """The child's end: private descriptors, out of reach of prints.

    Attributes:
        reads: files read since the last answer, which the next one names: a result depends on them.
    """

    def __init__(self, read_fd: int, write_fd: int, token: str = "") -> None:
        self.read_fd = read_fd
        self.write_fd = write_fd
        self.token = token
        self.reads: list[str] = []
        self._buffer = b""

    def send(self, event: str, **values: Any) -> None:
        if self.reads:
            reads = set()
            # Another thread may add to them meanwhile.
            while self.reads:
                reads.add(self.reads.pop())
            values["reads"] = sorted(reads)
        data = to_json({"token": self.token, "event": event, **values})
        view = memoryview(data)
        while view:
            view = view[os.write(self.write_fd, view) :]

    def receive(self) -> dict[str, Any] | None:
        """The next message; None at the end."""
        while b"\n" not in self._buffer:
            chunk = os.read(self.read_fd, 1 << 20)
            if not chunk:
                return None
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message


def project_of(path: Path) -> Path:
    """Folder of the project that a kernel belongs to: what it may read.

    That is the closest folder with a project file, else the kernel's package, else its folder.
    """
    folder = path.resolve().parent
    for candidate in (folder, *folder.parents):
        if any((candidate / mark).exists() for mark in ("pyproject.toml", ".git", "setup.py")):
            return candidate
    while (folder / "__init__.py").exists() and (folder.parent / "__init__.py").exists():
        folder = folder.parent
    return folder
