"""Enlarge the free-axis tile of an element-wise loop: fewer, larger instructions and DMAs.

Before::

    TILE = 512
    for j in range(columns // TILE):
        t = load(x[:, j * TILE:(j + 1) * TILE])
        store(out[:, j * TILE:(j + 1) * TILE], exp(t))

After::

    TILE = 2048
    for j in range(columns // TILE):
        ...

The same for literal sizes, for ``range(0, columns, TILE)``, and for an inner loop over the
parts of a tile that is on chip already, which then disappears.

The edited text is analysed again and compared access by access with the original: each
iteration must touch exactly what the merged iterations touched.
"""

from __future__ import annotations

import ast
from math import prod

from attrs import evolve, frozen

from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.rewrites.affine import Affine, Dim, Symbol
from accelopt_lsp.rewrites.base import Description, NotApplicable, RewriteContext, Site
from accelopt_lsp.rewrites.elementwise import normalise
from accelopt_lsp.rewrites.model import Access, KernelModel, Step, is_none, require
from accelopt_lsp.rewrites.values import Loop, Tensor, View
from accelopt_lsp.rewrites.widen_edits import merge_literals, rename_constant

NAME = "widen-tile"
_MOVES = ("nl.load", "nl.store", "nisa.dma_copy", "nl.copy", "nisa.tensor_copy", "nisa.memset")
_GOOD_BYTES = 8192
"""Bytes per partition of a tile at which fixed costs have become small."""
_SITES = 3


@frozen(slots=True, eq=False)
class Widening:
    """One loop and by how much its tile grows.

    Attributes:
        loop: loop over tiles.
        factor: how many iterations become one.
        partition_bytes: bytes that the loop's tiles take afterwards.
        tile_bytes: of the largest one.
        text: the whole new file.
        gone: the loop disappears.
    """

    loop: Loop
    factor: int
    partition_bytes: int
    tile_bytes: int
    text: str
    gone: bool


class WidenTile:
    """Makes element-wise tiles wider."""

    name = NAME
    title = "Enlarge the tile of an element-wise loop"
    tags = ("vector", "scalar", "dma", "latency", "tile-size", "elementwise")
    description = Description(
        title=title,
        strategy=(
            "Every instruction and every DMA has a fixed cost. An element-wise loop over small "
            "tiles of the free axis pays it for each tile, and short rows keep DMA below its "
            "full rate. Process several neighbouring tiles at once: as wide as SBUF allows with "
            "room for double buffering, at least 2 KiB a row. An inner loop over the parts of a "
            "tile that is on chip already disappears altogether."
        ),
        before=(
            "for j in range(N // 512):\n    t = load(x[:, j * 512:(j + 1) * 512])\n"
            "    store(out[:, j * 512:(j + 1) * 512], f(t))"
        ),
        after=(
            "for j in range(N // 2048):\n    t = load(x[:, j * 2048:(j + 1) * 2048])\n"
            "    store(out[:, j * 2048:(j + 1) * 2048], f(t))"
        ),
        bottlenecks=("vector", "scalar", "dma", "latency"),
        instructions=("dma_copy", "activation", "tensor_scalar", "tensor_tensor"),
        pattern="element-wise statements in a loop over tiles of the free axis",
    )

    def find(self, context: RewriteContext) -> tuple[Site, ...]:
        found = []
        for loop in context.model.loops:
            found += _widenings(context, loop)[:_SITES]
        found.sort(key=lambda w: (_distance(w.tile_bytes), w.loop.node.lineno))
        return tuple(_site(w, rank) for rank, w in enumerate(found))

    def apply(self, context: RewriteContext, site: Site) -> str:
        line, factor = site.parameters.get("line"), site.parameters.get("factor")
        reasons: list[str] = []
        for loop in context.model.loops:
            if line is not None and loop.node.lineno != line:
                continue
            for widening in _widenings(context, loop, factor, reasons):
                return widening.text
        raise NotApplicable(reasons[0] if reasons else "no element-wise loop over tiles")


def _distance(size: int) -> float:
    return max(size / _GOOD_BYTES, _GOOD_BYTES / max(size, 1))


def _site(widening: Widening, rank: int) -> Site:
    loop, factor = widening.loop, widening.factor
    line = loop.node.lineno
    what = (
        f"Process all {factor} parts at once instead of looping over {loop.variable}"
        if widening.gone
        else f"Make the tiles of the loop over {loop.variable} {factor} times wider"
    )
    return Site(
        NAME,
        f"{NAME}:{line}:{factor}",
        f"{what} (line {line})",
        {"line": line, "factor": factor},
        f"{factor} times fewer instructions and transfers; tiles of up to "
        f"{widening.tile_bytes} bytes per partition",
        line,
        rank,
    )


def _widenings(
    context: RewriteContext,
    loop: Loop,
    factor: int | None = None,
    reasons: list[str] | None = None,
) -> list[Widening]:
    """All factors that work for one loop, best first."""
    trips = loop.trips
    if trips is None or trips < 2 or loop.start.value is None:
        return []
    found = []
    try:
        _check_elementwise(context.model, loop)
    except NotApplicable as error:
        if reasons is not None:
            reasons.append(str(error))
        return []
    for candidate in range(2, trips + 1):
        if trips % candidate or factor not in (None, candidate):
            continue
        try:
            found.append(_widen(context, loop, candidate))
        except NotApplicable as error:
            if reasons is not None:
                reasons.append(str(error))
    found.sort(key=lambda w: _distance(w.tile_bytes))
    return found


def _check_elementwise(model: KernelModel, loop: Loop) -> None:
    """Every statement in the loop treats the columns of its tiles alike."""
    for step in model.steps_in(loop.node):
        require(not step.opaque and not step.guarded, f"line {step.node.lineno} is not understood")
        for access in (*step.reads, *step.writes):
            require(
                access.view.tensor.buffer is not Buffer.PSUM,
                f"line {step.node.lineno} works on PSUM",
            )
        _check_mask(model, step, loop)
        if step.api in _MOVES or _is_allocation(step) or _is_index(step):
            continue
        operation = normalise(model, step)
        require(
            operation is not None and operation.kind != "reduce",
            f"line {step.node.lineno} is not element-wise",
        )
        assert operation is not None
        for _, operand, _ in operation.operators:
            value = model.value(operand.node)
            require(
                not (isinstance(value, Affine) and loop.symbol in value.terms),
                f"line {step.node.lineno} computes with the loop variable",
            )


def _is_allocation(step: Step) -> bool:
    return step.api in ("nl.ndarray", "nl.zeros", "nl.ones", "nl.full")


def _is_index(step: Step) -> bool:
    """An assignment of indices or views, which computes nothing."""
    return step.call is None and not step.writes and isinstance(step.node, ast.Assign)


def _check_mask(model: KernelModel, step: Step, loop: Loop) -> None:
    mask = step.argument("mask")
    if is_none(mask) or mask is None:
        return
    for node in ast.walk(mask):
        value = model.value(node) if isinstance(node, ast.expr) else None
        if isinstance(value, Affine):
            moves = loop.symbol in value.terms
            free = any(s.position not in (0, None) for s in value.symbols("axis"))
            require(not moves and not free, f"line {step.node.lineno} is masked along the tile")


def _widen(context: RewriteContext, loop: Loop, factor: int) -> Widening:
    """The text with one loop widened, checked against the original.

    Raises:
        NotApplicable: no edit makes the tiles wider, or they do not fit.
    """
    reasons: list[str] = []
    for edit in (rename_constant, merge_literals):
        try:
            text = edit(context, loop, factor)
            changed = _changed_context(context, text)
            size, largest = _check_same(context, changed, loop, factor)
            gone = len(changed.model.loops) < len(context.model.loops)
            return Widening(loop, factor, size, largest, text, gone)
        except NotApplicable as error:
            reasons.append(str(error))
    raise NotApplicable(reasons[-1])


def _changed_context(context: RewriteContext, text: str) -> RewriteContext:
    return RewriteContext.from_text(
        text, context.kernel.qualname, context.arguments, context.target
    )


def _check_same(
    before: RewriteContext, after: RewriteContext, loop: Loop, factor: int
) -> tuple[int, int]:
    """Compare both kernels access by access.

    Returns:
        bytes per partition of all tiles in the loop, and of the largest one, afterwards.
    """
    old, new = before.model, after.model
    merged = factor == loop.trips and len(new.loops) == len(old.loops) - 1
    position = old.loops.index(loop)
    old_loops = [x for x in old.loops if not (merged and x is loop)]
    require(len(old_loops) == len(new.loops), "the loops change")
    symbols: dict[Symbol, Symbol] = {
        a.symbol: b.symbol for a, b in zip(old_loops, new.loops, strict=True)
    }
    for a, b in zip(old_loops, new.loops, strict=True):
        expected = a.trips if a is not loop else (a.trips or 0) // factor
        require(b.trips == expected, "another loop changes its length")
    if not merged:
        require(new.loops[position].trips == (loop.trips or 0) // factor, "the length is off")
    require(len(old.steps) == len(new.steps), "statements change")
    tiles: dict[Tensor, int] = {}
    for first, second in zip(old.steps, new.steps, strict=True):
        inside = loop in first.loops
        require(first.api == second.api, "statements change")
        require(
            len(first.reads) == len(second.reads) and len(first.writes) == len(second.writes),
            "accesses change",
        )
        pairs = zip([*first.reads, *first.writes], [*second.reads, *second.writes], strict=True)
        for one, two in pairs:
            _compare(one, two, loop, factor, symbols, inside, merged)
            if inside and two.view.tensor.buffer is Buffer.SBUF:
                tiles[two.view.tensor] = _tile_bytes(two.view.tensor)
    total, largest = sum(tiles.values()), max(tiles.values(), default=0)
    budget = after.sbuf_budget
    require(2 * total <= budget, f"tiles of {total} bytes per partition leave no room")
    return total, largest


def _tile_bytes(tensor: Tensor) -> int:
    require(
        tensor.shape is not None and None not in tensor.shape and tensor.dtype is not None,
        "a tile's size is unknown",
    )
    assert tensor.shape is not None and tensor.dtype is not None
    return prod(s or 0 for s in tensor.shape[tensor.block_dims + 1 :]) * tensor.dtype.nbytes


def _compare(
    one: Access,
    two: Access,
    loop: Loop,
    factor: int,
    symbols: dict[Symbol, Symbol],
    inside: bool,
    merged: bool,
) -> None:
    """What an iteration touches now is what the merged iterations touched before."""
    old, new = one.view, two.view
    require(old.tensor.name == new.tensor.name, "accesses change")
    if old.region is None or new.region is None:
        same = old.region is None and new.region is None and old.shape == new.shape
        require(same and not inside, "an access is not understood")
        return
    dims = list(old.region)
    tensor_dims = list(old.tensor.shape or ())
    if len(new.region) < len(dims):
        gone = [i for i, d in enumerate(dims) if d.point and d.start == Affine.of(loop.symbol)]
        if not gone:
            gone = [i for i in range(old.tensor.block_dims) if tensor_dims[i] == factor][:1]
        require(merged and len(gone) == 1, "a dimension is lost")
        del dims[gone[0]], tensor_dims[gone[0]]
    require(len(dims) == len(new.region), "accesses change")
    grown = _grown_dims(old.tensor, new.tensor, len(dims) != len(old.region), factor)
    widened = 0
    for index, (a, b) in enumerate(zip(dims, new.region, strict=True)):
        expected = _expected(a, loop, factor, symbols)
        if _equal(expected, b):
            widened += a.start.coefficient(loop.symbol) != 0 and not a.point
            continue
        whole = (
            grown == index
            and not a.point
            and a.start == Affine()
            and a.extent == tensor_dims[index]
            and _equal(evolve(a, extent=(a.extent or 0) * factor), b)
        )
        require(whole, f"{old.tensor.name} would be used differently")
        widened += 1
    if inside and old.tensor.buffer is not Buffer.HBM:
        single = old.shape is not None and prod(s or 0 for s in old.shape[1:]) == 1
        require(widened == 1 or single, f"{old.tensor.name} is the same for every tile")
    elif inside:
        require(widened == 1 or _row(old), f"{old.tensor.name} does not move with the loop")
    else:
        require(
            old.tensor.buffer is Buffer.HBM or not one.view.tensor.loops or widened == 0,
            "a tile is used outside of the loop",
        )


def _row(view: View) -> bool:
    """One element per partition, which no widening touches."""
    return view.shape is not None and prod(s or 0 for s in view.shape[1:]) == 1


def _grown_dims(old: Tensor, new: Tensor, dropped: bool, factor: int) -> int | None:
    """Which dimension of a tile has become longer."""
    if old.buffer is Buffer.HBM or new.shape is None or old.shape is None:
        return None
    last = len(new.shape) - 1
    before, after = old.shape[-1], new.shape[-1]
    return last if before is not None and after == before * factor else None


def _expected(dim: Dim, loop: Loop, factor: int, symbols: dict[Symbol, Symbol]) -> Dim:
    """The dimension as it must be after merging ``factor`` iterations."""
    coefficient = dim.start.coefficient(loop.symbol)
    start = dim.start
    extent = dim.extent
    if coefficient and not dim.point:
        require(
            extent is not None and coefficient == extent * dim.step,
            "tiles are not next to each other",
        )
        start = start.without(loop.symbol).plus(Affine.of(loop.symbol).times(coefficient * factor))
        extent = (extent or 0) * factor
    renamed = Affine(
        start.constant, {symbols[s]: c for s, c in start.terms.items() if s in symbols}
    )
    return evolve(dim, start=renamed, extent=extent)


def _equal(a: Dim, b: Dim) -> bool:
    return (
        a.start.constant == b.start.constant
        and dict(a.start.terms) == dict(b.start.terms)
        and a.extent == b.extent
        and a.step == b.step
        and a.point == b.point
    )
