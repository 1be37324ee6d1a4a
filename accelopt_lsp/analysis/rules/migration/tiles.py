"""How legacy kernels index, mask and lay out tiles, and what became of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelopt_lsp.analysis.names import Aliases
from accelopt_lsp.analysis.rules.base import Context
from accelopt_lsp.analysis.rules.migration.base import LegacyMigration, Place, at_least
from accelopt_lsp.analysis.rules.migration.scan import Scan, canonical_name, keyword
from accelopt_lsp.nki.operands import DynamicKind

_INDICES = frozenset({"nl.arange", "nl.mgrid", "nl.gemm_grid", "nl.gemm_stationary_grid"})
_SIZED = {"nl.ndarray", "nl.zeros", "nl.ones", "nl.full"}


class MaskArgument(LegacyMigration):
    """## What it does
    Finds `mask=`.

    ## Why
    NKI 0.2 removed masks. What a mask cut off is left out by slices whose ends are clamped.

    ## Example
    ```python
    nl.store(out[i * 128 + p, f], value=tile, mask=(i * 128 + p < rows))
    ```

    ## Use instead
    ```python
    size = min(128, rows - i * 128)
    nl.store(out[i * 128 : i * 128 + size, 0:512], value=tile[0:size, 0:512])
    ```
    """

    code = "M04"
    name = "mask-argument"
    many = "masks"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        for call in scan.calls_of("nl.*", "nisa.*"):
            given = keyword(call, "mask")
            if given is not None:
                yield given, "mask= is gone: clamp slices with min()"


class IndexArrays(LegacyMigration):
    """## What it does
    Finds indices made of `nl.arange` and `nl.mgrid`.

    ## Why
    NKI 0.2 removed them. Slices say the same; what slices cannot say is an access pattern,
    `tensor.ap([[step, count], ...], offset)`.

    ## Example
    ```python
    p = nl.arange(128)[:, None]
    f = nl.arange(512)[None, :]
    tile = nl.load(x[i * 128 + p, f])
    ```

    ## Use instead
    ```python
    tile = nl.load(x[i * 128 : i * 128 + 128, 0:512])
    ```
    """

    code = "M05"
    name = "index-arrays"
    many = "indices"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        for name, node in scan.names:
            if name in _INDICES:
                yield node, f"{name} is gone: use slices, or tensor.ap(pattern, offset)"


class BlockDimensions(LegacyMigration):
    """## What it does
    Finds tensors on chip with dimensions before the partition dimension, and `nl.par_dim`.

    ## Why
    Dimension 0 of a tile is its partition dimension. Blocks that live at the same time are a list
    of tiles or one more free dimension; those that do not are declared in the loop.

    ## Example
    ```python
    tiles = nl.ndarray((8, nl.par_dim(128), 512), dtype=x.dtype, buffer=nl.sbuf)
    ```

    ## Use instead
    ```python
    tiles = [nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf) for _ in range(8)]
    ```
    """

    code = "M06"
    name = "block-dimensions"
    many = "tensors"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        blocked = {id(storage.node) for storage in context.machine.storages if storage.blocks > 0}
        for name, call in scan.calls:
            if name not in _SIZED:
                continue
            marked = any(_names_par_dim(context, n) for a in call.args[:1] for n in ast.walk(a))
            shape = keyword(call, "shape")
            if shape is not None:
                marked = marked or any(_names_par_dim(context, n) for n in ast.walk(shape))
            if id(call) in blocked or marked:
                yield call, "dimension 0 of a tile is its partition dimension; there are no blocks"


def _names_par_dim(context: Context, node: ast.AST) -> bool:
    return canonical_name(node, context.kernel.aliases) == "nl.par_dim"


class LoadAndStore(LegacyMigration):
    """## What it does
    Finds `nl.load` and `nl.store`.

    ## Why
    NKI 0.2 had neither: `nisa.dma_copy` moves data, into a tile that is declared. NKI 0.3 brought
    them back without `mask=`; from then on only those with a mask or with an index tile are
    reported.

    ## Example
    ```python
    tile = nl.load(x[p, f], mask=(p < rows))
    ```

    ## Use instead
    ```python
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[0:rows, 0:512], src=x[0:rows, 0:512])
    ```
    """

    code = "M07"
    name = "load-and-store"
    many = "calls"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        back = at_least(context.nki_version, "0.3")
        for name, call in scan.calls:
            if name not in ("nl.load", "nl.store"):
                continue
            mask = keyword(call, "mask")
            if not back:
                yield call, f"{name} is nisa.dma_copy in NKI 0.2"
            elif mask is not None and not (isinstance(mask, ast.Constant) and mask.value is None):
                yield call, f"{name} has no mask: nisa.dma_copy between clamped slices"


class ProductsAddedUp(LegacyMigration):
    """## What it does
    Finds matrix products that `+=` adds up in PSUM.

    ## Why
    Products write into the tile that they are given; by default the first one overwrites it and
    those that follow add to it (`accumulate=None`, since NKI 0.3 also `True` or `False`).

    ## Example
    ```python
    total += nl.matmul(x_tile, y_tile, transpose_x=True)
    ```

    ## Use instead
    ```python
    nisa.nc_matmul(dst=total, stationary=x_tile, moving=y_tile)
    ```
    """

    code = "M08"
    name = "products-added-up"
    many = "products"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        products = {
            id(call) for name, call in scan.calls if name in ("nl.matmul", "nisa.nc_matmul")
        }
        for node in scan.nodes:
            if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
                if id(node.value) in products:
                    yield node, "nisa.nc_matmul(dst=...) adds to what earlier products left in PSUM"


def _indexed(context: Context, kinds: tuple[DynamicKind, ...]) -> Iterator[ast.AST]:
    """Arguments whose place is read from tiles in these ways, each once."""
    seen: set[int] = set()
    for record in context.machine.records:
        for slot, view in record.views.items():
            node = record.nodes.get(slot, record.node)
            if view.dynamic is not None and view.dynamic.kind in kinds and id(node) not in seen:
                seen.add(id(node))
                yield node


class RowsByIndex(LegacyMigration):
    """## What it does
    Finds loads and stores whose rows an index tile names: `x[places[p, 0], f]`.

    ## Why
    Since NKI 0.2 an index tile is the `vector_offset` of an access pattern.

    ## Example
    ```python
    rows = nl.load(x[places[p, 0], f])
    ```

    ## Use instead
    ```python
    nisa.dma_copy(
        dst=rows, src=x.ap([[512, 128], [1, 512]], vector_offset=places, indirect_dim=0)
    )
    ```
    """

    code = "M16"
    name = "rows-by-index"
    many = "accesses"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        for node in _indexed(context, (DynamicKind.VECTOR,)):
            yield node, "an index tile is the vector_offset of tensor.ap(...) today"


class OffsetByTile(LegacyMigration):
    """## What it does
    Finds accesses at an offset that is read from a tile: `x[batch, p, f]`.

    ## Why
    Since NKI 0.2 such an offset is the `scalar_offset` of an access pattern.

    ## Example
    ```python
    tile = nl.load(x[batch[0, 0], p, f])
    ```

    ## Use instead
    ```python
    nisa.dma_copy(
        dst=tile, src=x.ap([[512, 128], [1, 512]], scalar_offset=batch, indirect_dim=0)
    )
    ```
    """

    code = "M17"
    name = "offset-by-tile"
    many = "accesses"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        for node in _indexed(context, (DynamicKind.SCALAR,)):
            yield node, "an offset from a tile is the scalar_offset of tensor.ap(...) today"


class PlacedBuffers(LegacyMigration):
    """## What it does
    Finds tiles that `ncc.sbuf` and `ncc.psum` place.

    ## Why
    `nki.compiler` allocators are gone; since NKI 0.3 a tile's place is
    `nl.ndarray(..., address=(partition, byte))`, tile by tile.

    ## Example
    ```python
    tiles = nl.ndarray((4, nl.par_dim(128), 512), dtype=nl.float32,
                       buffer=ncc.sbuf.mod_alloc(base_addr=0, num_free_tiles=(2,)))
    ```

    ## Use instead
    ```python
    tiles = [
        nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf, address=(0, i % 2 * 2048))
        for i in range(4)
    ]
    ```
    """

    code = "M18"
    name = "placed-buffers"
    many = "allocations"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        for name, call in scan.calls:
            if name.startswith(("ncc.sbuf.", "ncc.psum.")):
                yield call, "a tile's place is address=(partition, byte) of nl.ndarray today"


class NumpyNames(LegacyMigration):
    """## What it does
    Finds operators and data types of NumPy: `np.add`, `np.float32`.

    ## Why
    Since NKI 0.2 kernels are compiled, not run by Python: operators and types are those of
    `nki.language`.

    ## Example
    ```python
    y = nisa.tensor_scalar(x, np.multiply, 2.0, dtype=np.float32)
    ```

    ## Use instead
    ```python
    nisa.tensor_scalar(dst=y, data=x, op0=nl.multiply, operand0=2.0)
    ```
    """

    code = "M19"
    name = "numpy-names"
    many = "names"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        called = {id(call.func) for _, call in scan.calls}
        for name, node in scan.names:
            if name.startswith("np.") and name.count(".") == 1 and id(node) not in called:
                yield node, f"{name} is no name of a kernel; use nl.{name.partition('.')[2]}"


class LoopsTracedOnce(LegacyMigration):
    """## What it does
    Finds numbers that a loop changes: `count += 1`.

    ## Why
    The legacy dialect ran a loop's body once, whatever its length; since NKI 0.2 loops are
    Python's, and the number counts. A kernel that relied on the old result computes another.

    ## Example
    ```python
    count = 0
    for i in nl.affine_range(8):
        count += 1  # 1 after the loop in the legacy dialect, 8 today
    ```

    ## Use instead
    A number that does not depend on how often the body runs, or the loop variable.
    """

    code = "M43"
    name = "loops-traced-once"
    many = "numbers"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        for function in scan.functions:
            for node in traced_once(function, context.kernel.aliases):
                name = node.target.id  # type: ignore[union-attr]
                yield node, f"{name} changes in every iteration today, it changed once"


def traced_once(function: ast.AST, aliases: Aliases) -> Iterator[ast.AugAssign]:
    """``count += 1`` in loops whose body the legacy dialect ran once, of numbers made before."""
    numbers = _numbers(function)
    seen: set[int] = set()
    for loop in ast.walk(function):
        if not isinstance(loop, ast.For):
            continue
        head = loop.iter.func if isinstance(loop.iter, ast.Call) else loop.iter
        if canonical_name(head, aliases) == "nl.static_range":
            continue
        own = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
        for node in ast.walk(loop):
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                name = node.target.id
                line = numbers.get(name)
                if line is not None and line < loop.lineno and name not in own:
                    if id(node) not in seen:
                        seen.add(id(node))
                        yield node


def _numbers(function: ast.AST) -> dict[str, int]:
    """Names that are given a number, with the first line on which they are."""
    found: dict[str, int] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            if isinstance(node.value.value, int | float) and not isinstance(node.value.value, bool):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        found[target.id] = min(found.get(target.id, node.lineno), node.lineno)
    return found
