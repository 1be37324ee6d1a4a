"""Two ways to make a tile wider: change the named tile size, or every literal that states it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelopt_lsp.rewrites.affine import Affine, Dim
from accelopt_lsp.rewrites.base import NotApplicable, RewriteContext
from accelopt_lsp.rewrites.model import Access, KernelModel, Step, require
from accelopt_lsp.rewrites.source import Edit, names_in, reindent
from accelopt_lsp.rewrites.spelling import Speller
from accelopt_lsp.rewrites.values import Loop, Tensor, integer


def rename_constant(context: RewriteContext, loop: Loop, factor: int) -> str:
    """Multiply the one named constant that states the tile size.

    Raises:
        NotApplicable: no such constant, or other functions use it too.
    """
    model = context.model
    sizes = {
        d.extent for _, _, d in _moved_dims(model, loop) if not d.point and d.extent is not None
    }
    require(len(sizes) == 1, "the loop's tiles have no common size")
    (size,) = sizes
    for name, node in _constants(context, size):
        used = names_in(loop.node) | names_in(loop.node.iter) | _index_names(context, loop)
        if name not in used:
            continue
        require(not _used_elsewhere(context, name, node), f"{name} is used in other functions")
        return context.source.apply([context.source.replace(node.value, str(size * factor))])
    raise NotApplicable(f"no named constant states the tile size {size}")


def _constants(context: RewriteContext, size: int) -> Iterator[tuple[str, ast.Assign]]:
    """Assignments ``NAME = size``, in the kernel or at module level."""
    model = context.model
    for node in [*ast.walk(context.function), *context.tree.body]:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target = node.targets[0]
        if not isinstance(target, ast.Name) or not isinstance(
            node.value, ast.Constant | ast.Attribute
        ):
            continue
        if integer(model.value(node.value)) == size:
            yield target.id, node


def _index_names(context: RewriteContext, loop: Loop) -> set[str]:
    """Names in the definitions of index arrays that the loop uses."""
    used = names_in(loop.node)
    found: set[str] = set()
    for node in ast.walk(context.function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if node.targets[0].id in used:
                found |= names_in(node.value)
    return found


def _used_elsewhere(context: RewriteContext, name: str, node: ast.Assign) -> bool:
    if node not in context.tree.body:
        return False
    inside = {id(n) for n in ast.walk(context.function)}
    return any(
        isinstance(n, ast.Name)
        and n.id == name
        and id(n) not in inside
        and n is not node.targets[0]
        for n in ast.walk(context.tree)
    )


def _moved_dims(model: KernelModel, loop: Loop) -> Iterator[tuple[Access, int, Dim]]:
    """Dimensions that move with a loop."""
    for step in model.steps_in(loop.node):
        for access in (*step.reads, *step.writes):
            for position, dim in enumerate(access.view.region or ()):
                if loop.symbol in dim.start.terms:
                    yield access, position, dim


def merge_literals(context: RewriteContext, loop: Loop, factor: int) -> str:
    """Rewrite each index, size and loop length that states the tile size as a number.

    Raises:
        NotApplicable: sizes are hidden in names, or indices are not understood.
    """
    return _Literals(context, loop, factor).text()


class _Literals:
    def __init__(self, context: RewriteContext, loop: Loop, factor: int) -> None:
        self.context = context
        self.loop = loop
        self.factor = factor
        self.model = context.model
        self.source = context.source
        self.speller = Speller(context, loop.node.lineno, _around(context, loop))
        self.whole = factor == loop.trips
        self.edits: list[Edit] = []
        self.seen: set[int] = set()
        self.scaled: set[Tensor] = set()

    def text(self) -> str:
        require(self.loop.plain, "the loop does not count from 0")
        steps = self.model.steps_in(self.loop.node)
        for step in steps:
            for access in (*step.reads, *step.writes):
                self._plan(step, access)
        for tensor in self.scaled:
            self._scale_everywhere(tensor)
        if self.whole:
            return self._unwrapped()
        self._shorten()
        return self.source.apply(self.edits)

    def _plan(self, step: Step, access: Access) -> None:
        """Which tensors grow, and the indices that move."""
        region, tensor = access.view.region, access.view.tensor
        require(region is not None, "an index is not understood")
        assert region is not None
        for position, dim in enumerate(region):
            if self.loop.symbol not in dim.start.terms:
                continue
            if dim.point:
                require(position < tensor.block_dims, "a tile moves by single columns")
                self.scaled.add(tensor)
            else:
                self._widen_index(access, position, dim)
        local = self.loop in tensor.loops and not tensor.parameter
        if local and tensor.shape is not None and (tensor.shape[-1] or 0) > 1:
            self.scaled.add(tensor)

    def _elements(self, access: Access) -> list[ast.expr] | None:
        node = access.node
        if not isinstance(node, ast.Subscript):
            return None
        index = node.slice
        elements = list(index.elts) if isinstance(index, ast.Tuple) else [index]
        if any(isinstance(e, ast.Constant) and e.value is Ellipsis for e in elements):
            return None
        rank = len(access.view.region or ())
        if not isinstance(node.value, ast.Name) or len(elements) != rank:
            return None
        return elements

    def _widen_index(self, access: Access, position: int, dim: Dim) -> None:
        elements = self._elements(access)
        require(elements is not None, "an index is not understood")
        assert elements is not None
        node = elements[position]
        if id(node) in self.seen:
            return
        self.seen.add(id(node))
        coefficient = dim.start.coefficient(self.loop.symbol)
        rest = dim.start.without(self.loop.symbol)
        start = (
            rest
            if self.whole
            else rest.plus(Affine.of(self.loop.symbol).times(coefficient * self.factor))
        )
        self.edits.append(self.source.replace(node, self._index_text(node, dim, start)))

    def _index_text(self, node: ast.expr, dim: Dim, start: Affine) -> str:
        extent = (dim.extent or 0) * self.factor
        names = {x.symbol: x.variable for x in self.model.loops if self._covers(x)}
        if dim.axis is None:
            require(dim.step == 1, "a strided index")
            return self.speller.dimension(Dim(start, extent), names)
        array = self._arange(node, dim.extent or 0, extent)
        if start == Affine():
            return array
        return f"{self.speller.affine(start, names)} + {array}"

    def _covers(self, loop: Loop) -> bool:
        node = self.loop.node
        return (
            loop is self.loop
            or (
                loop.node.lineno <= node.lineno
                and (loop.node.end_lineno or 0) >= (node.end_lineno or 0)
            )
            or (
                node.lineno <= loop.node.lineno
                and (loop.node.end_lineno or 0) <= (node.end_lineno or 0)
            )
        )

    def _arange(self, node: ast.expr, old: int, new: int) -> str:
        """The index array with another length: ``nl.arange(1024)[None, :]``."""
        for child in ast.walk(node):
            if isinstance(child, ast.Subscript) and isinstance(child.value, ast.Call):
                call = child.value
                if len(call.args) == 1 and isinstance(call.args[0], ast.Constant):
                    if call.args[0].value == old:
                        text = self.source.of(child)
                        start = self.source.span(child)[0]
                        a, b = (p - start for p in self.source.span(call.args[0]))
                        return f"{text[:a]}{new}{text[b:]}"
        raise NotApplicable("the index array's length is not written as a number here")

    def _scale_everywhere(self, tensor: Tensor) -> None:
        """Make a tile longer: its declaration, and every index that spans it."""
        creator = self.model.creator(tensor)
        require(creator is not None, "a tile's declaration is not known")
        assert creator is not None
        require(tensor.shape is not None and None not in tensor.shape, "a tile's size is unknown")
        assert tensor.shape is not None
        dropped = self._block_position(tensor)
        last = len(tensor.shape) - 1
        if tensor.allocation:
            self._resize(creator, tensor, dropped, last)
        for step in self.model.steps:
            for access in (*step.reads, *step.writes):
                if access.view.tensor is tensor and step is not creator:
                    require(self.loop in step.loops, f"{tensor.name} is used outside of the loop")
                    self._scale_access(access, dropped, last)

    def _block_position(self, tensor: Tensor) -> int | None:
        """The block dimension that the loop counts."""
        found = {
            position
            for step in self.model.steps
            for access in (*step.reads, *step.writes)
            if access.view.tensor is tensor
            for position, dim in enumerate(access.view.region or ())
            if dim.point and dim.start == Affine.of(self.loop.symbol)
        }
        require(len(found) <= 1, "a tile is indexed in two ways")
        return next(iter(found), None)

    def _resize(self, creator: Step, tensor: Tensor, dropped: int | None, last: int) -> None:
        shape = creator.argument("shape")
        require(isinstance(shape, ast.Tuple), "a tile's shape is not written out")
        assert isinstance(shape, ast.Tuple) and tensor.shape is not None
        size = shape.elts[last]
        require(isinstance(size, ast.Constant), "a tile's size is not written as a number")
        new = (tensor.shape[last] or 0) * self.factor
        self._once(size, str(new))
        if dropped is None:
            return
        count = shape.elts[dropped]
        if self.whole:
            self._drop(shape.elts, dropped)
        else:
            require(isinstance(count, ast.Constant), "a block count is not written as a number")
            self._once(count, str((tensor.shape[dropped] or 0) // self.factor))

    def _scale_access(self, access: Access, dropped: int | None, last: int) -> None:
        elements = self._elements(access)
        if elements is None:
            require(access.view.whole and dropped is None, "a tile is used in an unclear way")
            return
        if dropped is not None and self.whole:
            self._drop(elements, dropped)
        node = elements[last]
        dim = (access.view.region or ())[last]
        if dim.point or id(node) in self.seen:
            return
        self.seen.add(id(node))
        if dim.start == Affine():
            self._once(node, self._index_text(node, dim, Affine()))

    def _once(self, node: ast.expr, text: str) -> None:
        self.edits.append(self.source.replace(node, text))

    def _drop(self, elements: list[ast.expr], position: int) -> None:
        if id(elements[position]) in self.seen:
            return
        self.seen.add(id(elements[position]))
        require(position + 1 < len(elements), "the last index cannot be left out")
        start = self.source.span(elements[position])[0]
        self.edits.append(Edit(start, self.source.span(elements[position + 1])[0], ""))

    def _shorten(self) -> None:
        """The loop runs fewer times."""
        iterator = self.loop.node.iter
        assert isinstance(iterator, ast.Call)
        argument = iterator.args[-1]
        require(isinstance(argument, ast.Constant), "the loop's length is not written as a number")
        self._once(argument, str((self.loop.trips or 0) // self.factor))

    def _unwrapped(self) -> str:
        """The loop is gone: its body stands where it stood."""
        node = self.loop.node
        require(not node.orelse, "the loop has an else")
        body = [s for s in node.body if not _closing_remark(s)]
        used = {
            n.id
            for s in body
            for n in ast.walk(s)
            if isinstance(n, ast.Name)
            and not any(
                e.start <= self.source.span(n)[0] and self.source.span(n)[1] <= e.end
                for e in self.edits
            )
        }
        require(self.loop.variable not in used, "the loop variable is used in another way")
        first = self.source.comments_above(body[0], node.lineno)
        last = body[-1].end_lineno or 0
        text = self.source.extract(first, last, self.edits)
        moved = reindent(text, self.source.indent_of(body[0]), self.source.indent_of(node))
        start, end = self.source.line_range(node.lineno, node.end_lineno or 0)
        outside = [e for e in self.edits if not (start <= e.start and e.end <= end)]
        return self.source.apply([*outside, Edit(start, end, moved)])


def _closing_remark(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _around(context: RewriteContext, loop: Loop) -> tuple[Loop, ...]:
    steps = context.model.steps_in(loop.node)
    if not steps:
        return ()
    loops = steps[0].loops
    return loops[: loops.index(loop)] if loop in loops else ()
