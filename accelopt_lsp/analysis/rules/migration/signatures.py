"""Legacy calls whose current counterpart is called differently."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelopt_lsp.analysis.rules.base import Context
from accelopt_lsp.analysis.rules.migration.base import LegacyMigration, Place
from accelopt_lsp.analysis.rules.migration.scan import Scan, keyword
from accelopt_lsp.nki.apis import find_api
from accelopt_lsp.nki.dialects import Dialect


def gives_dst(name: str) -> bool:
    """Whether an instruction returns a tile in the legacy dialect and takes ``dst`` today."""
    api = find_api(name)
    old = api.signature(Dialect.LEGACY) if api is not None else None
    new = api.signature(Dialect.CURRENT) if api is not None else None
    if old is None or new is None or not name.startswith("nisa."):
        return False
    return "dst" in new.parameters and "dst" not in old.parameters


class ResultOfInstruction(LegacyMigration):
    """## What it does
    Finds calls of `nki.isa` whose result is used: `y = nisa.op(x)`.

    ## Why
    Since NKI 0.2 every instruction writes into a tile that it is given, `dst`, and returns nothing.

    ## Example
    ```python
    y = nisa.reciprocal(x)
    ```

    ## Use instead
    ```python
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.reciprocal(dst=y, data=x)
    ```
    """

    code = "M02"
    name = "result-of-instruction"
    many = "calls"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        for name, call in scan.calls:
            if gives_dst(name):
                yield call, f"{name} takes the tile that it writes, dst, and returns nothing"


class TypeOfInstruction(LegacyMigration):
    """## What it does
    Finds `dtype=` in calls of `nki.isa`.

    ## Why
    Since NKI 0.2 the data type of the result is that of `dst`. Early versions ignored the keyword;
    it is an unexpected one today.

    ## Example
    ```python
    y = nisa.tensor_copy(x, dtype=nl.bfloat16)
    ```

    ## Use instead
    ```python
    y = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.tensor_copy(dst=y, src=x)
    ```
    """

    code = "M03"
    name = "type-of-instruction"
    many = "calls"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        for call in scan.calls_of("nisa.*"):
            given = keyword(call, "dtype")
            if given is not None:
                yield given, "the data type of dst decides; dtype= is no parameter of nki.isa"


class MemsetOfShape(LegacyMigration):
    """## What it does
    Finds `nisa.memset(shape, value, dtype)`.

    ## Why
    Since NKI 0.2 it fills a tile that exists, and the value must have the tile's type.

    ## Example
    ```python
    zero = nisa.memset((128, 1), 0.0, nl.float32)
    ```

    ## Use instead
    ```python
    zero = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=zero, value=0.0)
    ```
    """

    code = "M09"
    name = "memset-of-shape"
    many = "calls"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        for call in scan.calls_of("nisa.memset"):
            yield call, "nisa.memset takes the tile that it fills: nisa.memset(dst, value)"


class IotaOfExpression(LegacyMigration):
    """## What it does
    Finds `nisa.iota(expression, dtype)`.

    ## Why
    The expression is made of `nl.arange`, which is gone; the instruction now takes the pattern that
    the hardware takes: `[[step, count], ...]` along the free axes, an offset, and what each
    partition adds.

    ## Example
    ```python
    steps = nisa.iota(nl.arange(512)[None, :], dtype=nl.int32)
    ```

    ## Use instead
    ```python
    steps = nl.ndarray((1, 512), dtype=nl.int32, buffer=nl.sbuf)
    nisa.iota(dst=steps, pattern=[[1, 512]])
    ```
    """

    code = "M10"
    name = "iota-of-expression"
    many = "calls"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        for call in scan.calls_of("nisa.iota"):
            yield call, "nisa.iota takes a pattern: (dst, pattern, offset=0, channel_multiplier=0)"


class SelectByExpression(LegacyMigration):
    """## What it does
    Finds `nisa.affine_select(pred, tile, value)`.

    ## Why
    The predicate is made of `nl.arange`, which is gone; the instruction now takes the pattern of an
    affine expression, and the comparison of it with 0.

    ## Example
    ```python
    p, f = nl.mgrid[0:128, 0:512]
    lower = nisa.affine_select(pred=(p >= f), on_true_tile=x, on_false_value=0.0)
    ```

    ## Use instead
    ```python
    nisa.affine_select(
        dst=lower, pattern=[[-1, 512]], channel_multiplier=1, on_true_tile=x,
        on_false_value=0.0, cmp_op=nl.greater_equal,
    )
    ```
    """

    code = "M11"
    name = "select-by-expression"
    many = "calls"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        for call in scan.calls_of("nisa.affine_select"):
            yield call, "nisa.affine_select takes a pattern and cmp_op in the place of pred"


class ShuffleOrder(LegacyMigration):
    """## What it does
    Finds `nisa.nc_stream_shuffle(src, dst, mask)`.

    ## Why
    Since NKI 0.2 `dst` comes first, as everywhere. Positional arguments would change places
    without a message.

    ## Example
    ```python
    nisa.nc_stream_shuffle(x, y, [0] * 32)
    ```

    ## Use instead
    ```python
    nisa.nc_stream_shuffle(dst=y, src=x, shuffle_mask=[0] * 32)
    ```
    """

    code = "M12"
    name = "shuffle-order"
    many = "calls"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        for call in scan.calls_of("nisa.nc_stream_shuffle"):
            if call.args:
                yield call, "nisa.nc_stream_shuffle takes dst before src"


class DynamicCopy(LegacyMigration):
    """## What it does
    Finds `nisa.tensor_copy_dynamic_src` and `nisa.tensor_copy_dynamic_dst`.

    ## Why
    NKI 0.4 removed them: any instruction takes a tile whose offset is read at run time.

    ## Example
    ```python
    y[...] = nisa.tensor_copy_dynamic_src(x[p, start + f])
    ```

    ## Use instead
    ```python
    nisa.tensor_copy(
        dst=y, src=x.ap([[512, 128], [1, 64]], scalar_offset=start, indirect_dim=1)
    )
    ```
    """

    code = "M13"
    name = "dynamic-copy"
    many = "calls"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        wanted = ("nisa.tensor_copy_dynamic_src", "nisa.tensor_copy_dynamic_dst")
        for call in scan.calls_of(*wanted):
            yield call, "this copy is nisa.tensor_copy of a tile.ap(..., scalar_offset=...) today"


class AddingCopy(LegacyMigration):
    """## What it does
    Finds `nisa.dma_copy(dst_rmw_op=...)`.

    ## Why
    NKI 0.3 moved additions on the way between memories to an instruction of their own.

    ## Example
    ```python
    nisa.dma_copy(dst=out[0:128], src=tile, dst_rmw_op=nl.add)
    ```

    ## Use instead
    ```python
    nisa.dma_compute(dst=out[0:128], srcs=[tile, out[0:128]], reduce_op=nl.add)
    ```
    """

    code = "M14"
    name = "adding-copy"
    many = "calls"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        for call in scan.calls_of("nisa.dma_copy"):
            given = keyword(call, "dst_rmw_op")
            if given is not None and not _is_none(given):
                yield given, "a copy that adds is nisa.dma_compute today"


class RangeSelectDefault(LegacyMigration):
    """## What it does
    Finds `nisa.range_select` with `reduce_res` and without `reduce_cmd`.

    ## Why
    The default was `idle` and is `reset_reduce` since NKI 0.3: the same text starts a reduction
    that it did not start before.

    ## Example
    ```python
    nisa.range_select(on_true_tile=x, reduce_res=maximum, ...)
    ```

    ## Use instead
    ```python
    nisa.range_select(
        dst=y, on_true_tile=x, reduce_res=maximum, reduce_cmd=nisa.reduce_cmd.reset_reduce, ...
    )
    ```
    """

    code = "M38"
    name = "range-select-default"
    many = "calls"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        for call in scan.calls_of("nisa.range_select"):
            result, command = keyword(call, "reduce_res"), keyword(call, "reduce_cmd")
            if result is not None and not _is_none(result) and command is None:
                yield call, "reduce_cmd is reset_reduce by default today, it was idle: name it"


class ProgramDefaults(LegacyMigration):
    """## What it does
    Finds calls that rest on defaults which changed: `nl.num_programs()` and tensors on chip
    without `buffer`.

    ## Why
    `nl.num_programs()` counted all programs and counts those of axis 0 since NKI 0.3; a tensor
    without `buffer` is in SBUF.

    ## Example
    ```python
    rows = total // nl.num_programs()
    ```

    ## Use instead
    ```python
    rows = total // nl.num_programs(0)
    ```
    """

    code = "M39"
    name = "program-defaults"
    many = "calls"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        for call in scan.calls_of("nl.num_programs"):
            if not call.args and not call.keywords:
                yield call, "nl.num_programs() counts the programs of axis 0 today"
        for call in scan.calls_of("nl.ndarray", "nl.zeros", "nl.ones", "nl.full"):
            names = {k.arg for k in call.keywords}
            if "buffer" not in names and None not in names:
                yield call, "without buffer= a tensor is in SBUF; name the memory"


class GatherFlattened(LegacyMigration):
    """## What it does
    Finds `nl.gather_flattened`.

    ## Why
    NKI 0.2 removed it. The function of that name that NKI 0.3 brought back has other parameters;
    the instruction behind it is `nisa.nc_n_gather`.

    ## Example
    ```python
    y = nl.gather_flattened(data=x, indices=places)
    ```

    ## Use instead
    ```python
    y = nl.ndarray(places.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.nc_n_gather(dst=y, data=x, indices=places)
    ```
    """

    code = "M40"
    name = "gather-flattened"
    many = "calls"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        for call in scan.calls_of("nl.gather_flattened"):
            yield call, "nl.gather_flattened is nisa.nc_n_gather(dst, data, indices) today"


class AtomicUpdate(LegacyMigration):
    """## What it does
    Finds `nl.atomic_rmw`.

    ## Why
    NKI 0.2 removed it; `nisa.dma_compute` adds to rows that an index tile names.

    ## Example
    ```python
    nl.atomic_rmw(table[places[p, 0], f], value=tile, op=np.add)
    ```

    ## Use instead
    ```python
    rows = table.ap([[512, 128], [1, 512]], vector_offset=places, indirect_dim=0)
    nisa.dma_compute(dst=rows, srcs=[tile, rows], reduce_op=nl.add)
    ```
    """

    code = "M44"
    name = "atomic-update"
    many = "calls"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        for call in scan.calls_of("nl.atomic_rmw"):
            yield call, "nl.atomic_rmw is nisa.dma_compute with a vector_offset today"


class ReductionOverLoops(LegacyMigration):
    """## What it does
    Finds `nl.loop_reduce` and `nl.all_reduce`.

    ## Why
    Loops are unrolled Python since NKI 0.2: a reduction over one is an instruction that combines
    with a running tile. Reductions over cores are functions of `nki.collectives`.

    ## Example
    ```python
    total = nl.loop_reduce(part, op=np.add, loop_indices=[i])
    ```

    ## Use instead
    ```python
    nisa.tensor_tensor(dst=total, data1=total, data2=part, op=nl.add)
    ```
    """

    code = "M45"
    name = "reduction-over-loops"
    many = "calls"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        for call in scan.calls_of("nl.loop_reduce"):
            yield call, "combine with a running tile in the loop: nisa.tensor_tensor"
        for call in scan.calls_of("nl.all_reduce"):
            yield call, "reductions over cores are functions of nki.collectives"


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
