"""Block a matrix product so that loaded tiles are reused.

Before::

    for m in affine_range(M // 128):
        for n in affine_range(N // 512):
            acc = zeros((128, 512), buffer=psum)
            for k in affine_range(K // 128):
                a = load(lhsT[k, m])                # [128, 128], again for every n
                b = load(rhs[k, n])                 # [128, 512], again for every m
                acc += matmul(a, b)
            store(result[m, n], copy(acc))

After::

    for m_block in affine_range(M // BLOCK_M):
        a[0:K] = wide loads of lhsT[:, m_block]     # once
        for n_block in affine_range(N // BLOCK_N):
            b[0:K] = wide loads of rhs[:, n_block]  # once per m_block
            for m, n in the block:
                acc = zeros(...)
                for k: acc += matmul(a[k][m], b[k][n])
                store(result[m, n], copy(acc))
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from attrs import define, frozen

from accelopt_lsp.nki.work import matmul_passes
from accelopt_lsp.rewrites.affine import Dim, Symbol
from accelopt_lsp.rewrites.base import Description, NotApplicable, RewriteContext, Site
from accelopt_lsp.rewrites.matmul_nest import MatmulNest, Operand, find_nests
from accelopt_lsp.rewrites.model import require
from accelopt_lsp.rewrites.source import Edit, names_in, reindent
from accelopt_lsp.rewrites.spelling import Speller, factor, wrap
from accelopt_lsp.rewrites.values import Loop

NAME = "block-matmul"
_SHARE = 0.9
"""Share of the SBUF budget that blocks may take; the rest is left to the epilogue's tiles."""
_SITES = 5
_LESS = 0.95
"""Only choices that read less than this share of today's bytes are offered."""


@frozen(slots=True)
class Plan:
    """One choice of parameters with its estimated cost.

    Attributes:
        resident: operand that stays on chip in the outer loop.
        blocks: tiles per block of the stationary and of the moving operand.
        nanoseconds: estimated time of the nest.
        hbm_bytes: what the operands' loads read in total.
        partition_bytes: SBUF that the blocks take.
    """

    resident: str
    blocks: tuple[int, int]
    nanoseconds: float
    hbm_bytes: int
    partition_bytes: int


class BlockMatmul:
    """Recognises a tiled product and rewrites it into a blocked one."""

    name = NAME
    title = "Block the matrix product"
    tags = ("dma", "nc_matmul", "loop-nest", "reuse")
    description = Description(
        title=title,
        strategy=(
            "When a tiled matrix product reloads its input tiles for every output tile, HBM "
            "traffic grows with the number of output tiles and DMA bounds the kernel. Keep a "
            "block of one operand on chip (all of K), stream blocks of the other past it, and "
            "load each block with wide transfers. Traffic drops by the number of tiles per "
            "block, and the Tensor Engine becomes the bound."
        ),
        before=(
            "for m in range(M_TILES):\n    for n in range(N_TILES):\n        acc = psum tile\n"
            "        for k in range(K_TILES):\n            a = load(lhsT[k, m])\n"
            "            b = load(rhs[k, n])\n            acc += matmul(a, b)\n"
            "        store(out[m, n], acc)"
        ),
        after=(
            "for m_block in range(M_TILES // BM):\n"
            "    a[k] = load(lhsT[k, m_block])  # for all k, BM tiles wide\n"
            "    for n_block in range(N_TILES // BN):\n"
            "        b[k] = load(rhs[k, n_block])  # for all k, BN tiles wide\n"
            "        for m in m_block, n in n_block:\n            acc = psum tile\n"
            "            for k in range(K_TILES):\n                acc += matmul(a[k][m], b[k][n])\n"
            "            store(out[m, n], acc)"
        ),
        bottlenecks=("dma", "latency"),
        instructions=("nc_matmul", "dma_copy"),
        pattern="loops over M, N and K tiles with loads in the innermost one",
    )

    def find(self, context: RewriteContext) -> tuple[Site, ...]:
        sites = []
        for nest in find_nests(context.model):
            now = sum(_naive_bytes(nest, o) for o in nest.operands)
            plans = [p for p in choose_plans(context, nest) if p.hbm_bytes < _LESS * now]
            for plan in plans[:_SITES]:
                site = self._site(nest, plan, len(sites))
                try:
                    Emitter(context, nest, plan).text()
                except NotApplicable:
                    continue
                sites.append(site)
        return tuple(sites)

    def _site(self, nest: MatmulNest, plan: Plan, rank: int) -> Site:
        line = nest.product.node.lineno
        block_m, block_n = plan.blocks
        parameters = {
            "line": line,
            "block_m": block_m,
            "block_n": block_n,
            "resident": plan.resident,
        }
        now = sum(_naive_bytes(nest, o) for o in nest.operands)
        return Site(
            NAME,
            f"{NAME}:{line}:{plan.resident}:{block_m}x{block_n}",
            f"Block the product in line {line} by {block_m} x {block_n} output tiles and keep "
            f"the {plan.resident} operand on chip",
            parameters,
            f"loads {plan.hbm_bytes / 1e6:.0f} MB from HBM instead of {now / 1e6:.0f} MB; blocks "
            f"take {plan.partition_bytes / 1024:.0f} KiB of SBUF per partition",
            line,
            rank,
        )

    def apply(self, context: RewriteContext, site: Site) -> str:
        parameters = site.parameters
        nests = find_nests(context.model)
        line = parameters.get("line")
        chosen = [n for n in nests if line is None or n.product.node.lineno == line]
        if not chosen:
            raise NotApplicable("no tiled matrix product that can be blocked")
        plan = plan_for(context, chosen[0], parameters)
        return Emitter(context, chosen[0], plan).text()


def _trips(operand: Operand) -> int:
    return (operand.loop.trips or 1) if operand.loop is not None else 1


def _naive_bytes(nest: MatmulNest, operand: Operand) -> int:
    runs = 1
    for loop in operand.load.loops:
        runs *= loop.trips or 1
    return runs * operand.width * operand.height * operand.itemsize


def choose_plans(context: RewriteContext, nest: MatmulNest) -> list[Plan]:
    """Parameter choices that fit on chip, fastest first by a simple overlap model."""
    plans = []
    for resident in ("stationary", "moving"):
        for block_m in _divisors(_trips(nest.stationary)):
            for block_n in _divisors(_trips(nest.moving)):
                plan = _plan(context, nest, resident, (block_m, block_n))
                if plan is not None:
                    plans.append(plan)
    plans.sort(key=lambda p: (round(p.nanoseconds / 1e3), p.partition_bytes))
    return _varied(plans)


def _varied(plans: list[Plan]) -> list[Plan]:
    """The best of all, then the best ones that differ in the resident operand or in size."""
    chosen: list[Plan] = []
    for plan in plans:
        if all(
            plan.resident != c.resident or abs(plan.partition_bytes - c.partition_bytes) > 4096
            for c in chosen
        ):
            chosen.append(plan)
    return chosen


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]


def plan_for(context: RewriteContext, nest: MatmulNest, parameters: Any) -> Plan:
    """The plan with the given parameters; what is left out is chosen.

    Raises:
        NotApplicable: they do not divide the tiles, or do not fit.
    """
    wanted = {k: v for k, v in parameters.items() if k in ("resident", "block_m", "block_n")}
    if {"resident", "block_m", "block_n"} <= wanted.keys():
        blocks = (wanted["block_m"], wanted["block_n"])
        plan = _plan(context, nest, wanted["resident"], blocks)
        require(plan is not None, f"blocks of {blocks[0]} x {blocks[1]} tiles do not fit")
        assert plan is not None
        return plan
    for plan in choose_plans(context, nest):
        given = {"resident": plan.resident, "block_m": plan.blocks[0], "block_n": plan.blocks[1]}
        if all(given[k] == v for k, v in wanted.items()):
            return plan
    raise NotApplicable("no blocks with these parameters fit on chip")


def _plan(
    context: RewriteContext, nest: MatmulNest, resident: str, blocks: tuple[int, int]
) -> Plan | None:
    sizes = dict(zip(("stationary", "moving"), blocks, strict=True))
    for operand in nest.operands:
        block = sizes[operand.role]
        if not isinstance(block, int) or block < 1 or _trips(operand) % block:
            return None
    if resident not in sizes or not all(o.itemsize for o in nest.operands):
        return None
    kept = nest.stationary if resident == "stationary" else nest.moving
    streamed = nest.moving if kept is nest.stationary else nest.stationary
    depth = nest.contraction.trips or 1
    outer_blocks = _trips(kept) // sizes[kept.role]
    inner_blocks = _trips(streamed) // sizes[streamed.role]
    kept_bytes = depth * sizes[kept.role] * kept.width * kept.itemsize
    streamed_bytes = depth * sizes[streamed.role] * streamed.width * streamed.itemsize
    total = kept_bytes + streamed_bytes * (2 if inner_blocks * outer_blocks > 1 else 1)
    if total > context.sbuf_budget * _SHARE:
        return None
    doubled = total + kept_bytes <= context.sbuf_budget * _SHARE
    target = context.target
    tiles = _trips(kept) * _trips(streamed) * depth
    passes = matmul_passes(max(o.itemsize for o in nest.operands))
    compute = tiles * nest.moving.width * passes / target["pe_effective_clock"]
    kept_ns = _transfer_ns(context, kept, sizes[kept.role], depth)
    streamed_ns = _transfer_ns(context, streamed, sizes[streamed.role], depth)
    loads = outer_blocks * (kept_ns + inner_blocks * streamed_ns)
    stalls = 0.0 if doubled else (outer_blocks - 1) * kept_ns
    time = max(compute, loads) + stalls + kept_ns + streamed_ns
    rows = nest.stationary.height
    traffic = rows * outer_blocks * (kept_bytes + inner_blocks * streamed_bytes)
    return Plan(resident, blocks, time, traffic, total)


def _transfer_ns(context: RewriteContext, operand: Operand, block: int, depth: int) -> float:
    """Time to load one block: one descriptor a row, shared by the DMA engines."""
    target = context.target
    engines = target["dma_engines"]
    row = block * operand.width * operand.itemsize
    small = row < 512
    fixed = target["dma_small_descriptor_ns" if small else "dma_descriptor_ns"]
    return depth * operand.height / engines * (fixed + row / target["dma_engine_rate"])


@define(slots=False)
class Axis:
    """Names of the loops over one blocked dimension.

    Attributes:
        loop: the original loop; None if the operand does not move.
        tiles: tiles per block.
        width: columns per tile.
    """

    loop: Loop | None
    tiles: int
    width: int
    block_variable: str = ""
    tile_variable: str = ""
    tiles_name: str = ""
    width_name: str = ""

    @property
    def trips(self) -> int:
        return (self.loop.trips or 1) if self.loop is not None else 1

    @property
    def split(self) -> bool:
        """Has both a loop over blocks and one over the tiles of a block."""
        return 1 < self.tiles < self.trips

    @property
    def has_blocks(self) -> bool:
        return self.loop is not None and self.tiles < self.trips

    @property
    def has_tiles(self) -> bool:
        return self.loop is not None and self.tiles > 1


class Emitter:
    """Writes the blocked nest in the author's names and layout."""

    def __init__(self, context: RewriteContext, nest: MatmulNest, plan: Plan) -> None:
        self.context = context
        self.nest = nest
        self.plan = plan
        self.source = context.source
        self.model = context.model
        self.root = nest.outer[0].node
        around = nest.product.loops[: nest.product.loops.index(nest.outer[0])]
        self.speller = Speller(context, self.root.lineno, around)
        self.unit = self.source.indent_unit(context.function)
        self.axes = {
            "stationary": Axis(nest.stationary.loop, plan.blocks[0], nest.stationary.width),
            "moving": Axis(nest.moving.loop, plan.blocks[1], nest.moving.width),
        }
        self.buffers: dict[str, str] = {}
        self.tiles: dict[str, str] = {}
        self.constants: list[str] = []

    def text(self) -> str:
        """The whole new file.

        Raises:
            NotApplicable: something has no name where it would move to.
        """
        for loop in self.nest.outer:
            self.source.check_whole_lines(loop.node)
        for axis in self.axes.values():
            self._name_axis(axis)
        for operand in self.nest.operands:
            stem = _stem(operand.tile.name)
            self.buffers[operand.role] = self.speller.fresh(f"{stem}_block")
            self.tiles[operand.role] = self.speller.fresh(f"{stem}_wide")
        lines = list(self._nest())
        first = self.source.comments_above(self.root)
        comments = self.source.extract(first, self.root.lineno - 1) if first < self.root.lineno else ""
        indent = self.source.indent_of(self.root)
        head = "".join(f"{indent}{line}{self.source.newline}" for line in self.constants)
        if head:
            head += self.source.newline
        start, _ = self.source.line_range(first, first)
        _, end = self.source.line_range(first, self.root.end_lineno or 0)
        body = head + comments + "".join(lines)
        return self.source.apply([Edit(start, end, body)])

    def _name_axis(self, axis: Axis) -> None:
        if axis.loop is None:
            return
        variable = axis.loop.variable
        axis.block_variable = self.speller.fresh(f"{variable}_block") if axis.split else variable
        axis.tile_variable = self.speller.fresh(f"{variable}_tile") if axis.split else variable
        if not axis.has_tiles:
            return
        stem = variable.upper()
        if not axis.split:
            return
        if not self.constants:
            self.constants.append("# Output tiles per block: the larger, the fewer reloads.")
        axis.tiles_name = self.speller.fresh(f"TILES_IN_BLOCK_{stem}")
        axis.width_name = self.speller.fresh(f"BLOCK_{stem}")
        size = self.speller.number(axis.width, self._near(axis))
        self.constants.append(f"{axis.tiles_name} = {axis.tiles}")
        self.constants.append(f"{axis.width_name} = {axis.tiles_name} * {size}")

    def _near(self, axis: Axis) -> list[ast.AST]:
        """Expressions in which the author wrote this dimension's tile size."""
        assert axis.loop is not None
        operand = next(o for o in self.nest.operands if o.loop is axis.loop)
        return [*self._dimension_nodes(operand, operand.columns), axis.loop.node.iter]

    def _dimension_nodes(self, operand: Operand, position: int) -> list[ast.AST]:
        source = operand.source
        if isinstance(source, ast.Subscript):
            index = source.slice
            if isinstance(index, ast.Tuple) and position < len(index.elts):
                return [index.elts[position], source]
        return [source]

    def _nest(self) -> Iterator[str]:
        kept, streamed = self._order()
        indent = self.source.indent_of(self.root)
        if self.axes[kept.role].has_blocks:
            yield self._header(indent, self.axes[kept.role], blocks=True)
            indent += self.unit
        yield from self._load(indent, kept)
        yield self.source.newline
        if self.axes[streamed.role].has_blocks:
            yield self._header(indent, self.axes[streamed.role], blocks=True)
            indent += self.unit
        yield from self._load(indent, streamed)
        yield self.source.newline
        rebound = []
        for operand in (kept, streamed):
            axis = self.axes[operand.role]
            if axis.has_tiles:
                yield self._header(indent, axis, blocks=False)
                indent += self.unit
            if axis.split:
                rebound.append(axis)
        body = self._body(indent)
        for axis in rebound:
            assert axis.loop is not None
            if axis.loop.variable in body[1]:
                yield self._line(
                    indent,
                    f"{axis.loop.variable} = {axis.block_variable} * {axis.tiles_name} "
                    f"+ {axis.tile_variable}",
                )
        yield body[0]

    def _order(self) -> tuple[Operand, Operand]:
        nest = self.nest
        if self.plan.resident == "stationary":
            return nest.stationary, nest.moving
        return nest.moving, nest.stationary

    def _line(self, indent: str, text: str) -> str:
        return wrap(indent, text, self.source.newline)

    def _header(self, indent: str, axis: Axis, *, blocks: bool) -> str:
        assert axis.loop is not None
        node = axis.loop.node
        assert isinstance(node.iter, ast.Call)
        function = self.source.of(node.iter.func)
        variable = axis.block_variable if blocks else axis.tile_variable
        if axis.split:
            count = self._block_count(axis) if blocks else axis.tiles_name
            return self._line(indent, f"for {variable} in {function}({count}):")
        return self._line(indent, f"for {variable} in {self.source.one_line(node.iter)}:")

    def _block_count(self, axis: Axis) -> str:
        """``M // BLOCK_M`` where the author wrote ``M // TILE_M``."""
        assert axis.loop is not None and isinstance(axis.loop.node.iter, ast.Call)
        argument = axis.loop.node.iter.args[0]
        if isinstance(argument, ast.BinOp) and isinstance(argument.op, ast.FloorDiv):
            if self.model.integer(argument.right) == axis.width:
                return f"{self.source.one_line(argument.left)} // {axis.width_name}"
        return f"{factor(self.source.one_line(argument), argument)} // {axis.tiles_name}"

    def _load(self, indent: str, operand: Operand) -> Iterator[str]:
        """Loads one block: all of K, as wide as the block."""
        nl = self.speller.prefix("nl")
        k = self.nest.contraction
        assert isinstance(k.node.iter, ast.Call)
        buffer, tile = self.buffers[operand.role], self.tiles[operand.role]
        rows = self.speller.number(
            operand.height, [*self._dimension_nodes(operand, operand.rows), k.node.iter]
        )
        columns = self._width(operand)
        dtype = self._dtype(operand)
        header = f"for {k.variable} in {self.source.one_line(k.node.iter)}:"
        self._check_names(k.node.iter)
        source = self._wide_source(operand)
        if self.context.legacy:
            depth = self.source.one_line(k.node.iter.args[0])
            yield self._line(
                indent,
                f"{buffer} = {nl}.ndarray(({depth}, {nl}.par_dim({rows}), {columns}), "
                f"dtype={dtype}, buffer={nl}.sbuf)",
            )
            yield self._line(indent, header)
            target = f"{buffer}[{k.variable}, :, :]"
            yield self._transfer(indent + self.unit, operand, target, source)
            return
        yield self._line(indent, f"{buffer} = []")
        yield self._line(indent, header)
        inner = indent + self.unit
        yield self._line(
            inner, f"{tile} = {nl}.ndarray(({rows}, {columns}), dtype={dtype}, buffer={nl}.sbuf)"
        )
        yield self._transfer(inner, operand, tile, source)
        yield self._line(inner, f"{buffer}.append({tile})")

    def _check_names(self, node: ast.AST) -> None:
        require(
            self.speller.all_in_scope(node), "the contraction loop's length is not known outside"
        )

    def _width(self, operand: Operand) -> str:
        axis = self.axes[operand.role]
        if axis.split:
            return axis.width_name
        return self.speller.number(
            axis.width * axis.tiles, self._dimension_nodes(operand, operand.columns)
        )

    def _dtype(self, operand: Operand) -> str:
        """The tile's own type as the author wrote it, else the input's."""
        creator = self.model.creator(operand.tile)
        for step in (creator, operand.load):
            node = step.argument("dtype") if step is not None else None
            if node is not None and self.speller.all_in_scope(node):
                if not (isinstance(node, ast.Constant) and node.value is None):
                    return self.source.one_line(node)
        view = self.model.view(operand.source)
        assert view is not None
        return f"{view.tensor.name}.dtype"

    def _wide_source(self, operand: Operand) -> str:
        """The HBM region of a whole block."""
        source = operand.source
        require(isinstance(source, ast.Subscript), "the whole input is loaded at once")
        assert isinstance(source, ast.Subscript)
        require(isinstance(source.value, ast.Name), "the input is indexed in two steps")
        axis = self.axes[operand.role]
        names: dict[Symbol, str] = {self.nest.contraction.symbol: self.nest.contraction.variable}
        for loop in self.nest.product.loops:
            if loop not in self.nest.outer and loop is not self.nest.contraction:
                names[loop.symbol] = loop.variable
        parts = [
            self._wide_dimension(operand, axis, names, position)
            for position in range(len(operand.region))
        ]
        return f"{self.source.of(source.value)}[{', '.join(parts)}]"

    def _wide_dimension(
        self, operand: Operand, axis: Axis, names: dict[Symbol, str], position: int
    ) -> str:
        dim = operand.region[position]
        nodes = self._dimension_nodes(operand, position)
        if position != operand.columns or axis.loop is None or axis.tiles == 1:
            scoped = dict(names)
            if axis.loop is not None and axis.tiles == 1:
                scoped[axis.loop.symbol] = axis.loop.variable
            return self._kept_dimension(operand, dim, scoped, nodes)
        start = dim.start.without(axis.loop.symbol)
        if axis.split:
            name, width = axis.block_variable, axis.width_name
            first = f"{name} * {width}"
            if not start.terms and not start.constant:
                return self.speller.slice(first, width, nodes, f"({name} + 1) * {width}")
            first = f"{first} + {self.speller.affine(start, names, nodes)}"
            return self.speller.slice(first, width, nodes)
        return self.speller.dimension(Dim(start, axis.width * axis.tiles), names, nodes)

    def _kept_dimension(
        self, operand: Operand, dim: Dim, names: dict[Symbol, str], nodes: list[ast.AST]
    ) -> str:
        """As the author wrote it where it means the same, else spelled anew."""
        own = nodes[0]
        if operand.direct and dim.axis is None and len(nodes) > 1:
            loops = {n for n in names.values()}
            if self.speller.all_in_scope(own, loops):
                return self.source.one_line(own)
        return self.speller.dimension(dim, names, nodes)

    def _transfer(self, indent: str, operand: Operand, target: str, source: str) -> str:
        load = operand.load
        assert load.call is not None
        edits = [self.source.replace(operand.source, source)]
        call_start, call_end = self.source.span(load.call)
        if load.api == "nisa.dma_copy":
            destination = load.argument("dst")
            assert destination is not None
            edits.append(self.source.replace(destination, target))
        moved = _apply_within(self.source.text, call_start, call_end, edits)
        for node in ast.walk(load.call):
            if isinstance(node, ast.keyword) and node.value is not operand.source:
                require(
                    node.value is load.argument("dst") or self.speller.all_in_scope(node.value),
                    "the load's arguments are not known outside",
                )
        moved = _fold(moved)
        if load.api == "nisa.dma_copy":
            return self._line(indent, moved)
        return self._line(indent, f"{target} = {moved}")

    def _body(self, indent: str) -> tuple[str, set[str]]:
        """Statements of one output tile, and the names that they use."""
        statements = list(self.nest.body)
        removed = {id(n) for n in self.nest.absorbed}
        edits: list[Edit] = []
        used: set[str] = set()
        self._removals(statements, removed, edits)
        for operand in self.nest.operands:
            edits.append(self.source.replace(operand.node, self._tile_in_block(operand)))
        for statement in statements:
            for node in ast.walk(statement):
                if isinstance(node, ast.stmt) and id(node) not in removed:
                    if not isinstance(node, ast.For):
                        used |= names_in(node)
                    else:
                        used |= names_in(node.iter)
        first = self.source.comments_above(statements[0], self.nest.outer[-1].node.lineno)
        last = self.nest.outer[-1].node.end_lineno or 0
        text = self.source.extract(first, last, edits)
        old = self.source.indent_of(statements[0])
        moved = _squeeze(reindent(text, old, indent))
        return "".join(self._rewrapped(line) for line in moved.splitlines(keepends=True)), used

    def _rewrapped(self, line: str) -> str:
        """A changed line that has become too long, broken where a person would."""
        changed = any(f"{name}[" in line for name in self.buffers.values())
        if not changed or len(line) <= 101 or "#" in line:
            return line
        text = line.strip()
        if text.count("(") != text.count(")") or text.count("[") != text.count("]"):
            return line
        return wrap(line[: len(line) - len(line.lstrip())], text, self.source.newline)

    def _removals(
        self, statements: list[ast.stmt], removed: set[int], edits: list[Edit]
    ) -> None:
        floor = self.nest.outer[-1].node.lineno
        for statement in statements:
            self._remove(statement, removed, edits, floor)
            floor = statement.end_lineno or floor

    def _remove(
        self, statement: ast.stmt, removed: set[int], edits: list[Edit], floor: int
    ) -> None:
        if id(statement) in removed or (
            isinstance(statement, ast.For)
            and statement is not self.nest.contraction.node
            and all(
                id(s) in removed or isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)
                for s in statement.body
            )
        ):
            self.source.check_whole_lines(statement)
            first = self.source.comments_above(statement, floor)
            edits.append(self.source.delete_lines(first, statement.end_lineno or 0))
        elif isinstance(statement, ast.For):
            inner_floor = statement.lineno
            for inner in statement.body:
                self._remove(inner, removed, edits, inner_floor)
                inner_floor = inner.end_lineno or inner_floor

    def _tile_in_block(self, operand: Operand) -> str:
        axis = self.axes[operand.role]
        buffer, k = self.buffers[operand.role], self.nest.contraction.variable
        columns = ":"
        if axis.has_tiles:
            nodes = self._dimension_nodes(operand, operand.columns)
            size = self.speller.number(axis.width, nodes)
            tile = axis.tile_variable
            columns = self.speller.slice(f"{tile} * {size}", size, nodes, f"({tile} + 1) * {size}")
        if self.context.legacy:
            return f"{buffer}[{k}, :, {columns}]"
        return f"{buffer}[{k}]" if columns == ":" else f"{buffer}[{k}][:, {columns}]"


def _stem(name: str) -> str:
    for suffix in ("_tiles", "_tile", "_sbuf", "_sb", "_block"):
        if name.endswith(suffix) and len(name) > len(suffix):
            return name[: -len(suffix)]
    return name


def _apply_within(text: str, start: int, end: int, edits: list[Edit]) -> str:
    from accelopt_lsp.rewrites.source import apply_edits

    inner = [Edit(e.start - start, e.end - start, e.text) for e in edits]
    return apply_edits(text[start:end], inner)


def _fold(text: str) -> str:
    """One line; comments inside a call stop it."""
    if "\n" not in text:
        return text
    require("#" not in text, "a comment stands inside the load")
    parts = [p.strip() for p in text.splitlines()]
    folded = parts[0]
    for part in parts[1:]:
        glue = "" if folded.endswith(("(", "[")) or part.startswith((")", "]")) else " "
        folded += glue + part
    return folded.replace(",)", ")")


def _squeeze(text: str) -> str:
    """No blank line at the start, and none doubled where statements were taken out."""
    lines = text.splitlines(keepends=True)
    result: list[str] = []
    for line in lines:
        blank = not line.strip()
        if blank and (not result or not result[-1].strip() or result[-1].rstrip().endswith(":")):
            continue
        result.append(line)
    return "".join(result)
