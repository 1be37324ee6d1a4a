"""Which loads may move out of which loops."""

from __future__ import annotations

import ast
from math import prod

from attrs import frozen

from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.rewrites.affine import Affine, Symbol
from accelopt_lsp.rewrites.base import NotApplicable
from accelopt_lsp.rewrites.model import KernelModel, Step, require
from accelopt_lsp.rewrites.values import Loop, Tensor, View

LOADS = ("nl.load", "nl.load_transpose2d", "nisa.dma_copy")


@frozen(slots=True, eq=False)
class Hoist:
    """One load and the loop above which it may move.

    Attributes:
        load: the step that loads.
        tile: what it fills.
        allocation: statement that makes the tile, if it moves along.
        over: loop in front of which the load goes.
        kept: loops further in that the load depends on, outermost first.
        shared: the tile is a block tensor made outside of the loop.
    """

    load: Step
    tile: Tensor
    allocation: Step | None
    over: Loop
    kept: tuple[Loop, ...]
    shared: bool

    @property
    def depth(self) -> int:
        return self.load.loops.index(self.over)

    @property
    def dropped(self) -> tuple[Loop, ...]:
        """Loops that no longer repeat the load."""
        return tuple(x for x in self.load.loops[self.depth :] if x not in self.kept)

    @property
    def saved_runs(self) -> int | None:
        """How many times fewer the load runs."""
        trips = [x.trips for x in self.dropped]
        return None if None in trips else prod(t or 0 for t in trips)


def candidates(model: KernelModel, step: Step) -> list[Hoist]:
    """Loops above which a load may move, outermost first; empty if it may not move at all."""
    try:
        tile, allocation, shared = _tile_of(model, step)
        needed = _needed_symbols(model, step)
    except NotApplicable:
        return []
    found = []
    for depth, loop in enumerate(step.loops):
        if loop.symbol in needed:
            continue
        kept = tuple(x for x in step.loops[depth + 1 :] if x.symbol in needed)
        if allocation is None or shared:
            creator = model.creator(tile)
            if shared and (creator is None or len(creator.loops) > depth):
                continue
        found.append(Hoist(step, tile, allocation, loop, kept, shared))
    return found


def _tile_of(model: KernelModel, step: Step) -> tuple[Tensor, Step | None, bool]:
    """The tile that a load fills, its allocation, and whether that stands further out."""
    require(not step.opaque and not step.guarded, "the load is not understood")
    source = step.argument("src")
    require(source is not None, "the load is not understood")
    for access in step.reads:
        if access.view.tensor.buffer is Buffer.HBM:
            require(not _written(model, access.view.tensor), "the source is written in this kernel")
    origin = model.view(source)
    require(origin is not None and origin.tensor.buffer is Buffer.HBM, "the source is not in HBM")
    written = [a for a in step.writes if a.view.tensor.buffer is Buffer.SBUF]
    require(len(written) == 1 and len(step.writes) == 1, "the load's tile is not understood")
    tile = written[0].view.tensor
    creator = model.creator(tile)
    require(creator is not None and bool(tile.name), "the load's tile is not understood")
    assert creator is not None
    if creator is step:
        require(isinstance(step.target, ast.Name), "the load's tile has no name")
        require(model.bound_once(tile.name), f"{tile.name} is assigned more than once")
        require(not [s for s in model.uses(tile)[1] if s is not step], f"{tile.name} is changed")
        return tile, None, False
    require(tile.api == "nl.ndarray", f"{tile.name} is filled in another way too")
    others = [s for s in model.uses(tile)[1] if s is not step and s is not creator]
    require(not others, f"{tile.name} is filled in another way too")
    if creator.loops == step.loops:
        require(written[0].view.whole, f"only a part of {tile.name} is loaded")
        require(model.bound_once(tile.name), f"{tile.name} is assigned more than once")
        require(creator.block is step.block, "the tile is made elsewhere")
        return tile, creator, False
    return tile, creator, True


def _written(model: KernelModel, tensor: Tensor) -> bool:
    return any(s.index != tensor.step for s in model.uses(tensor)[1])


def _needed_symbols(model: KernelModel, step: Step) -> frozenset[Symbol]:
    """Loop variables that the load itself uses; the tile's own block index does not count."""
    found: set[Symbol] = set()
    assert step.call is not None
    destination = step.argument("dst") if step.api == "nisa.dma_copy" else None
    given = [*step.call.args, *(k.value for k in step.call.keywords)]
    for node in given:
        for child in ast.walk(node) if node is not destination else ():
            if not isinstance(child, ast.Name):
                continue
            value = model.value(child)
            if isinstance(value, Affine):
                found |= value.symbols("loop")
            elif isinstance(value, View):
                if value.region is not None:
                    found |= {s for d in value.region for s in d.symbols("loop")}
                require(value.tensor.buffer is Buffer.HBM, "the load uses values on chip")
                made = model.creator(value.tensor)
                require(made is None or not made.loops, "the source is made in a loop")
            elif value is None and child.id in model.bindings:
                raise NotApplicable(f"{child.id} is not understood")
    return frozenset(found)
