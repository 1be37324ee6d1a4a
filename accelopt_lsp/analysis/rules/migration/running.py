"""What changed between versions of the current dialect: names, decorators, loops, running."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from accelopt_lsp.analysis.rules.base import Context
from accelopt_lsp.analysis.rules.migration.base import (
    FIRST_CURRENT,
    Place,
    VersionChange,
    at_least,
)
from accelopt_lsp.analysis.rules.migration.files import first_kernel, module_calls
from accelopt_lsp.analysis.rules.migration.scan import Scan, canonical_name, keyword, scan
from accelopt_lsp.nki.diagnostics import Diagnostic, Fix, Severity
from accelopt_lsp.nki.dialects import Dialect


class _EitherDialect(VersionChange):
    """Reported in legacy kernels too, once the file is for a current version."""

    def check(self, context: Context) -> Iterator[Diagnostic]:
        if context.kernel.dialect is Dialect.CURRENT:
            yield from super().check(context)
            return
        if not at_least(context.nki_version, FIRST_CURRENT):
            return
        found = scan(context.document, context.kernel)
        for node, message in self.places(context, found) if found is not None else ():
            fix = Fix(
                f"Migrate {context.kernel.name} to current NKI",
                "migrate-kernel",
                {"function": context.kernel.qualname},
            )
            yield self.diagnostic(context, node, message, severity=Severity.HINT, fix=fix)
            return


class SimulateKernel(_EitherDialect):
    """## What it does
    Finds `nki.simulate_kernel(kernel, ...)`.

    ## Why
    Since NKI 0.3 the simulator wraps the kernel, or is switched on by the environment variable
    `NKI_SIMULATOR=1`.

    ## Example
    ```python
    y = nki.simulate_kernel(kernel, x)
    ```

    ## Use instead
    ```python
    y = nki.simulate(kernel)(x)
    ```
    """

    code = "M21"
    name = "simulate-kernel"
    until = "0.2"
    rewrite = "wrap-simulate"
    title = "Use nki.simulate"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        if first_kernel(context):
            for _, call in module_calls(context, "nki.simulate_kernel"):
                yield call.func, "nki.simulate_kernel(kernel, ...) is nki.simulate(kernel)(...)"


class MeasuredRuns(_EitherDialect):
    """## What it does
    Finds `nki.baremetal`, `nki.benchmark` and `nki.profile`.

    ## Why
    NKI 0.2 has none of them: a kernel that is called with NumPy arrays runs on the device, and
    neuron-explorer measures it.

    ## Example
    ```python
    @nki.benchmark(warmup=10, iters=100)
    def kernel(x): ...
    ```

    ## Use instead
    ```python
    @nki.jit
    def kernel(x): ...
    ```
    and `neuron-explorer capture`.
    """

    code = "M22"
    name = "measured-runs"
    rewrite = "plain-jit"
    title = "Use nki.jit"
    safe = False
    _names = ("nki.baremetal", "nki.benchmark", "nki.profile")

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        for decorator in scan.kernel.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else None
            name = canonical_name(call.func if call else decorator, context.kernel.aliases)
            if name in self._names:
                yield decorator, f"{name} is gone: @nki.jit, and neuron-explorer measures"
        if first_kernel(context):
            for name, call in module_calls(context, *self._names):
                if call.args:
                    yield call.func, f"{name} is gone: call the kernel, neuron-explorer measures"


class PlatformTarget(VersionChange):
    """## What it does
    Finds `nki.jit(platform_target=...)` and `nki.jit(mode=...)`.

    ## Why
    NKI 0.3 rejects the first, the environment variable `NEURON_PLATFORM_TARGET_OVERRIDE` took its
    place, and ignores the second.

    ## Example
    ```python
    @nki.jit(platform_target="trn2")
    def kernel(x): ...
    ```

    ## Use instead
    ```python
    @nki.jit
    def kernel(x): ...
    ```
    """

    code = "M30"
    name = "platform-target"
    until = "0.2"
    # Kernels of AWS's own repositories for later versions have both arguments.
    error = False
    rewrite = "plain-decorator"
    title = "Remove the argument"
    safe = False

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        for decorator in scan.kernel.decorator_list:
            if not isinstance(decorator, ast.Call):
                continue
            if canonical_name(decorator.func, context.kernel.aliases) != "nki.jit":
                continue
            for name in ("platform_target", "mode"):
                if keyword(decorator, name) is not None:
                    where = "NEURON_PLATFORM_TARGET_OVERRIDE names the platform"
                    why = where if name == "platform_target" else "it has no effect"
                    yield decorator, f"nki.jit takes no {name}= since NKI 0.3: {why}"


class MetaTensor(VersionChange):
    """## What it does
    Finds `nki.tensor`.

    ## Why
    Since NKI 0.2 the class is `nki.meta.tensor`.

    ## Example
    ```python
    isinstance(x, nki.tensor)
    ```

    ## Use instead
    ```python
    isinstance(x, nki.meta.tensor)
    ```
    """

    code = "M32"
    name = "meta-tensor"
    rewrite = "name-meta-tensor"
    title = "Use nki.meta.tensor"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        for name, node in scan.names:
            if name == "nki.tensor":
                yield node, "nki.tensor is nki.meta.tensor since NKI 0.2"


class DynamicLoops(VersionChange):
    """## What it does
    Finds `for i in nl.dynamic_range(...)` and `while register:`.

    ## Why
    NKI 0.6 deprecates both; `nl.fori_loop` and `nl.while_loop` take the body as a function.

    ## Example
    ```python
    for i in nl.dynamic_range(0, 8):
        nisa.dma_copy(dst=tile, src=x.ap([[512, 128], [1, 512]], scalar_offset=i, indirect_dim=0))
    ```

    ## Use instead
    ```python
    def body(i):
        nisa.dma_copy(dst=tile, src=x.ap([[512, 128], [1, 512]], scalar_offset=i, indirect_dim=0))

    nl.fori_loop(0, 8, body)
    ```
    """

    code = "M33"
    name = "dynamic-loops"
    until = "0.5"
    error = False
    rewrite = "loop-body-function"
    title = "Make the body a function"
    safe = False

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        registers = _registers(context, scan)
        for node in scan.nodes:
            if isinstance(node, ast.For) and isinstance(node.iter, ast.Call):
                name = canonical_name(node.iter.func, context.kernel.aliases)
                if name == "nl.dynamic_range":
                    yield node.iter, "nl.dynamic_range is nl.fori_loop from NKI 0.6 on"
            elif isinstance(node, ast.While) and isinstance(node.test, ast.Name):
                if node.test.id in registers:
                    yield node.test, "while register: is nl.while_loop from NKI 0.6 on"


def _registers(context: Context, scan: Scan) -> set[str]:
    """Names that are given a register."""
    found: set[str] = set()
    for node in scan.nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            name = canonical_name(node.value.func, context.kernel.aliases)
            if name == "nisa.register_alloc":
                found |= {t.id for t in node.targets if isinstance(t, ast.Name)}
    return found


class TileSizes(VersionChange):
    """## What it does
    Finds `nl.tile_size.total_available_sbuf_size` and `nl.tile_size.psum_fmax`.

    ## Why
    NKI 0.4 deprecates the first, which is a size per partition in spite of its name, and names the
    second by what it counts: elements of a PSUM bank.

    ## Example
    ```python
    room = nl.tile_size.total_available_sbuf_size
    ```

    ## Use instead
    ```python
    room = nl.tile_size.sbuf_fmax_bytes
    ```
    """

    code = "M35"
    name = "tile-sizes"
    until = "0.3"
    error = False
    rewrite = "name-tile-size"
    title = "Use the present name"
    renamed: ClassVar[dict[str, str]] = {
        "total_available_sbuf_size": "sbuf_fmax_bytes",
        "psum_fmax": "psum_bank_fmax",
    }

    def level(self, context: Context) -> Severity:
        return Severity.HINT

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        if not at_least(context.nki_version, "0.4"):
            return
        for name, node in scan.names:
            short = name.rpartition(".")[2]
            if name.startswith("nl.tile_size.") and short in self.renamed:
                yield node, f"{short} is {self.renamed[short]} since NKI 0.4"
