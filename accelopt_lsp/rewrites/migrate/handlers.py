"""Calls whose current form is more than a change of arguments."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelopt_lsp.analysis.values import IndexArray, View
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.rewrites.migrate import expressions as x
from accelopt_lsp.rewrites.migrate.calls import LegacyCall, handles, keyword_text
from accelopt_lsp.rewrites.migrate.indices import base_text
from accelopt_lsp.rewrites.migrate.linear import minus
from accelopt_lsp.rewrites.migrate.operands import NO_CUTS, Cut, Cuts, Operand

if TYPE_CHECKING:
    from accelopt_lsp.rewrites.migrate.writer import Writer


def _needed(w: Writer, call: LegacyCall, *names: str) -> ast.expr:
    found = call.get(*names)
    if found is None:
        raise w.refusal(call.node, f"{call.name} without {names[0]}")
    return found


@handles("nl.load")
def load(
    w: Writer, target: Operand, dst: Operand, call: LegacyCall, cuts: Cuts, overwrite: bool
) -> None:
    source = w.operand(_needed(w, call, "src"), cuts)
    w.emit(f"{w.nisa}.dma_copy(dst={target.text}, src={source.text})")


@handles("nl.copy")
def copied(
    w: Writer, target: Operand, dst: Operand, call: LegacyCall, cuts: Cuts, overwrite: bool
) -> None:
    x.copy(w, target, w.operand(_needed(w, call, "src"), cuts))


@handles("nisa.memset")
def memset(
    w: Writer, target: Operand, dst: Operand, call: LegacyCall, cuts: Cuts, overwrite: bool
) -> None:
    x.fill(w, target, w.text(_needed(w, call, "value")))


@handles("nl.zeros", "nl.ones", "nl.full")
def created(
    w: Writer, target: Operand, dst: Operand, call: LegacyCall, cuts: Cuts, overwrite: bool
) -> None:
    """``tile[...] = nl.zeros(...)``."""
    if call.short == "full":
        x.fill(w, target, w.text(_needed(w, call, "fill_value")))
    else:
        x.fill(w, target, "1" if call.short == "ones" else "0")


@handles("nl.matmul")
def matmul(
    w: Writer, target: Operand, dst: Operand, call: LegacyCall, cuts: Cuts, overwrite: bool
) -> None:
    """``nl.matmul``: the stationary operand is transposed unless it comes transposed."""
    left = x.in_sbuf(w, w.operand(_needed(w, call, "x")))
    right = x.in_sbuf(w, w.operand(_needed(w, call, "y")))
    flag = call.get("transpose_x")
    if flag is None or w.obs.value(flag) is not True:
        left = transposed(w, left)
    product(w, target, f"stationary={left.text}, moving={right.text}", overwrite)


def transposed(w: Writer, operand: Operand) -> Operand:
    """The transpose of a tile, by the Tensor Engine."""
    shape = (operand.free, operand.partitions)
    dtype = operand.dtype
    across, back = w.fresh("transposed_psum"), w.fresh("transposed")
    psum = w.transpose_dtype(dtype)
    w.declare(across, shape, w.dtype_text(psum), Buffer.PSUM)
    w.emit(f"{w.nisa}.nc_transpose(dst={across}, data={operand.text})")
    w.declare(back, shape, w.dtype_text(dtype), Buffer.SBUF)
    w.emit(f"{w.nisa}.tensor_copy(dst={back}, src={across})")
    return Operand(back, shape, dtype, Buffer.SBUF, back)


@handles("nisa.nc_matmul")
def nc_matmul(
    w: Writer, target: Operand, dst: Operand, call: LegacyCall, cuts: Cuts, overwrite: bool
) -> None:
    """A product under a mask works on the columns that the mask leaves."""
    parts: list[str] = []
    rows, columns = cuts.axes.get(0), cuts.axes.get(cuts.rank - 1)
    for parameter, node in call.given.items():
        if parameter in ("stationary", "moving") and cuts:
            own: dict[int, object] = {}
            view = w.obs.view(node)
            if rows is not None and view is not None and view.shape[0] == rows.size:
                own[0] = rows
            if parameter == "moving" and columns is not None and cuts.rank > 1:
                own[1] = columns
            limited = Cuts(2, own)  # type: ignore[arg-type]
            parts.append(f"{parameter}={w.operand(node, limited).text}")
    rest = keyword_text(
        w, call, NO_CUTS, frozenset({"dst", "stationary", "moving"} if cuts else {"dst"})
    )
    if cuts:
        axes = {} if columns is None or cuts.rank < 2 else {1: columns}
        target = w.sliced(dst, Cuts(2, axes))
    product(w, target, ", ".join([*parts, *rest]), overwrite)


def product(w: Writer, target: Operand, operands: str, overwrite: bool) -> None:
    if target.buffer is not Buffer.PSUM:
        name = w.fresh("product")
        w.declare(name, target.shape, w.dtype_text(w.float32), Buffer.PSUM)
        made = w.like(Operand(name, target.shape, w.float32, Buffer.PSUM, name), target)
        w.emit(f"{w.nisa}.nc_matmul(dst={made.text}, {operands})")
        x.copy(w, target, made)
        return
    tail = ", accumulate=False" if overwrite else ""
    w.emit(f"{w.nisa}.nc_matmul(dst={target.text}, {operands}{tail})")


@handles("nl.transpose", "nisa.nc_transpose")
def transpose(
    w: Writer, target: Operand, dst: Operand, call: LegacyCall, cuts: Cuts, overwrite: bool
) -> None:
    """A transpose into PSUM, and a copy where the tile is in SBUF."""
    if cuts:
        raise w.refusal(call.node, "a transpose under a mask")
    data = w.operand(_needed(w, call, "x", "data"))
    if call.short == "transpose":
        data = x.in_sbuf(w, data)
    engine = call.get("engine")
    tail = f", engine={w.text(engine)}" if engine is not None else ""
    small = max(data.free, data.partitions) <= 32
    out = target
    if target.buffer is not Buffer.PSUM and not small and "vector" not in tail:
        name = w.fresh("transposed_psum")
        shape = (data.free, data.partitions)
        dtype = w.transpose_dtype(data.dtype)
        w.declare(name, shape, w.dtype_text(dtype), Buffer.PSUM)
        out = Operand(name, shape, dtype, Buffer.PSUM, name)
    elif target.buffer is not Buffer.PSUM and not tail:
        tail = f", engine={w.nisa}.vector_engine"
    w.emit(f"{w.nisa}.nc_transpose(dst={out.text}, data={data.text}{tail})")
    if out is not target:
        x.copy(w, target, out)


@handles("nisa.iota")
def iota(
    w: Writer, target: Operand, dst: Operand, call: LegacyCall, cuts: Cuts, overwrite: bool
) -> None:
    node = _needed(w, call, "expr")
    pattern, offset, channel = affine_pattern(w, node, target, cuts)
    parts = [f"dst={target.text}", f"pattern={pattern}"]
    if offset != "0":
        parts.append(f"offset={offset}")
    if channel:
        parts.append(f"channel_multiplier={channel}")
    w.emit(f"{w.nisa}.iota({', '.join(parts)})")


def affine_pattern(w: Writer, node: ast.expr, target: Operand, cuts: Cuts) -> tuple[str, str, int]:
    """Pattern along the free axes, offset, and what each partition adds."""
    value = w.obs.value(node)
    if not isinstance(value, IndexArray):
        raise w.refusal(node, "an expression that is not affine")
    lead = len(target.shape) - len(value.shape)
    steps = [0] * len(target.shape)
    for axis, (n, c) in enumerate(zip(value.shape, value.coefficients, strict=True)):
        steps[axis + lead] = c if n > 1 else 0
    return f"[{_pairs(w, node, steps, target, cuts)}]", base_text(w, node, value), steps[0]


def _pairs(w: Writer, node: ast.expr, steps: list[int], target: Operand, cuts: Cuts) -> str:
    """``[step, count]`` of the free axes, as many positions as a mask leaves."""
    found = cuts.of(target.shape)
    if any(cut.low != "0" for cut in found.values()):
        raise w.refusal(node, "a pattern whose beginning a mask cuts off")
    counts = [found[a].high if a in found else str(n) for a, n in enumerate(target.shape)]
    return ", ".join(f"[{s}, {n}]" for s, n in zip(steps[1:], counts[1:], strict=True))


_CMP = {
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
}


@handles("nisa.affine_select")
def affine_select(
    w: Writer, target: Operand, dst: Operand, call: LegacyCall, cuts: Cuts, overwrite: bool
) -> None:
    """The predicate ``left OP right`` as ``left - right OP 0``."""
    pred = _needed(w, call, "pred")
    if isinstance(pred, ast.Name):
        pred = w.definition(pred) or pred
    if not isinstance(pred, ast.Compare) or len(pred.ops) != 1:
        raise w.refusal(pred, "a predicate that is no single comparison")
    left, right = pred.left, pred.comparators[0]
    steps = [0] * len(target.shape)
    starts: list[str] = []
    for node, sign in ((left, 1), (right, -1)):
        value = w.obs.value(node)
        if isinstance(value, IndexArray):
            lead = len(target.shape) - len(value.shape)
            for axis, (n, c) in enumerate(zip(value.shape, value.coefficients, strict=True)):
                steps[axis + lead] += sign * c if n > 1 else 0
            starts.append(base_text(w, node, value))
        elif isinstance(value, View):
            raise w.refusal(node, "a predicate on values of a tile")
        else:
            starts.append(w.text(node))
    pairs = _pairs(w, call.node, steps, target, cuts)
    offset = minus(starts[0], starts[1])
    parts = [
        f"dst={target.text}",
        f"pattern=[{pairs}]",
        f"channel_multiplier={steps[0]}",
        *keyword_text(w, call, cuts, frozenset({"pred", "dst"})),
        f"cmp_op={w.nl}.{_CMP[type(pred.ops[0])]}",
    ]
    if offset != "0":
        parts.append(f"offset={offset}")
    w.emit(f"{w.nisa}.affine_select({', '.join(parts)})")


@handles("nisa.range_select")
def range_select(
    w: Writer, target: Operand, dst: Operand, call: LegacyCall, cuts: Cuts, overwrite: bool
) -> None:
    """A reduction without reduce_cmd is what NKI 0.2 made of it: one that starts anew."""
    parts = keyword_text(w, call, cuts, frozenset({"dst"}))
    if call.get("reduce_res") is not None and call.get("reduce_cmd") is None:
        parts.append(f"reduce_cmd={w.nisa}.reduce_cmd.reset_reduce")
    w.emit(f"{w.nisa}.range_select({', '.join([f'dst={target.text}', *parts])})")


@handles("nl.gather_flattened")
def gather(
    w: Writer, target: Operand, dst: Operand, call: LegacyCall, cuts: Cuts, overwrite: bool
) -> None:
    data = w.operand(_needed(w, call, "data"), cuts.partitions_only())
    index = w.operand(_needed(w, call, "indices"), cuts)
    w.emit(f"{w.nisa}.nc_n_gather(dst={target.text}, data={data.text}, indices={index.text})")


@handles("nisa.tensor_copy_dynamic_src")
def dynamic_source(
    w: Writer, target: Operand, dst: Operand, call: LegacyCall, cuts: Cuts, overwrite: bool
) -> None:
    source = w.operand(_needed(w, call, "src"), cuts)
    w.emit(f"{w.nisa}.tensor_copy(dst={target.text}, src={source.text})")


@handles("nl.load_transpose2d")
def load_transpose2d(
    w: Writer, target: Operand, dst: Operand, call: LegacyCall, cuts: Cuts, overwrite: bool
) -> None:
    """By DMA where the type allows it, else by the Tensor Engine, 128 rows at a time."""
    view = w.obs.view(call.node)
    if cuts or view is None:
        raise w.refusal(call.node, "nl.load_transpose2d under a mask")
    kept = x.composite(w, call, view)
    if kept is not None:
        name = w.fresh("transposed")
        w.emit(f"{name} = {kept}")
        x.copy(w, target, Operand.of(name, view, name=name))
        return
    src = _needed(w, call, "src")
    source = w.operand(src)
    rows, columns = source.shape
    if columns > 128 or (rows > 128 and rows % 128):
        raise w.refusal(call.node, "nl.load_transpose2d of tiles that are not whole")
    height = min(rows, 128)
    dtype = source.dtype
    tile, psum = w.fresh("rows_tile"), w.fresh("transposed_psum")
    for start in range(0, rows, height):
        part = Operand(tile, (height, columns), dtype, Buffer.SBUF, tile)
        w.declare(tile, part.shape, w.dtype_text(dtype), Buffer.SBUF)
        text = source.text
        if rows > height:
            text = _row_part(w, src, source, start, height)
        w.emit(f"{w.nisa}.dma_copy(dst={tile}, src={text})")
        across = w.transpose_dtype(dtype)
        w.declare(psum, (columns, height), w.dtype_text(across), Buffer.PSUM)
        w.emit(f"{w.nisa}.nc_transpose(dst={psum}, data={tile})")
        out = target.text
        if rows > height:
            if target.name is None:
                raise w.refusal(call.node, "nl.load_transpose2d of many rows into a slice")
            out = f"{target.text}[0:{columns}, {start}:{start + height}]"
        w.emit(f"{w.nisa}.tensor_copy(dst={out}, src={psum})")


def _row_part(w: Writer, src: ast.expr, source: Operand, start: int, height: int) -> str:
    """Rows ``start`` to ``start + height`` of what is loaded."""
    if source.name is None:
        if not isinstance(src, ast.Subscript):
            raise w.refusal(src, "rows of a tensor that has no name")
        limited = Cuts(2, {0: Cut(source.shape[0], str(start), str(start + height))})
        return w.operand(src, limited).text
    return f"{source.text}[{start}:{start + height}, 0:{source.shape[1]}]"
