"""What analysis of a file yields."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, field, frozen

from accelopt_lsp.analysis.kernels import KernelSource
from accelopt_lsp.analysis.workspace import Dependency
from accelopt_lsp.nki.arguments import ArgumentSpec, KernelArguments
from accelopt_lsp.nki.diagnostics import Diagnostic, Severity, covers
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.nki.workload import NamedView, RepeatedLoad, Workload


@frozen(slots=True)
class AnalysisOptions:
    """What a caller may decide.

    Attributes:
        target: target that wins over what the file says.
        default_target: target for kernels that name none; None takes trn1 for legacy
            kernels and trn2 for current ones.
        nki_version: NKI version in force, such as ``0.6``; None is unknown.
        overrides: arguments that win over what the file says: SPECs by parameter, for all
            kernels of the file, or such mappings by a kernel's qualified name.
        grid: launch grid that wins over what the file says.
        ignore: codes that are not reported, or beginnings of codes: ``P`` for all of P.
        severities: severity by code, or by the beginning of codes; the longest one counts.
        suppressions: whether ``# accelopt: ignore`` comments count.
    """

    target: str | None = None
    default_target: str | None = None
    nki_version: str | None = None
    overrides: Mapping[str, ArgumentSpec | Mapping[str, ArgumentSpec]] = field(factory=dict)
    grid: tuple[int, ...] = ()
    ignore: tuple[str, ...] = ()
    severities: Mapping[str, Severity] = field(factory=dict)
    suppressions: bool = True

    def reported(self, diagnostic: Diagnostic) -> Diagnostic | None:
        """A finding as the caller wants it: None if not at all, or with another severity."""
        if covers(self.ignore, diagnostic.code):
            return None
        found = [c for c in self.severities if covers((c,), diagnostic.code)]
        if not found:
            return diagnostic
        return evolve(diagnostic, severity=self.severities[max(found, key=len)])

    def overrides_for(self, kernel: KernelSource) -> Mapping[str, ArgumentSpec]:
        """The overrides that apply to one kernel."""
        found: dict[str, ArgumentSpec] = {}
        for name, value in self.overrides.items():
            if not isinstance(value, Mapping):
                found[name] = value
            elif name in (kernel.qualname, kernel.name):
                found.update(value)
        return found


@frozen(slots=True)
class Hint:
    """A short figure to show at the end of a line.

    Attributes:
        line: from 1.
        kind: ``loop``, ``dma``, ``compute``, ``allocation``, ``reload`` or ``shape``.
        text: what is shown.
        detail: how the figure comes about, as markdown.
        share: of the kernel's time, or of the memory that it takes a part of (0 to 1); None
            where there is nothing to compare with.
        repeats_source: it only says again what stands on the line.
    """

    line: int
    kind: str
    text: str
    detail: str
    share: float | None = None
    repeats_source: bool = False


@frozen(slots=True)
class KernelAnalysis:
    """One kernel.

    Attributes:
        source: where it stands.
        arguments: what it was analyzed with.
        target: target name.
        workload: what was counted; None if the kernel could not be analyzed at all.
        profile: estimate; its latency is None where something was not counted.
        hints: by line.
        views: further names for tensors and their parts.
        repeated_loads: what loads that repeat cost, those that cost most first.
        diagnostics: findings in it.
        dependencies: other files that this rests on, with digests; those that were looked for
            and are absent have None.
        steps: how much work the interpretation was, in statements and expressions.
    """

    source: KernelSource
    arguments: KernelArguments
    target: str
    workload: Workload | None = None
    profile: Profile | None = None
    hints: tuple[Hint, ...] = ()
    views: tuple[NamedView, ...] = ()
    repeated_loads: tuple[RepeatedLoad, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    dependencies: tuple[Dependency, ...] = ()
    steps: int = 0


@frozen(slots=True)
class FileAnalysis:
    """One file.

    Attributes:
        dialect: None if the file imports no NKI.
        kernels: in the order of the text.
        diagnostics: all findings, syntax errors included, in the order of the text.
        dependencies: other files that any of this rests on, as for kernels.
    """

    dialect: Dialect | None
    kernels: tuple[KernelAnalysis, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    dependencies: tuple[Dependency, ...] = ()


@frozen(slots=True)
class SyntaxAnalysis:
    """What the tree of a file shows before anything is interpreted.

    Attributes:
        dialect: None if the file imports no NKI.
        kernels: in the order of the text.
        diagnostics: findings of the syntax tier, in the order of the text.
    """

    dialect: Dialect | None
    kernels: tuple[KernelSource, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
