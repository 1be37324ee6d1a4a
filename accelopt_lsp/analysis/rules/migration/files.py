"""Imports, decorators, launches and what runs a legacy kernel."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelopt_lsp.analysis.kernels import find_kernels
from accelopt_lsp.analysis.rules.base import Context
from accelopt_lsp.analysis.rules.migration.base import LegacyMigration, Place, at_least
from accelopt_lsp.analysis.rules.migration.scan import Scan, canonical_name, keyword
from accelopt_lsp.analysis.tree import module_of, statements
from accelopt_lsp.analysis.uses import uses_of
from accelopt_lsp.nki.diagnostics import Severity
from accelopt_lsp.nki.reference.paths import canonical_path


class LegacyImport(LegacyMigration):
    """## What it does
    Finds imports of `neuronxcc.nki` in files that are for a current NKI version.

    ## Why
    Kernels written with it are deprecated since NKI 0.2 and do not compile since NKI 0.4. The file
    is left alone unless the settings or the directive name such a version.

    ## Example
    ```python
    import neuronxcc.nki as nki
    import neuronxcc.nki.language as nl
    ```

    ## Use instead
    ```python
    import nki
    import nki.language as nl
    ```
    """

    code = "M01"
    name = "legacy-import"
    many = "imports"
    severity = Severity.WARNING

    def level(self, context: Context) -> Severity:
        return Severity.ERROR if at_least(context.nki_version, "0.4") else self.severity

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        imports = sorted(statements(module_of(context.document)), key=lambda n: n.lineno)
        for node in imports:
            paths: list[str] = []
            if isinstance(node, ast.Import):
                paths = [a.name for a in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                paths = [node.module or ""]
            if any(p.split(".")[0] == "neuronxcc" for p in paths):
                yield node, "neuronxcc.nki does not compile from NKI 0.4 on; import nki"
                return


class DecoratedParts(LegacyMigration):
    """## What it does
    Finds `nki.jit(mode=...)`, `nki.trace`, and decorators on functions that kernels call.

    ## Why
    Since NKI 0.2 only the kernel that is launched is decorated; what it calls are plain functions.
    The framework is recognised by the arguments.

    ## Example
    ```python
    @nki.jit(mode="trace")
    def part(x): ...
    ```

    ## Use instead
    ```python
    def part(x): ...
    ```
    """

    code = "M20"
    name = "decorated-parts"
    many = "decorators"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        aliases = context.kernel.aliases
        for function in scan.functions:
            for decorator in function.decorator_list:
                call = decorator if isinstance(decorator, ast.Call) else None
                name = canonical_name(call.func if call else decorator, aliases)
                if name == "nki.trace":
                    yield decorator, "nki.trace is gone: parts of kernels are plain functions"
                elif name == "nki.jit" and call is not None and keyword(call, "mode") is not None:
                    yield decorator, "mode= is gone: the arguments tell the framework"
                elif name == "nki.jit" and function is not scan.kernel:
                    yield decorator, "a function that a kernel calls is not decorated"


class LegacyGrid(LegacyMigration):
    """## What it does
    Finds launch grids with `nl.nc` and `nl.spmd_dim`, and grids of several dimensions.

    ## Why
    The grid of a current kernel is one number, the cores of one logical core. Programs beyond that
    are loops.

    ## Example
    ```python
    grid = (nl.spmd_dim(nl.nc(2), 4),)
    ```

    ## Use instead
    ```python
    grid = 2
    ```
    """

    code = "M23"
    name = "legacy-grid"
    many = "launches"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        aliases = context.kernel.aliases
        module = module_of(context.document)
        for node in (n for statement in module.body for n in uses_of(statement).nodes):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Subscript):
                continue
            launched = node.func.value
            if not isinstance(launched, ast.Name) or launched.id != context.kernel.name:
                continue
            grid = node.func.slice
            names = {canonical_name(n, aliases) for n in ast.walk(grid)}
            several = isinstance(grid, ast.Tuple) and len(grid.elts) > 1
            if several or names & {"nl.nc", "nl.spmd_dim"}:
                yield node, "a current kernel is launched on one axis of cores: kernel[lnc](...)"


def first_kernel(context: Context) -> bool:
    """Whether this is the kernel that speaks for its file."""
    kernels = find_kernels(context.document)
    return bool(kernels) and kernels[0].line == context.kernel.line


def module_calls(context: Context, *names: str) -> Iterator[tuple[str, ast.Call]]:
    """Calls anywhere in the file of these canonical names."""
    for statement in module_of(context.document).body:
        for dotted, call in uses_of(statement).calls:
            name = context.kernel.aliases.canonical(dotted)
            if name is not None and canonical_path(name) in names:
                yield name, call
