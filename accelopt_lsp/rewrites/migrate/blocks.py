"""Block dimensions: tiles that are declared in their loop, or lists of tiles."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from attrs import frozen

from accelopt_lsp.analysis.values import Blocks, Storage
from accelopt_lsp.rewrites.migrate.indices import Element, _flatten

if TYPE_CHECKING:
    from accelopt_lsp.rewrites.migrate.writer import Writer


@frozen(slots=True, eq=False)
class BlockPlan:
    """What becomes of one tensor with block dimensions.

    Attributes:
        name: variable.
        storage: what it was.
        lists: block dimensions that become lists of tiles, in order.
        loop: the loop in whose body the tile is declared; None keeps the old place.
    """

    name: str
    storage: Storage
    lists: tuple[int, ...]
    loop: ast.For | None

    def text(self, indices: list[str]) -> str:
        return self.name + "".join(f"[{indices[d]}]" for d in self.lists)

    def declared(self, tile: str) -> str:
        """The declaration, from the text that creates one tile."""
        text = tile
        for dim in reversed(self.lists):
            index = f"block_{dim}"
            name = index if index in tile else "_"
            text = f"[{text} for {name} in range({self.storage.shape[dim]})]"
        return text


@frozen(slots=True, eq=False)
class _Use:
    node: ast.expr
    elements: list[Element] | None
    loops: tuple[ast.For, ...]
    statement: ast.stmt


def plan_blocks(w: Writer, name: str, storage: Storage, declaration: ast.stmt) -> BlockPlan:
    """Where the tiles of a tensor are declared, by where they are used."""
    uses = list(_uses(w, name, storage))
    every = tuple(range(storage.blocks))
    if w.is_placed(declaration):
        # Which tiles share a place is written in their numbers.
        return BlockPlan(name, storage, every, None)
    home = w.loops_of(declaration)
    if not uses or any(u.elements is None for u in uses):
        return BlockPlan(name, storage, every, None)
    private: dict[int, ast.For] = {}
    for dim in every:
        loops = {id(loop): loop for u in uses if (loop := _loop_of(u, dim)) is not None}
        if len(loops) == 1 and all(_loop_of(u, dim) is not None for u in uses):
            loop = next(iter(loops.values()))
            if loop not in home:
                private[dim] = loop
    if len({id(loop) for loop in private.values()}) != len(private):
        private = {}
    # A loop between the old place and the new one must number the tiles, or start them anew.
    while private:
        inner = max(private.values(), key=lambda loop: len(w.loops_of(loop)))
        own = {id(loop) for loop in private.values()}
        around = [p for p in w.loops_of(inner) if p not in home]
        if all(id(p) in own for p in around) or _starts_anew(uses, inner):
            lists = tuple(d for d in every if d not in private)
            return BlockPlan(name, storage, lists, inner)
        private = {d: loop for d, loop in private.items() if loop is not inner}
    return BlockPlan(name, storage, every, None)


def _loop_of(use: _Use, dim: int) -> ast.For | None:
    """The loop whose variable indexes a block dimension."""
    assert use.elements is not None
    node = use.elements[dim].node
    if not isinstance(node, ast.Name):
        return None
    for loop in reversed(use.loops):
        if isinstance(loop.target, ast.Name) and loop.target.id == node.id:
            return loop
    return None


def _starts_anew(uses: list[_Use], loop: ast.For) -> bool:
    """Whether the first use in a loop's body writes the tile without reading it."""
    first = min(uses, key=lambda u: (u.statement.lineno, u.node.col_offset))
    statement = first.statement
    return (
        isinstance(statement, ast.Assign)
        and statement.targets[0] is first.node
        and first.loops[-1:] == (loop,)
    )


def _uses(w: Writer, name: str, storage: Storage) -> list[_Use]:
    found: list[_Use] = []
    inner: set[int] = set()
    for node in w.nodes:
        if not isinstance(node, ast.Subscript):
            continue
        root: ast.expr = node
        while isinstance(root, ast.Subscript):
            root = root.value
        if not isinstance(root, ast.Name) or root.id != name:
            continue
        value = w.obs.value(root)
        if not isinstance(value, Blocks) or value.storage.line != storage.line:
            continue
        if id(node) in inner:
            continue
        below: ast.expr = node.value
        while isinstance(below, ast.Subscript):
            inner.add(id(below))
            below = below.value
        inner.add(id(root))
        found.append(w_use(w, node, root, storage.blocks))
    for node in w.nodes:
        if isinstance(node, ast.Name) and node.id == name and id(node) not in inner:
            value = w.obs.value(node)
            if isinstance(node.ctx, ast.Load) and isinstance(value, Blocks):
                found.append(_Use(node, None, w.loops_of(node), w.statement_of(node)))
    return found


def w_use(w: Writer, node: ast.Subscript, root: ast.Name, blocks: int) -> _Use:
    """One subscript of the tensor; without elements if it leaves blocks open."""
    current: ast.expr = node
    elements: list[Element] = []
    while isinstance(current, ast.Subscript):
        from accelopt_lsp.rewrites.migrate.indices import elements_of

        elements = [*elements_of(w, current.slice), *elements]
        current = current.value
    kept = elements[:blocks] if len(elements) >= blocks else None
    return _Use(node, kept, w.loops_of(node), w.statement_of(node))


__all__ = ["BlockPlan", "_flatten", "plan_blocks"]
