"""What the server keeps of an analysis and of a finished job.

Made of the facts that rooms exchange and nothing else: no syntax tree, so that it travels
between processes and the server needs to import neither the analysis nor its parser.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from accelopt_lsp.nki.arguments import KernelArguments
from accelopt_lsp.nki.diagnostics import Diagnostic, Span
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.outline import BufferUse, Outline
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.nki.workload import LoopWork, NamedView, RepeatedLoad, Workload


@frozen(slots=True)
class HintView:
    """One inlay hint: text at the end of a line, and how the figure was derived.

    Attributes:
        share: of the kernel's time, or of the memory that it takes a part of; None if unknown.
        repeats_source: it only says again what stands on the line.
    """

    line: int
    kind: str
    text: str
    detail: str = ""
    share: float | None = None
    repeats_source: bool = False


@frozen(slots=True)
class KernelView:
    """One kernel of a file.

    Attributes:
        first_line, line, end_line: of the first decorator, of ``def``, of the last line.
        target: hardware that its figures are for.
        arguments: what it would be called with, and what is missing for that.
        directive: line that the user may insert above the kernel to give its arguments.
        nki_version: in force here, if known.
    """

    name: str
    qualname: str
    dialect: Dialect
    first_line: int
    line: int
    end_line: int
    name_span: Span
    target: str
    arguments: KernelArguments
    directive: str
    nki_version: str | None = None
    workload: Workload | None = None
    profile: Profile | None = None
    hints: tuple[HintView, ...] = ()
    views: tuple[NamedView, ...] = ()
    repeated_loads: tuple[RepeatedLoad, ...] = ()

    def loop_at(self, line: int) -> LoopWork | None:
        """The innermost loop whose lines hold a line."""
        loops = self.workload.loops if self.workload is not None else ()
        holding = [loop for loop in loops if loop.line <= line <= loop.end_line]
        return max(holding, key=lambda loop: loop.line, default=None)

    def covers(self, line: int) -> bool:
        return self.first_line <= line <= self.end_line

    @property
    def lacks(self) -> tuple[str, ...]:
        """Arguments that nobody gives; a reference file makes its own."""
        return () if self.arguments.reference is not None else self.arguments.missing


@frozen(slots=True)
class Snapshot:
    """A finished analysis of one text.

    Attributes:
        pages: rule code to a file with the rule's page.
        problem: why there are no results, for people.
        decided: codes of the rules that were asked; None means all of them.
        files: other files that it rests on, also those that were looked for in vain.
        project: the project's ``pyproject.toml`` and what is wrong with its settings.
        outline: definitions, loops and folds; None where nothing was parsed.
        buffers: uses of tensors whose memory is known.
    """

    dialect: Dialect | None = None
    kernels: tuple[KernelView, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    pages: Mapping[str, str] = field(factory=dict)
    problem: str | None = None
    decided: frozenset[str] | None = None
    files: frozenset[str] = frozenset()
    project: tuple[str, tuple[Diagnostic, ...]] | None = None
    outline: Outline | None = None
    buffers: tuple[BufferUse, ...] = ()

    def kernel_at(self, line: int) -> KernelView | None:
        """The innermost kernel that covers a line."""
        covering = [k for k in self.kernels if k.covers(line)]
        return max(covering, key=lambda k: k.first_line, default=None)

    def kernel_named(self, name: str) -> KernelView | None:
        return next((k for k in self.kernels if name in (k.qualname, k.name)), None)


@frozen(slots=True)
class Request:
    """A text and what to do with it, as children understand it.

    Attributes:
        path, text: the file.
        function: qualified name of the kernel; None for the whole file.
        settings: the client's settings that belong to the workbench.
        details: what only one use case needs.
    """

    path: str
    text: str
    function: str | None = None
    settings: Mapping[str, Any] = field(factory=dict)
    details: Mapping[str, Any] = field(factory=dict)


@frozen(slots=True)
class Situation:
    """What to ask the optimization memory about: instructions, and where they stand.

    Attributes:
        loops: depth of the deepest nest.
        arguments, profile: of the kernel; another run of the same kernel is the same situation.
    """

    kernel: str
    instructions: tuple[str, ...]
    bottleneck: str | None
    dialect: str
    target: str
    loops: int = 0
    arguments: KernelArguments = field(factory=KernelArguments, eq=False)
    profile: Profile | None = field(default=None, eq=False)


@frozen(slots=True)
class CheckedFile:
    """A file that is not open, and what is wrong with it."""

    path: str
    text: str
    diagnostics: tuple[Diagnostic, ...]


@frozen(slots=True)
class Learned:
    """A strategy of the optimization memory.

    Attributes:
        title: written by whoever learned it, a model perhaps; never markup.
        ratio: latency of the slower kernel over that of the faster one.
        figures: provenance of these.
        wins, losses: what came of using it again.
        page: file with its evidence, where there is one.
    """

    id: str
    title: str
    helpful: bool
    ratio: float
    figures: str
    wins: int
    losses: int
    page: str | None = None


@frozen(slots=True)
class Problem:
    """Why a job came to nothing: one clear sentence and, where known, a line of the text."""

    message: str
    line: int | None = None
    column: int | None = None
    code: str | None = None


@frozen(slots=True)
class Outcome:
    """What a job brought.

    Attributes:
        profile: of the kernel as it is.
        best: of the best version found.
        speedup: old latency over new; None if there is no better version.
        new_text: the file with the better kernel.
        changes: what was done to it, in one line each.
        notes: remarks for people.
        problem: why there is no result.
        unfinished: the run was cancelled; this is the best that it had found.
        report: the workbench's own report, for its re-check; closed to the server.
    """

    kernel: str
    run: str | None = None
    profile: Profile | None = None
    best: Profile | None = None
    speedup: float | None = None
    correct: bool | None = None
    new_text: str | None = None
    changes: tuple[str, ...] = ()
    evaluations: int = 0
    notes: tuple[str, ...] = ()
    problem: Problem | None = None
    unfinished: bool = False
    report: bytes = field(default=b"", repr=False)
