"""Writes a matrix product that is blocked along K too, with sums kept in SBUF.

For each block of output tiles, blocks of K are loaded one after the other; the products of a
block add up in PSUM, and those partial sums add up in SBUF. The epilogue then reads the sums.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelopt_lsp.nki.lines import split_lines
from accelopt_lsp.rewrites.base import RewriteContext
from accelopt_lsp.rewrites.block_edits import Axis, Emitter, squeeze
from accelopt_lsp.rewrites.block_plans import Plan
from accelopt_lsp.rewrites.matmul_nest import MatmulNest
from accelopt_lsp.rewrites.model import require
from accelopt_lsp.rewrites.source import Edit, names_in, reindent
from accelopt_lsp.rewrites.spelling import factor


def emitter(context: RewriteContext, nest: MatmulNest, plan: Plan) -> Emitter:
    """Who writes that plan."""
    return Emitter(context, nest, plan) if plan.depth is None else DeepEmitter(context, nest, plan)


class DeepEmitter(Emitter):
    """As :class:`Emitter`, with a loop over blocks of K inside the loops over blocks."""

    def _name_contraction(self) -> None:
        k = self.nest.contraction
        assert isinstance(k.node.iter, ast.Call)
        super()._name_contraction()
        others = [
            s
            for s in k.node.body
            if s is not self.nest.product.node and not any(s is a for a in self.nest.absorbed)
        ]
        require(
            all(isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant) for s in others),
            "more than the product stands in the contraction loop",
        )
        self.k_block = self.speller.fresh(f"{k.variable}_block")
        self.k_index = self.speller.fresh(f"{k.variable}_tile")
        tiles = self.speller.fresh(f"TILES_IN_BLOCK_{k.variable.upper()}")
        self.sums = self.speller.fresh("sums")
        if not self.constants:
            self.constants.append("# Tiles per block: the larger, the fewer reloads.")
        self.constants.append(f"{tiles} = {self.plan.depth}")
        function = self.source.of(k.node.iter.func)
        argument = k.node.iter.args[0]
        self.k_blocks = f"{factor(self.source.one_line(argument), argument)} // {tiles}"
        self.k_count = tiles
        self.k_range = f"{function}({tiles})"
        self.k_rebound = f"{k.variable} = {self.k_block} * {tiles} + {self.k_index}"

    def _nest(self) -> Iterator[str]:
        newline = self.source.newline
        indent = self.source.indent_of(self.root)
        order = [self.axes["stationary"], self.axes["moving"]]
        for axis in order:
            if axis.has_blocks:
                yield self._header(indent, axis, blocks=True)
                indent += self.unit
        yield from self._declare_sums(indent)
        yield newline
        k = self.nest.contraction.node.iter
        assert isinstance(k, ast.Call)
        function = self.source.of(k.func).replace("affine_range", "sequential_range")
        yield self._line(indent, f"for {self.k_block} in {function}({self.k_blocks}):")
        inner = indent + self.unit
        for operand in self.nest.operands:
            yield from self._load(inner, operand)
            yield newline
        yield from self._products(inner, order)
        yield newline
        yield from self._epilogue(indent, order)

    def _tile_loops(self, indent: str, order: list[Axis]) -> tuple[list[str], str]:
        lines = []
        for axis in order:
            if axis.has_tiles:
                lines.append(self._header(indent, axis, blocks=False))
                indent += self.unit
        return lines, indent

    def _shape(self) -> tuple[str, str]:
        """Rows of an output tile, and columns of all tiles side by side in a block."""
        nest = self.nest
        rows = self.speller.number(
            nest.stationary.width, self._dimension_nodes(nest.stationary, nest.stationary.columns)
        )
        return rows, self._width(nest.moving)

    def _declare_sums(self, indent: str) -> Iterator[str]:
        """One tile of sums for each row of tiles in the block, all 0."""
        nl = self.speller.prefix("nl")
        rows, columns = self._shape()
        axis = self.axes["stationary"]
        count = axis.tiles_name or str(axis.tiles)
        if self.context.legacy:
            blocks = f"{count}, {nl}.par_dim({rows})" if axis.has_tiles else f"{nl}.par_dim({rows})"
            yield self._line(
                indent,
                f"{self.sums} = {nl}.zeros(({blocks}, {columns}), dtype={nl}.float32, "
                f"buffer={nl}.sbuf)",
            )
            return
        nisa = self.speller.prefix("nisa")
        tile = self.speller.fresh("sum_tile") if axis.has_tiles else self.sums
        inner = indent
        if axis.has_tiles:
            yield self._line(indent, f"{self.sums} = []")
            yield self._header(indent, axis, blocks=False)
            inner += self.unit
        yield self._line(
            inner,
            f"{tile} = {nl}.ndarray(({rows}, {columns}), dtype={nl}.float32, buffer={nl}.sbuf)",
        )
        yield self._line(inner, f"{nisa}.memset(dst={tile}, value=0.0)")
        if axis.has_tiles:
            yield self._line(inner, f"{self.sums}.append({tile})")

    def _sum_tile(self) -> str:
        """The sums of the current output tile."""
        rows, moving = self.axes["stationary"], self.axes["moving"]
        columns = ":"
        if moving.has_tiles:
            nodes = self._dimension_nodes(self.nest.moving, self.nest.moving.columns)
            size = self.speller.number(moving.width, nodes)
            tile = moving.tile_variable
            columns = self.speller.slice(f"{tile} * {size}", size, nodes, f"({tile} + 1) * {size}")
        if self.context.legacy:
            index = f"{rows.tile_variable}, :, {columns}" if rows.has_tiles else f":, {columns}"
            return f"{self.sums}[{index}]"
        base = f"{self.sums}[{rows.tile_variable}]" if rows.has_tiles else self.sums
        return base if columns == ":" else f"{base}[:, {columns}]"

    def _products(self, indent: str, order: list[Axis]) -> Iterator[str]:
        """Partial sums of one block of K, added to the sums."""
        nest, source = self.nest, self.source
        creator = self.model.creator(nest.psum)
        assert creator is not None
        require(creator.block is nest.body, "the product's tile is made in an outer loop")
        loops, inner = self._tile_loops(indent, order)
        yield from loops
        declared = source.extract(creator.node.lineno, creator.node.end_lineno or 0)
        yield reindent(declared, source.indent_of(creator.node), inner)
        yield self._line(inner, f"for {self.k_index} in {self.k_range}:")
        edits = [source.replace(o.node, self._tile_in_block(o)) for o in nest.operands]
        product = nest.product.node
        text = source.extract(product.lineno, product.end_lineno or 0, edits)
        moved = reindent(text, source.indent_of(product), inner + self.unit)
        yield "".join(self._rewrapped(line) for line in split_lines(moved))
        total = self._sum_tile()
        if self.context.legacy:
            yield self._line(inner, f"{total} += {nest.psum.name}")
            return
        nl, nisa = self.speller.prefix("nl"), self.speller.prefix("nisa")
        yield self._line(
            inner,
            f"{nisa}.tensor_tensor(dst={total}, data1={total}, data2={nest.psum.name}, "
            f"op={nl}.add)",
        )

    def _epilogue(self, indent: str, order: list[Axis]) -> Iterator[str]:
        """What the author does with a finished tile, reading the sums."""
        loops, inner = self._tile_loops(indent, order)
        yield from loops
        text, used = self._rest(inner)
        for axis in order:
            if axis.split and axis.loop is not None and axis.loop.variable in used:
                yield self._line(
                    inner,
                    f"{axis.loop.variable} = {axis.block_variable} * {axis.tiles_name} "
                    f"+ {axis.tile_variable}",
                )
        yield text

    def _rest(self, indent: str) -> tuple[str, set[str]]:
        nest, source = self.nest, self.source
        creator = self.model.creator(nest.psum)
        assert creator is not None
        gone = {id(n) for n in nest.absorbed} | {id(creator.node), id(nest.contraction.node)}
        edits: list[Edit] = []
        used: set[str] = set()
        floor = nest.outer[-1].node.lineno
        for statement in nest.body:
            if id(statement) in gone or self._only_loads(statement):
                source.check_whole_lines(statement)
                first = source.comments_above(statement, floor)
                edits.append(source.delete_lines(first, statement.end_lineno or 0))
            else:
                edits += self._sums_read(statement)
                used |= names_in(statement)
            floor = statement.end_lineno or floor
        require(bool(used), "nothing is done with the product")
        first = source.comments_above(nest.body[0], nest.outer[-1].node.lineno)
        text = source.extract(first, nest.outer[-1].node.end_lineno or 0, edits)
        return squeeze(reindent(text, source.indent_of(nest.body[0]), indent)), used

    def _only_loads(self, statement: ast.stmt) -> bool:
        gone = {id(n) for n in self.nest.absorbed}
        return isinstance(statement, ast.For) and all(
            id(s) in gone or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
            for s in statement.body
        )

    def _sums_read(self, statement: ast.stmt) -> list[Edit]:
        """The finished tile is read from the sums instead of PSUM."""
        name = self.nest.psum.name
        edits: list[Edit] = []
        inside: set[int] = set()
        for node in ast.walk(statement):
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
                if node.value.id == name:
                    whole = isinstance(node.slice, ast.Constant) and node.slice.value is Ellipsis
                    require(whole, "a part of the product's tile is read")
                    inside.add(id(node.value))
                    edits.append(self.source.replace(node, self._sum_tile()))
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id == name and id(node) not in inside:
                require(isinstance(node.ctx, ast.Load), "the product's tile is changed")
                edits.append(self.source.replace(node, self._sum_tile()))
        return edits
