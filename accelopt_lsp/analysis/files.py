"""Analysis of a whole file: kernels, arguments, workload, estimate, hints and diagnostics."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from attrs import evolve

from accelopt_lsp.analysis.arguments import discover_arguments, reference_candidates
from accelopt_lsp.analysis.callers import project_digest
from accelopt_lsp.analysis.directives import find_suppressions
from accelopt_lsp.analysis.hints import build_hints
from accelopt_lsp.analysis.kernels import KernelSource, detect_dialect, find_kernels
from accelopt_lsp.analysis.known_kernels import find_known, keep_known, kernel_key
from accelopt_lsp.analysis.machine import MAX_STEPS, Machine
from accelopt_lsp.analysis.repeated_loads import repeated_loads
from accelopt_lsp.analysis.results import (
    AnalysisOptions,
    FileAnalysis,
    KernelAnalysis,
    SyntaxAnalysis,
)
from accelopt_lsp.analysis.roofline import estimate, product_flops
from accelopt_lsp.analysis.rules import (
    Context,
    FileContext,
    Rule,
    Tier,
    one_per_cause,
    rules_of,
    without_repeats,
)
from accelopt_lsp.analysis.runner import run_kernel
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.workload import collect, issues_of, named_views
from accelopt_lsp.analysis.workspace import Dependency, Workspace
from accelopt_lsp.nki.arguments import KernelArguments
from accelopt_lsp.nki.diagnostics import Diagnostic
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.nkibench import known_yardstick
from accelopt_lsp.nki.targets import Target, get_target
from accelopt_lsp.nki.workload import Workload

FILE_STEPS = 75_000
"""Steps that all kernels of a file have together; beyond that, each gets the least number."""
LEAST_STEPS = 1_000
WHOLE_PROJECT = "**"
"""Name below a project's folder under which all of its files together are a dependency."""
SURE_ORIGINS = frozenset({"given", "directive", "reference", "annotation"})
"""Origins of arguments that no other file of the project could change."""
_log = logging.getLogger(__name__)
_PLATFORM = re.compile(r"""platform_target\s*=\s*["'](\w+)["']""")


def analyze_syntax(document: Document, *, options: AnalysisOptions | None = None) -> SyntaxAnalysis:
    """What the tree alone shows: the first tier, ready while a file is typed. Never raises."""
    options = options or AnalysisOptions()
    kernels = find_kernels(document)
    found = _tree_findings(document, kernels, options)
    return SyntaxAnalysis(detect_dialect(document), kernels, _reported(document, found, options))


def _tree_findings(
    document: Document, kernels: tuple[KernelSource, ...], options: AnalysisOptions
) -> list[Diagnostic]:
    context = FileContext(document, kernels, options.nki_version)
    found: list[Diagnostic] = []
    for rule in rules_of(Tier.SYNTAX):
        found.extend(_asked(rule, lambda r: r.check_file(context)))
    return found


def _asked(rule: type[Rule], question: Callable[[Rule], Iterator[Diagnostic]]) -> list[Diagnostic]:
    """What a rule finds; a defect of one rule costs that and nothing else."""
    try:
        return list(question(rule()))
    except Exception:
        _log.exception("rule %s failed", rule.code)
        return []


def analyze(
    document: Document,
    *,
    path: Path | None = None,
    options: AnalysisOptions | None = None,
    workspace: Workspace | None = None,
) -> FileAnalysis:
    """Analyze a file: both tiers. Runs nothing of it and never raises.

    Args:
        document: the file's text.
        path: where it is, to find references beside it and modules around it.
        options: what the caller decides.
        workspace: the files around it, as far as others have looked at them already; callers
            that keep one refresh it when files may have changed.
    """
    options = options or AnalysisOptions()
    workspace = workspace or Workspace()
    sources = find_kernels(document)
    kernels: list[KernelAnalysis] = []
    left = FILE_STEPS
    for source in sources:
        steps = max(min(left, MAX_STEPS), LEAST_STEPS)
        kernels.append(_analyzed(document, source, path, options, workspace, steps))
        left -= kernels[-1].steps
    found = _tree_findings(document, sources, options)
    for kernel in kernels:
        found.extend(kernel.diagnostics)
    return FileAnalysis(
        detect_dialect(document),
        tuple(kernels),
        _reported(document, found, options),
        _dependencies(document, kernels, path, workspace),
    )


def _dependencies(
    document: Document,
    kernels: Iterable[KernelAnalysis],
    path: Path | None,
    workspace: Workspace,
) -> tuple[Dependency, ...]:
    """What the kernels rest on, and the reference files that they have or could have."""
    found = {d.path: d.digest for kernel in kernels for d in kernel.dependencies}
    for kernel in kernels:
        if path is None:
            break
        references = [*reference_candidates(document, kernel.source, path)]
        if kernel.arguments.reference is not None:
            references.append(path.parent / kernel.arguments.reference)
        for place in references:
            source = workspace.source(place.absolute())
            found[str(place.absolute())] = None if source is None else source.digest
        if not SURE_ORIGINS.issuperset(_origins(kernel)):
            # Calls in other files gave its arguments, or could.
            project = workspace.project(path.absolute())
            found[str(project / WHOLE_PROJECT)] = project_digest(workspace, project)
    return tuple(Dependency(name, digest) for name, digest in sorted(found.items()))


def _origins(kernel: KernelAnalysis) -> Iterator[str]:
    for origin in kernel.arguments.origins.values():
        yield origin.partition(" ")[0]
    if kernel.arguments.missing:
        yield "missing"


def _analyzed(
    document: Document,
    kernel: KernelSource,
    path: Path | None,
    options: AnalysisOptions,
    workspace: Workspace,
    steps: int,
) -> KernelAnalysis:
    """One kernel; a defect of the analysis costs this kernel's figures and nothing else."""
    try:
        return analyze_kernel(
            document, kernel, path=path, options=options, workspace=workspace, steps=steps
        )
    except Exception as error:
        _log.exception("the analysis of %s failed", kernel.qualname)
        reason = f"the analysis failed ({type(error).__name__}: {error}); this is a defect"
        arguments = KernelArguments(missing=tuple(p.name for p in kernel.parameters))
        return KernelAnalysis(
            kernel,
            arguments,
            target_for(kernel, arguments, options).name,
            workload=Workload(unknowns=((kernel.line, reason),)),
        )


def target_for(
    kernel: KernelSource, arguments: KernelArguments, options: AnalysisOptions
) -> Target:
    """The target: caller, directive, decorator, setting, then trn1 for legacy, trn2 for current."""
    fallback = "trn1" if kernel.dialect is Dialect.LEGACY else "trn2"
    name = options.target or arguments.target or _declared(kernel) or options.default_target
    return get_target(name or fallback)


def _declared(kernel: KernelSource) -> str | None:
    """``platform_target`` of the decorator, if it names a generation."""
    found = _PLATFORM.search(kernel.decorator)
    if found is None:
        return None
    try:
        return get_target(found.group(1)).name
    except ValueError:
        return None


def analyze_kernel(
    document: Document,
    kernel: KernelSource,
    *,
    path: Path | None = None,
    options: AnalysisOptions | None = None,
    workspace: Workspace | None = None,
    steps: int = MAX_STEPS,
) -> KernelAnalysis:
    """Analyze one kernel of a file, in at most about so many steps. Never raises."""
    options = options or AnalysisOptions()
    overrides = options.overrides_for(kernel)
    workspace = workspace or Workspace()
    arguments = discover_arguments(
        document, kernel, path=path, overrides=overrides, workspace=workspace
    )
    if options.grid:
        arguments = evolve(arguments, grid=options.grid)
    target = target_for(kernel, arguments, options)
    key = kernel_key(document, kernel, arguments, target.name, path, options, steps)
    known = find_known(document, key, workspace)
    if known is not None:
        return evolve(known, source=kernel)
    machine = run_kernel(
        document, kernel, arguments, target, path=path, workspace=workspace, steps=steps
    )
    if machine is None:
        return KernelAnalysis(kernel, arguments, target.name)
    try:
        found = _read(document, kernel, arguments, machine, options, path)
    finally:
        machine.close()
    keep_known(document, key, found, machine.home)
    return found


def _read(
    document: Document,
    kernel: KernelSource,
    arguments: KernelArguments,
    machine: Machine,
    options: AnalysisOptions,
    path: Path | None,
) -> KernelAnalysis:
    """What a run tells about its kernel."""
    target = machine.target
    facts = collect(machine)
    workload = facts.workload
    flops = product_flops(issues_of(machine.records), target)
    stems = [Path(p).stem for p in (path, arguments.reference) if p is not None]
    known = known_yardstick(stems)
    profile = estimate(kernel.qualname, workload, target, flops, known)
    version = options.nki_version or arguments.nki_version
    context = Context(document, kernel, machine, workload, profile, version, facts, arguments)
    diagnostics: list[Diagnostic] = []
    for rule in rules_of(Tier.FULL):
        diagnostics.extend(_asked(rule, lambda r: r.check(context)))
    diagnostics = one_per_cause(diagnostics)
    return KernelAnalysis(
        source=kernel,
        arguments=arguments,
        target=target.name,
        workload=workload,
        profile=profile,
        hints=build_hints(workload, profile),
        views=named_views(machine),
        repeated_loads=repeated_loads(facts, machine, profile),
        diagnostics=_reported(document, without_repeats(diagnostics), options),
        dependencies=machine.home.dependencies(),
        steps=machine.budget.steps,
    )


def _reported(
    document: Document, found: Iterable[Diagnostic], options: AnalysisOptions
) -> tuple[Diagnostic, ...]:
    """Findings without duplicates and without what was switched off, in the text's order."""
    suppressions = find_suppressions(document) if options.suppressions else None
    kept: dict[tuple[object, ...], Diagnostic] = {}
    for raw in found:
        diagnostic = options.reported(raw)
        if diagnostic is None or (suppressions is not None and suppressions.hides(diagnostic)):
            continue
        key = (diagnostic.span, diagnostic.code, diagnostic.message)
        kept.setdefault(key, diagnostic)
    return tuple(sorted(kept.values(), key=lambda d: (d.span, d.code, d.message)))
