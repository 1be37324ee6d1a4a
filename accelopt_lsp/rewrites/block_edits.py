"""Writes a blocked matrix product in the author's names and layout."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from attrs import define

from accelopt_lsp.nki.lines import split_lines
from accelopt_lsp.rewrites.affine import Dim, Symbol
from accelopt_lsp.rewrites.base import RewriteContext
from accelopt_lsp.rewrites.block_plans import Plan
from accelopt_lsp.rewrites.matmul_nest import MatmulNest, Operand
from accelopt_lsp.rewrites.model import require
from accelopt_lsp.rewrites.source import Edit, apply_edits, names_in, reindent
from accelopt_lsp.rewrites.spelling import Speller, factor, wrap
from accelopt_lsp.rewrites.values import Loop


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
        k = nest.contraction
        self.k_index = k.variable
        self.k_range = self.source.one_line(k.node.iter)
        assert isinstance(k.node.iter, ast.Call)
        self.k_count = self.source.one_line(k.node.iter.args[0])
        self.k_rebound: str | None = None

    def text(self) -> str:
        """The whole new file.

        Raises:
            NotApplicable: something has no name where it would move to.
        """
        for loop in self.nest.outer:
            self.source.check_whole_lines(loop.node)
        for axis in self.axes.values():
            self._name_axis(axis)
        self._name_contraction()
        for operand in self.nest.operands:
            stem = _stem(operand.tile.name)
            self.buffers[operand.role] = self.speller.fresh(f"{stem}_block")
            self.tiles[operand.role] = self.speller.fresh(f"{stem}_wide")
        lines = list(self._nest())
        first = self.source.comments_above(self.root)
        comments = (
            self.source.extract(first, self.root.lineno - 1) if first < self.root.lineno else ""
        )
        indent = self.source.indent_of(self.root)
        head = "".join(f"{indent}{line}{self.source.newline}" for line in self.constants)
        if head:
            above = self.source.lines[first - 2] if first > 1 else ""
            gap = self.source.newline if above.strip() and not above.rstrip().endswith(":") else ""
            head = gap + head + self.source.newline
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

    def _name_contraction(self) -> None:
        """All of K is one block here."""
        self._check_names(self.nest.contraction.node.iter)

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
        header = f"for {self.k_index} in {self.k_range}:"
        source = self._wide_source(operand)
        inner = indent + self.unit
        if self.context.legacy:
            yield self._line(
                indent,
                f"{buffer} = {nl}.ndarray(({self.k_count}, {nl}.par_dim({rows}), {columns}), "
                f"dtype={dtype}, buffer={nl}.sbuf)",
            )
            yield self._line(indent, header)
            if self.k_rebound is not None:
                yield self._line(inner, self.k_rebound)
            target = f"{buffer}[{self.k_index}, :, :]"
            yield self._transfer(inner, operand, target, source)
            return
        yield self._line(indent, f"{buffer} = []")
        yield self._line(indent, header)
        if self.k_rebound is not None:
            yield self._line(inner, self.k_rebound)
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
        near = self._dimension_nodes(operand, operand.columns)
        if axis.loop is not None:
            near = [*near, axis.loop.node.iter]
        return self.speller.number(axis.width * axis.tiles, near)

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
        near = [*nodes, axis.loop.node.iter]
        return self.speller.dimension(Dim(start, axis.width * axis.tiles), names, near)

    def _kept_dimension(
        self, operand: Operand, dim: Dim, names: dict[Symbol, str], nodes: list[ast.AST]
    ) -> str:
        """As the author wrote it where it means the same, else spelled anew."""
        own = nodes[0]
        if operand.direct and dim.axis is None and len(nodes) > 1:
            loops = set(names.values())
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
        moved = squeeze(reindent(text, old, indent))
        return "".join(self._rewrapped(line) for line in split_lines(moved)), used

    def _rewrapped(self, line: str) -> str:
        """A changed line that has become too long, broken where a person would."""
        changed = any(f"{name}[" in line for name in self.buffers.values())
        if not changed or len(line) <= 101 or "#" in line:
            return line
        text = line.strip()
        if text.count("(") != text.count(")") or text.count("[") != text.count("]"):
            return line
        return wrap(line[: len(line) - len(line.lstrip())], text, self.source.newline)

    def _removals(self, statements: list[ast.stmt], removed: set[int], edits: list[Edit]) -> None:
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
        buffer, k = self.buffers[operand.role], self.k_index
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


def squeeze(text: str) -> str:
    """No blank line at the start, and none doubled where statements were taken out."""
    lines = split_lines(text)
    result: list[str] = []
    for line in lines:
        blank = not line.strip()
        if blank and (not result or not result[-1].strip() or result[-1].rstrip().endswith(":")):
            continue
        result.append(line)
    return "".join(result)
