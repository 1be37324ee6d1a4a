"""Writes the text with one load moved out of its loops."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from math import prod

from accelopt_lsp.rewrites.affine import Affine
from accelopt_lsp.rewrites.base import RewriteContext
from accelopt_lsp.rewrites.hoist_candidates import Hoist
from accelopt_lsp.rewrites.model import Access, KernelModel, Step, require
from accelopt_lsp.rewrites.source import Edit, SourceText, apply_edits, reindent
from accelopt_lsp.rewrites.spelling import Speller, wrap
from accelopt_lsp.rewrites.values import Tensor

_SHARE = 0.75
"""Share of the SBUF budget that the hoisted tiles may take."""


class Mover:
    """Writes the text with one load moved."""

    def __init__(self, context: RewriteContext, hoist: Hoist) -> None:
        self.context = context
        self.hoist = hoist
        self.model = context.model
        self.source = context.source
        self.place = hoist.over.node
        self.speller = Speller(context, self.place.lineno, hoist.load.loops[: hoist.depth])
        self.unit = self.source.indent_unit(context.function)
        self.edits: list[Edit] = []

    def text(self) -> str:
        """The whole new file.

        Raises:
            NotApplicable: does not fit, or a name is not known in front of the loop.
        """
        hoist = self.hoist
        require((hoist.saved_runs or 2) > 1, "the loop runs once")
        require(all(x.plain for x in hoist.kept) or not hoist.kept, "an inner loop is not plain")
        for statement in self._moved():
            self.source.check_whole_lines(statement)
        self._check_capacity()
        indent = self.source.indent_of(self.place)
        if hoist.shared:
            body = self._shared_block(indent)
        elif hoist.kept:
            body = self._buffered(indent)
        else:
            body = self._unchanged(indent)
        first = self.source.comments_above(self.place)
        self.edits.append(self.source.insert_before_line(first, body))
        return self.source.apply(self.edits)

    def _moved(self) -> list[ast.stmt]:
        allocation = self.hoist.allocation
        made = [] if allocation is None or self.hoist.shared else [allocation.node]
        return [*made, self.hoist.load.node]

    def _check_capacity(self) -> None:
        hoist = self.hoist
        tile = hoist.tile
        if hoist.shared:
            size = _remaining_bytes(tile, self._dropped_dims())
        else:
            size = tile.partition_bytes
            if hoist.kept:
                trips = [x.trips for x in hoist.kept]
                require(None not in trips, "the number of tiles is not known")
                require(size is not None, "the tile's size is not known")
                size = (size or 0) * prod(t or 0 for t in trips)
        if size is not None:
            budget = int(self.context.sbuf_budget * _SHARE)
            require(
                size <= budget,
                f"the tiles take {size} bytes per partition, {budget} are available",
            )

    def _remove(self, statement: ast.stmt, block: list[ast.stmt]) -> str:
        """Take out a statement, and give its comment if that speaks of nothing else."""
        position = block.index(statement)
        floor = block[position - 1].end_lineno or 0 if position else 0
        last = statement.end_lineno or 0
        following = block[position + 1] if position + 1 < len(block) else None
        alone = following is None or following.lineno > last + 1 or following in self._moved()
        first = self.source.comments_above(statement, floor) if alone else statement.lineno
        lines = self.source.lines
        if alone and following is not None and following not in self._moved():
            while last < len(lines) and not lines[last].strip():
                last += 1
        self.edits.append(self.source.delete_lines(first, last))
        if first == statement.lineno:
            return ""
        return self.source.extract(first, statement.lineno - 1)

    def _comments(self, indent: str) -> str:
        """Take out all that moves; comments that move along, for the new place."""
        block = self.hoist.load.block
        found = "".join(self._remove(s, block) for s in self._moved())
        return reindent(found, self.source.indent_of(self.hoist.load.node), indent)

    def _statement(self, statement: ast.stmt, indent: str, edits: list[Edit]) -> str:
        first, last = statement.lineno, statement.end_lineno or 0
        text = self.source.extract(first, last, edits)
        return reindent(text, self.source.indent_of(statement), indent)

    def _respelled(self) -> list[Edit]:
        """The load's source in names that are known in front of the loop."""
        load = self.hoist.load
        source = load.argument("src")
        assert source is not None and load.call is not None
        extra = {x.variable for x in self.hoist.kept}
        edits: list[Edit] = []
        view = self.model.view(source)
        if isinstance(source, ast.Subscript) and view is not None and view.region is not None:
            index = source.slice
            elements = list(index.elts) if isinstance(index, ast.Tuple) else [index]
            names = {x.symbol: x.variable for x in (*self.speller.loops, *self.hoist.kept)}
            doubtful = [e for e in elements if not self.speller.all_in_scope(e, extra)]
            if doubtful:
                require(len(elements) == len(view.region), "the index is not understood")
                require(
                    all(d.axis is None for d in view.region),
                    "an index array is made inside the loop",
                )
                for element, dim in zip(elements, view.region, strict=True):
                    if element in doubtful:
                        text = self.speller.dimension(dim, names, [element])
                        edits.append(self.source.replace(element, text))
            require(self.speller.all_in_scope(source.value, extra), "the source is made in a loop")
        else:
            require(self.speller.all_in_scope(source, extra), "the source is made in a loop")
        destination = load.argument("dst") if load.api == "nisa.dma_copy" else None
        for node in [*load.call.args, *(k.value for k in load.call.keywords)]:
            if node is source or node is destination:
                continue
            require(self.speller.all_in_scope(node, extra), "the load uses names bound in the loop")
        return edits

    def _unchanged(self, indent: str) -> str:
        """The load depends on no inner loop: move it as it is."""
        hoist = self.hoist
        edits = self._respelled()
        parts = []
        if hoist.allocation is not None:
            require(
                self.speller.all_in_scope(hoist.allocation.node.value),  # type: ignore[attr-defined]
                "the tile's size is not known in front of the loop",
            )
            parts.append(self._statement(hoist.allocation.node, indent, []))
        parts.append(self._statement(hoist.load.node, indent, edits))
        return self._comments(indent) + "".join(parts) + self._blank_line()

    def _blank_line(self) -> str:
        """Whether the author separates statements from loops."""
        above = self.source.lines[self.source.comments_above(self.place) - 2]
        return self.source.newline if not above.strip() else ""

    def _buffered(self, indent: str) -> str:
        """One tile for each iteration of the inner loops."""
        hoist = self.hoist
        nl = self.speller.prefix("nl")
        newline = self.source.newline
        stem = hoist.tile.name
        buffer = self.speller.fresh(f"{stem}s" if stem.endswith("tile") else f"{stem}_tiles")
        shape = self._tile_shape()
        dtype = self._tile_dtype()
        edits = self._respelled()
        for loop in hoist.kept:
            require(
                self.speller.all_in_scope(loop.node.iter), "an inner loop's length is not known"
            )
        index = ", ".join(x.variable for x in hoist.kept)
        lines: list[str] = []
        if self.context.legacy:
            depths = []
            for loop in hoist.kept:
                assert isinstance(loop.node.iter, ast.Call)
                depths.append(self.source.one_line(loop.node.iter.args[0]))
            sizes = ", ".join([*depths, f"{nl}.par_dim({shape[0]})", *shape[1:]])
            lines.append(
                wrap(
                    indent,
                    f"{buffer} = {nl}.ndarray(({sizes}), dtype={dtype}, buffer={nl}.sbuf)",
                    newline,
                )
            )
        else:
            require(len(hoist.kept) == 1, "tiles for two inner loops need a list of lists")
            lines.append(f"{indent}{buffer} = []{newline}")
        inner = indent
        for loop in hoist.kept:
            header = f"for {loop.variable} in {self.source.one_line(loop.node.iter)}:"
            lines.append(f"{inner}{header}{newline}")
            inner += self.unit
        colons = ", ".join([":"] * len(shape))
        if self.context.legacy:
            assert hoist.load.call is not None
            call = self._call_text(edits)
            lines.append(wrap(inner, f"{buffer}[{index}, {colons}] = {call}", newline))
        else:
            for statement in self._moved():
                lines.append(self._statement(statement, inner, edits))
            lines.append(f"{inner}{buffer}.append({hoist.tile.name}){newline}")
        self._replace_uses(buffer, index, len(shape))
        return self._comments(indent) + "".join(lines) + newline

    def _call_text(self, edits: list[Edit]) -> str:
        call = self.hoist.load.call
        assert call is not None
        start, end = self.source.span(call)
        inner = [Edit(e.start - start, e.end - start, e.text) for e in edits]
        text = apply_edits(self.source.text[start:end], inner)
        require("#" not in text, "a comment stands inside the load")
        folded = ""
        for part in (p.strip() for p in text.splitlines()):
            tight = not folded or folded.endswith(("(", "[")) or part.startswith((")", "]"))
            folded += part if tight else f" {part}"
        return folded.replace(",)", ")")

    def _tile_shape(self) -> list[str]:
        """Sizes of one tile as text."""
        allocation = self.hoist.allocation
        if allocation is not None:
            node = allocation.argument("shape")
            require(isinstance(node, ast.Tuple | ast.List), "the tile's shape is not written out")
            assert isinstance(node, ast.Tuple | ast.List)
            require(self.speller.all_in_scope(node), "the tile's size is not known outside")
            sizes = [e.args[0] if isinstance(e, ast.Call) else e for e in node.elts]
            return [self.source.one_line(size) for size in sizes]
        shape = self.hoist.tile.shape
        source = self.hoist.load.argument("src")
        require(shape is not None and None not in shape, "the tile's size is not known")
        assert shape is not None
        return [self.speller.number(s or 0, [source]) for s in shape]

    def _tile_dtype(self) -> str:
        for step in (self.hoist.allocation, self.hoist.load):
            node = step.argument("dtype") if step is not None else None
            if node is not None and not (isinstance(node, ast.Constant) and node.value is None):
                require(self.speller.all_in_scope(node), "the tile's type is not known outside")
                return self.source.one_line(node)
        view = self.model.view(self.hoist.load.argument("src"))
        assert view is not None
        return f"{view.tensor.name}.dtype"

    def _replace_uses(self, buffer: str, index: str, rank: int) -> None:
        """Every read of the tile becomes a read of its iteration's tile."""
        name = self.hoist.tile.name
        moved = {id(n) for s in self._moved() for n in ast.walk(s)}
        subscripted: set[int] = set()
        colons = ", ".join([":"] * rank)
        whole = f"{buffer}[{index}, {colons}]" if self.context.legacy else f"{buffer}[{index}]"
        for node in ast.walk(self.context.function):
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
                if node.value.id != name or id(node) in moved:
                    continue
                subscripted.add(id(node.value))
                if isinstance(node.slice, ast.Constant) and node.slice.value is Ellipsis:
                    self.edits.append(self.source.replace(node, whole))
                elif self.context.legacy:
                    inner = self.source.of(node.slice)
                    self.edits.append(self.source.replace(node, f"{buffer}[{index}, {inner}]"))
                else:
                    self.edits.append(self.source.replace(node.value, whole))
        for node in ast.walk(self.context.function):
            if isinstance(node, ast.Name) and node.id == name and id(node) not in moved:
                if id(node) not in subscripted:
                    self.edits.append(self.source.replace(node, whole))

    def _dropped_dims(self) -> list[int]:
        """Block dimensions of a shared tile that only count the dropped loops."""
        dropped = {x.symbol for x in self.hoist.dropped}
        written = self.hoist.load.writes_of(self.hoist.tile)[0].view
        require(written.region is not None, "the tile's index is not understood")
        assert written.region is not None
        dims = []
        for position, dim in enumerate(written.region):
            symbols = dim.symbols("loop") & dropped
            if not symbols:
                continue
            require(
                dim.point and dim.start == Affine.of(next(iter(symbols))),
                "the tile's index is not a plain loop variable",
            )
            dims.append(position)
        return dims

    def _shared_block(self, indent: str) -> str:
        """The tile is a block tensor made further out: drop the block index of the loop."""
        hoist = self.hoist
        dims = self._dropped_dims()
        for access, step in _accesses(self.model, hoist.tile):
            if step is self.model.creator(hoist.tile):
                continue
            require(hoist.over in step.loops, f"{hoist.tile.name} is used outside of the loop")
            self._drop_index(access.node, dims, hoist)
        self._drop_sizes(dims)
        edits = [*self._respelled(), *self.edits]
        inside = [e for e in edits if _covers(self.source, hoist.load.node, e)]
        lines: list[str] = []
        inner = indent
        for loop in hoist.kept:
            require(
                self.speller.all_in_scope(loop.node.iter), "an inner loop's length is not known"
            )
            lines.append(
                f"{inner}for {loop.variable} in {self.source.one_line(loop.node.iter)}:"
                f"{self.source.newline}"
            )
            inner += self.unit
        lines.append(self._statement(hoist.load.node, inner, inside))
        self.edits = [e for e in self.edits if e not in inside]
        self._remove_with_empty_loops(hoist.load)
        return "".join(lines)

    def _drop_index(self, node: ast.expr, dims: list[int], hoist: Hoist) -> None:
        require(
            isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple),
            f"{hoist.tile.name} is used without its index",
        )
        assert isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple)
        elements = node.slice.elts
        require(len(elements) > max(dims, default=-1), "an index is left out")
        dropped = {x.symbol for x in hoist.dropped}
        for position in dims:
            value = self.model.value(elements[position])
            plain = isinstance(value, Affine) and len(value.terms) == 1 and value.constant == 0
            require(plain, "the tile is read at another block")
            assert isinstance(value, Affine)
            (symbol,) = value.terms
            require(symbol in dropped, "the tile is read under another loop")
        self._delete_elements(elements, dims)

    def _drop_sizes(self, dims: list[int]) -> None:
        creator = self.model.creator(self.hoist.tile)
        assert creator is not None
        node = creator.argument("shape")
        if not dims:
            return
        require(isinstance(node, ast.Tuple), "the tile's shape is not written out")
        assert isinstance(node, ast.Tuple)
        self._delete_elements(node.elts, dims)

    def _delete_elements(self, elements: list[ast.expr], dims: list[int]) -> None:
        for position in dims:
            start = self.source.span(elements[position])[0]
            require(position + 1 < len(elements), "the last index cannot be left out")
            end = self.source.span(elements[position + 1])[0]
            self.edits.append(Edit(start, end, ""))

    def _remove_with_empty_loops(self, step: Step) -> None:
        """Take out the load and the loops that it leaves empty."""
        statement: ast.stmt = step.node
        for loop in reversed(step.loops[self.hoist.depth + 1 :]):
            others = [
                s
                for s in loop.node.body
                if s is not statement
                and not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
            ]
            if others:
                break
            statement = loop.node
        first = self.source.comments_above(statement)
        self.edits.append(self.source.delete_lines(first, statement.end_lineno or 0))


def _accesses(model: KernelModel, tensor: Tensor) -> Iterator[tuple[Access, Step]]:
    for step in model.steps:
        for access in (*step.reads, *step.writes):
            if access.view.tensor is tensor:
                yield access, step


def _covers(source: SourceText, node: ast.stmt, edit: Edit) -> bool:
    start, end = source.span(node)
    return start <= edit.start and edit.end <= end


def _remaining_bytes(tile: Tensor, dims: list[int]) -> int | None:
    if tile.shape is None or tile.dtype is None or None in tile.shape:
        return None
    sizes = [s or 0 for i, s in enumerate(tile.shape) if i not in dims and i != tile.block_dims]
    return prod(sizes) * tile.dtype.nbytes
