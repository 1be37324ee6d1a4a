"""Where a kernel's arguments come from, without running anything.

The first source that knows a parameter wins: overrides, directive, reference file, annotation,
asserts and unpackings in the body, call sites in the same file, call sites in other files of
the project.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from accelopt_lsp.analysis.directives import (
    directive_template,
    kernel_directive,
    parse_directive,
)
from accelopt_lsp.analysis.kernels import KernelSource, Parameter, find_kernels
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.workspace import Workspace
from accelopt_lsp.nki.arguments import ArgumentSpec, KernelArguments
from accelopt_lsp.nki.files import is_file

__all__ = [
    "directive_template",
    "discover_arguments",
    "find_reference",
    "needed_parameters",
    "parse_directive",
]


def needed_parameters(kernel: KernelSource) -> tuple[Parameter, ...]:
    """Parameters that a caller must supply or may override; no ``self``, no stars."""
    return tuple(
        p
        for index, p in enumerate(kernel.parameters)
        if p.kind in ("positional", "keyword") and not (index == 0 and p.name in ("self", "cls"))
    )


def discover_arguments(
    document: Document,
    kernel: KernelSource,
    *,
    path: Path | None = None,
    overrides: Mapping[str, ArgumentSpec] | None = None,
    workspace: Workspace | None = None,
) -> KernelArguments:
    """What to call a kernel with, as far as the source tells. Never raises.

    Args:
        document: file of the kernel.
        kernel: which kernel.
        path: where the file is, to look for a reference beside it.
        overrides: SPECs that win over everything.
        workspace: the files around it, in which calls are looked for; None looks in no other file.
    """
    from accelopt_lsp.analysis.inference import annotated, call_site_grid, inferred, referenced

    directive = kernel_directive(document, kernel)
    reference = directive.reference
    if reference is None and path is not None:
        found = find_reference(document, kernel, path)
        reference = None if found is None else found.relative_to(path.parent).as_posix()
    values: dict[str, ArgumentSpec] = {}
    origins: dict[str, str] = {}

    def add(origin: str, specs: Mapping[str, ArgumentSpec]) -> None:
        for name, spec in specs.items():
            if name in names and name not in values:
                values[name] = spec
                origins[name] = origin

    parameters = needed_parameters(kernel)
    names = {p.name for p in parameters}
    add("given", overrides or {})
    add("directive", directive.values)

    def unresolved() -> list[Parameter]:
        return [p for p in parameters if p.name not in values and p.default is None]

    if reference is not None and path is not None and unresolved():
        add(f"reference {reference}", referenced(kernel, path.parent / reference))
    if unresolved():
        add("annotation", dict(annotated(document, kernel)))
    if unresolved():
        for origin, specs in inferred(document, kernel, path=path, workspace=workspace):
            add(origin, specs)
            if not unresolved():
                break
    return KernelArguments(
        values=values,
        target=directive.target,
        reference=reference,
        grid=directive.grid or call_site_grid(document, kernel),
        origins=origins,
        missing=tuple(p.name for p in unresolved()),
        nki_version=directive.nki_version,
    )


def find_reference(document: Document, kernel: KernelSource, path: Path) -> Path | None:
    """A reference file beside the kernel, by name.

    ``FUNCTION_reference.py`` always belongs to the kernel; ``STEM_reference.py`` and
    ``reference.py`` only in a file with one kernel, or to the kernel named like the file.
    """
    return next((c for c in reference_candidates(document, kernel, path) if is_file(c)), None)


def reference_candidates(document: Document, kernel: KernelSource, path: Path) -> Iterator[Path]:
    """Where a kernel's reference file is looked for, the likeliest place first."""
    names = [f"{kernel.name}_reference.py"]
    if path.stem == kernel.name or len(find_kernels(document)) == 1:
        names += [f"{path.stem}_reference.py", "reference.py"]
    for name in dict.fromkeys(names):
        for folder in (path.parent, path.parent / "references"):
            if folder / name != path:
                yield folder / name
