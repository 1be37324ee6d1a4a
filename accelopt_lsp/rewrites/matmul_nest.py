"""Recognises tiled matrix products: which loops run over M, N and K, and what is loaded where."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from attrs import define, field, frozen

from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.rewrites.affine import Affine, Dim, Region, Symbol, region_symbols
from accelopt_lsp.rewrites.base import NotApplicable
from accelopt_lsp.rewrites.model import Access, KernelModel, Step, is_none, require
from accelopt_lsp.rewrites.source import names_in
from accelopt_lsp.rewrites.values import Loop, Tensor, TileList, View

PRODUCTS = ("nl.matmul", "nisa.nc_matmul")
LOADS = ("nl.load", "nisa.dma_copy")


@define(slots=True, eq=False)
class Operand:
    """One input of the product, traced back to HBM.

    Attributes:
        role: ``stationary`` or ``moving``.
        node: the expression in the product.
        load: step that loads it.
        source: expression in HBM that the load reads.
        region: that region in terms of the product's loops.
        rows, columns: positions in ``region`` of the contraction and of the free dimension.
        tile: tensor that the load fills.
        loop: outer loop that the free dimension moves with; None if it stays.
        absorbed: statements that only serve this operand.
        direct: loaded under the product's own loop variables.
    """

    role: str
    node: ast.expr
    load: Step
    source: ast.expr
    region: Region
    rows: int
    columns: int
    tile: Tensor
    loop: Loop | None = None
    absorbed: list[ast.stmt] = field(factory=list)
    direct: bool = True

    @property
    def width(self) -> int:
        """Columns of one tile."""
        return self.region[self.columns].extent or 0

    @property
    def height(self) -> int:
        """Contraction rows of one tile."""
        return self.region[self.rows].extent or 0

    @property
    def itemsize(self) -> int:
        return self.tile.dtype.nbytes if self.tile.dtype else 0


@frozen(slots=True, eq=False)
class MatmulNest:
    """A product of tiles inside loops.

    Attributes:
        product: the step that multiplies.
        stationary, moving: its operands.
        psum: tile that sums the products.
        outer: loops over output tiles that may be blocked, outermost first.
        contraction: the loop over K.
        body: statements of the innermost output loop.
    """

    product: Step
    stationary: Operand
    moving: Operand
    psum: Tensor
    outer: tuple[Loop, ...]
    contraction: Loop
    body: Sequence[ast.stmt]

    @property
    def operands(self) -> tuple[Operand, Operand]:
        return (self.stationary, self.moving)

    @property
    def absorbed(self) -> list[ast.stmt]:
        return [*self.stationary.absorbed, *self.moving.absorbed]


def find_nests(model: KernelModel) -> list[MatmulNest]:
    """All products that :func:`match_nest` understands."""
    found = []
    for step in model.steps:
        if step.api in PRODUCTS and step.loops:
            try:
                found.append(match_nest(model, step))
            except NotApplicable:
                continue
    return found


def why_not(model: KernelModel, line: int | None) -> str:
    """What keeps the product in that line, or the first one, from being a plain nest."""
    for step in model.steps:
        if step.api in PRODUCTS and line in (None, step.node.lineno):
            try:
                match_nest(model, step)
            except NotApplicable as error:
                return str(error)
    return "no tiled matrix product that can be blocked"


def match_nest(model: KernelModel, step: Step) -> MatmulNest:
    """The nest around one product.

    Raises:
        NotApplicable: not a plain tiled product; the message says what is in the way.
    """
    require(not step.opaque and not step.guarded, "the product is not understood")
    for name in ("mask", "is_transpose", "tile_position", "tile_size", "perf_mode", "accumulate"):
        argument = step.argument(name)
        plain = is_none(argument) or (isinstance(argument, ast.Constant) and not argument.value)
        require(plain, f"the product uses {name}")
    psum = _destination(model, step)
    creator = model.creator(psum)
    require(creator is not None and psum.allocation, "the product's tile is made elsewhere")
    assert creator is not None
    around = creator.loops
    require(step.loops[: len(around)] == around, "the product's tile is made in another loop")
    contraction = step.loops[len(around) :]
    require(len(contraction) == 1, "needs exactly one loop over the contraction")
    (k,) = contraction
    require(k.plain and k.trips is not None, "the contraction loop's length is unknown")
    x, y = _operand_nodes(step)
    stationary = trace_operand(model, step, x, "stationary")
    moving = trace_operand(model, step, y, "moving")
    for operand in (stationary, moving):
        rows = operand.region[operand.rows].start
        require(
            rows.coefficient(k.symbol) == operand.height
            or (
                rows.coefficient(k.symbol) == 0
                and any(d.point and k.symbol in d.symbols() for d in operand.region)
            ),
            f"the {operand.role} operand does not move by whole tiles along K",
        )
    outer = _classify(around, stationary, moving)
    require(bool(outer), "no loop over output tiles to block")
    body = outer[-1].node.body
    nest = MatmulNest(step, stationary, moving, psum, outer, k, body)
    _check_structure(model, nest)
    _check_independence(model, nest)
    return nest


def _destination(model: KernelModel, step: Step) -> Tensor:
    written = [a.view for a in step.writes if a.view.tensor.buffer is Buffer.PSUM]
    require(len(written) == 1, "the product does not accumulate in PSUM")
    if model.context.legacy:
        augmented = isinstance(step.node, ast.AugAssign) and isinstance(step.node.op, ast.Add)
        require(augmented, "the product is not accumulated with +=")
    require(written[0].whole, "the product writes a part of a tile")
    return written[0].tensor


def _operand_nodes(step: Step) -> tuple[ast.expr, ast.expr]:
    if step.api == "nl.matmul":
        flag = step.argument("transpose_x")
        transposed = isinstance(flag, ast.Constant) and flag.value is True
        require(transposed, "nl.matmul without transpose_x needs a transpose per tile")
    first, second = ("x", "y") if step.api == "nl.matmul" else ("stationary", "moving")
    x, y = step.argument(first), step.argument(second)
    if x is None or y is None:
        raise NotApplicable("the product's operands are not understood")
    return x, y


def trace_operand(model: KernelModel, step: Step, node: ast.expr, role: str) -> Operand:
    """Follow a product's input back to the load that fills it.

    Raises:
        NotApplicable: it is computed on chip, partly loaded, masked or used elsewhere too.
    """
    view = model.view(node)
    if view is None or view.region is None:
        raise NotApplicable(f"the {role} operand is not understood")
    tensor = view.tensor
    load, absorbed = _load_of(model, tensor, role)
    require(not load.opaque and not load.guarded, f"the {role} operand's load is not understood")
    require(is_none(load.argument("mask")), f"the {role} operand's load is masked")
    source = load.argument("src")
    origin = model.view(source)
    if source is None or origin is None or origin.region is None:
        raise NotApplicable(f"the {role} operand's source is not understood")
    require(origin.tensor.parameter, f"the {role} operand does not come from a kernel input")
    require(not model.uses(origin.tensor)[1], f"the {role} operand's source is written to")
    written = _written_view(load, tensor)
    region, direct = _compose(step, load, view, written, origin)
    kept = [i for i, d in enumerate(region) if not d.point]
    require(len(kept) == 2, f"the {role} operand is not two-dimensional")
    axes = [region[i].axis for i in kept]
    if all(a is not None and a.position is not None for a in axes):
        placed = {i: a.position or 0 for i, a in zip(kept, axes, strict=True) if a is not None}
        kept.sort(key=placed.__getitem__)
    require(all(region[i].extent for i in kept), f"the {role} operand's size is unknown")
    require(all(region[i].step == 1 for i in kept), f"the {role} operand is strided")
    _only_used_by(model, tensor, step, absorbed, role)
    return Operand(
        role, node, load, source, region, kept[0], kept[1], tensor, None, absorbed, direct
    )


def _load_of(model: KernelModel, tensor: Tensor, role: str) -> tuple[Step, list[ast.stmt]]:
    creator = model.creator(tensor)
    if creator is None:
        raise NotApplicable(f"the {role} operand is not loaded")
    writers = [s for s in model.uses(tensor)[1] if s is not creator]
    if tensor.api == "nl.load":
        require(not writers, f"the {role} operand is changed after its load")
        return creator, [creator.node]
    require(tensor.api == "nl.ndarray" and len(writers) == 1, f"the {role} operand is computed")
    load = writers[0]
    require(load.api in LOADS, f"the {role} operand is computed")
    return load, [creator.node, load.node]


def _written_view(load: Step, tensor: Tensor) -> View:
    views = [a.view for a in load.writes if a.view.tensor is tensor]
    require(len(views) == 1 and views[0].region is not None, "the load's tile is not understood")
    return views[0]


def _compose(
    step: Step, load: Step, view: View, written: View, origin: View
) -> tuple[Region, bool]:
    """The HBM region that the product reads, in terms of its own loops."""
    assert view.region is not None and written.region is not None and origin.region is not None
    substitution: dict[Symbol, Affine] = dict(view.instance)
    offsets: list[tuple[Affine, int | None]] = []
    for read, write in zip(view.region, written.region, strict=True):
        if write.point:
            require(read.point, "a block of tiles is read at once")
            _unify(write.start, read.start, substitution)
            continue
        require(not read.point, "a single row of a tile is read")
        require(
            write.step == 1 and read.step == 1 and write.start.value is not None, "strided tiles"
        )
        offset = read.start.minus(write.start)
        constant = offset.value
        require(constant is not None or not write.start.terms, "moving tiles")
        offsets.append((offset, read.extent))
    shared = {loop.symbol for loop in load.loops if loop in step.loops}
    for loop in load.loops:
        require(
            loop.symbol in shared or loop.symbol in substitution,
            "the load's loop does not match the product's",
        )
        require(loop.plain, "the load's loop does not count from 0")
    kept = [i for i, d in enumerate(origin.region) if not d.point]
    axes = [origin.region[i].axis for i in kept]
    if len(kept) > 1 and all(a is not None and a.position is not None for a in axes):
        order = sorted(range(len(kept)), key=lambda n: axes[n].position)  # type: ignore[union-attr, arg-type, return-value]
        kept = [kept[n] for n in order]
    require(len(kept) == len(offsets), "the loaded tile has another rank")
    region = list(origin.region)
    for position, (offset, extent) in zip(kept, offsets, strict=True):
        dim = origin.region[position]
        region[position] = Dim(
            dim.start.plus(offset.times(dim.step)), extent, dim.step, axis=dim.axis
        )
    result = []
    for dim in region:
        start = dim.start
        for symbol, by in substitution.items():
            start = start.replaced(symbol, by)
        result.append(Dim(start, dim.extent, dim.step, dim.point, dim.axis))
    return tuple(result), not substitution


def _unify(write: Affine, read: Affine, substitution: dict[Symbol, Affine]) -> None:
    """Which iteration of the load filled the block that is read."""
    if write == read:
        return
    require(
        write.constant == 0 and len(write.terms) == 1 and set(write.terms.values()) == {1},
        "blocks are filled in an order that is not understood",
    )
    (symbol,) = write.terms
    known = substitution.get(symbol)
    require(known is None or known == read, "blocks are filled in two ways")
    substitution[symbol] = read


def _only_used_by(
    model: KernelModel, tensor: Tensor, step: Step, absorbed: list[ast.stmt], role: str
) -> None:
    """The tile has no other reader; lists that hold it are absorbed too."""
    for reader in model.uses(tensor)[0]:
        if reader is step or reader.node in absorbed:
            continue
        appended = _append_list(model, reader)
        require(appended is not None, f"the {role} operand is used elsewhere too")
        assert appended is not None
        absorbed.append(reader.node)
        _absorb_list(model, appended, step, absorbed, role)


def _append_list(model: KernelModel, step: Step) -> str | None:
    node = step.node
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        function = node.value.func
        if isinstance(function, ast.Attribute) and function.attr == "append":
            if isinstance(model.value(function.value), TileList) and isinstance(
                function.value, ast.Name
            ):
                return function.value.id
    return None


def _absorb_list(
    model: KernelModel, name: str, step: Step, absorbed: list[ast.stmt], role: str
) -> None:
    for other in model.steps:
        if name not in names_in(other.node) or other is step or other.node in absorbed:
            continue
        created = isinstance(other.node, ast.Assign) and isinstance(other.node.value, ast.List)
        require(created, f"the list of {role} tiles is used elsewhere too")
        absorbed.append(other.node)


def _classify(around: tuple[Loop, ...], stationary: Operand, moving: Operand) -> tuple[Loop, ...]:
    """Loops over output tiles: those that one operand moves with and the other does not."""
    first, second = region_symbols(stationary.region), region_symbols(moving.region)
    outer: list[Loop] = []
    for loop in reversed(around):
        in_first, in_second = loop.symbol in first, loop.symbol in second
        if in_first == in_second:
            break
        operand = stationary if in_first else moving
        require(operand.loop is None, f"two loops move the {operand.role} operand")
        require(loop.plain and loop.trips is not None, "a loop over output tiles is not plain")
        dim = operand.region[operand.columns]
        require(
            dim.start.coefficient(loop.symbol) == operand.width,
            f"tiles of the {operand.role} operand are not adjacent",
        )
        others = [d for i, d in enumerate(operand.region) if i != operand.columns]
        require(
            not any(loop.symbol in d.symbols() for d in others),
            f"the {operand.role} operand moves in two dimensions",
        )
        operand.loop = loop
        outer.insert(0, loop)
    return tuple(outer)


def _check_structure(model: KernelModel, nest: MatmulNest) -> None:
    """Between the loops stands nothing but what the operands need."""
    absorbed = {id(n) for n in nest.absorbed}
    for loop, inner in zip(nest.outer, nest.outer[1:], strict=False):
        for statement in loop.node.body:
            if statement is inner.node or _is_text(statement):
                continue
            require(
                _only_absorbed(statement, absorbed),
                f"line {statement.lineno} stands between the loops over output tiles",
            )
    for statement in nest.contraction.node.body:
        if statement is nest.product.node or _is_text(statement):
            continue
        step = model.step_of(statement)
        harmless = step is not None and not step.reads and not step.writes and not step.opaque
        require(
            harmless or _only_absorbed(statement, absorbed),
            f"line {statement.lineno} does more than multiply in the contraction loop",
        )
    require(
        any(nest.contraction.node is s for s in nest.body),
        "the contraction loop does not stand in the innermost output loop",
    )
    root = nest.outer[0].node
    require(
        all(_inside(root, n) for n in nest.absorbed),
        "an operand is loaded outside of the loops over output tiles",
    )


def _inside(root: ast.stmt, node: ast.stmt) -> bool:
    return root.lineno <= node.lineno and (node.end_lineno or 0) <= (root.end_lineno or 0)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _only_absorbed(statement: ast.stmt, absorbed: set[int]) -> bool:
    if id(statement) in absorbed or _is_text(statement):
        return True
    return isinstance(statement, ast.For) and all(
        _only_absorbed(s, absorbed) for s in statement.body
    )


def _check_independence(model: KernelModel, nest: MatmulNest) -> None:
    """Output tiles may be computed in any order."""
    root = nest.outer[0].node
    absorbed = {id(n) for n in nest.absorbed}
    steps = [s for s in model.steps_in(root) if id(s.node) not in absorbed]
    inner_loops = len(nest.product.loops) - 1
    for step in steps:
        require(not step.opaque, f"line {step.node.lineno} is not understood")
        for access in step.writes:
            tensor = access.view.tensor
            creator = model.creator(tensor)
            if creator is not None and len(creator.loops) >= inner_loops:
                if creator.loops[:inner_loops] == nest.product.loops[:inner_loops]:
                    continue
            require(
                tensor.buffer is Buffer.HBM and _disjoint(access, nest.outer),
                f"line {step.node.lineno} writes {tensor.name}, which output tiles share",
            )
            require(
                not any(s.reads_of(tensor) for s in steps),
                f"{tensor.name} is read and written in the loops",
            )
    inside = {id(n) for n in ast.walk(root)}
    bound = {
        n.id for n in ast.walk(root) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    for node in ast.walk(model.context.function):
        if isinstance(node, ast.Name) and id(node) not in inside and node.id in bound:
            if isinstance(node.ctx, ast.Load) and node.lineno > root.lineno:
                rebound = any(
                    b.lineno > (root.end_lineno or 0) and b.lineno <= node.lineno  # type: ignore[attr-defined]
                    for b in model.bindings.get(node.id, ())
                )
                require(rebound, f"{node.id} is used after the loops")


def _disjoint(access: Access, loops: tuple[Loop, ...]) -> bool:
    """Different iterations write different places."""
    region = access.view.region
    if region is None:
        return False
    for loop in loops:
        moved = [
            d
            for d in region
            if d.extent is not None
            and abs(d.start.coefficient(loop.symbol)) >= (d.extent - 1) * d.step + 1
            and not any(other.symbol in d.symbols() for other in loops if other is not loop)
        ]
        if not moved:
            return False
    return True
