"""Blocks of tensors with block dimensions, as the iterations of abridged loops find and make them.

Which block an index finds is no affine decision but the content of a table. So what an iteration
looked up is noted (:class:`Access`), and before iterations are left out the table is read at every
place where they would look: blocks that they find must have storages in arithmetic progression,
and those that they make must not be there yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from attrs import define

from accelopt_lsp.profiler.simulator.abridging_values import Loop, LoopValue, Terms, weighted
from accelopt_lsp.profiler.simulator.memory import Memory

if TYPE_CHECKING:
    from accelopt_lsp.profiler.simulator.blocks import BlockTable


@define(slots=True, eq=False)
class Access:
    """Blocks that an iteration looked up, each by its place in the table.

    Attributes:
        table: blocks of the tensor.
        place: of the first one.
        terms: loops that move it.
        spans: how often, and by which step, inner loops repeated that in iterations left out.
        fresh: the blocks were made then.
    """

    table: BlockTable
    place: int
    terms: Terms
    spans: tuple[tuple[int, int], ...]
    fresh: bool

    def step(self, loop: Loop) -> int:
        """Change of the place from one iteration of a loop to the next."""
        for other, change in self.terms:
            if other is loop:
                return change
        return 0

    def name(self, shift: int = 0) -> tuple[Any, ...]:
        """What tells it from other accesses of an iteration, moved by a step."""
        return id(self.table), self.place + shift, self.spans, self.fresh

    def places(self) -> list[int]:
        """All places that it stands for."""
        found = [self.place]
        for count, step in self.spans:
            found = [p + n * step for n in range(count) for p in found]
        return found


def looked_up(table: BlockTable, index: tuple[Any, ...], fresh: bool) -> None:
    """Note that a block was looked up by an index that moves."""
    place = weighted(index, table.strides)
    if type(place) is LoopValue:
        note(Access(table, place.value, place.changes, (), fresh))


def note(access: Access) -> None:
    """Tell the loops that move an access."""
    name = access.name()
    for loop, _ in access.terms:
        loop.accesses.setdefault(name, access)


def _beyond(place: int, step: int, count: int) -> slice:
    """Places of ``count`` further iterations."""
    end = place + step * (count + 1)
    return slice(place + step, end if end >= 0 else None, step)


def _agreeing(found: list[int], expected: Iterable[int]) -> int:
    """How many numbers agree, from the first on."""
    for number, (first, second) in enumerate(zip(found, expected, strict=True)):
        if first != second:
            return number
    return len(found)


def prepare(accesses: list[Access], loop: Loop, start: int, storages: int, count: int) -> int:
    """See how many more iterations find and make the blocks that they should, and make these.

    Args:
        start: storages before the iteration that they continue.
        storages: how many that one made.
        count: how many iterations at most.
    """
    writes: list[tuple[list[int], int, int]] = []
    for access in accesses:
        ids, step = access.table.ids, access.step(loop)
        assert ids is not None
        for place in access.places() if access.fresh else ():
            found = ids[_beyond(place, step, count)]
            count = _agreeing(found, [-1] * count)
            writes.append((ids, place, step))
    made = count
    for ids, place, step in writes if made else ():
        first = ids[place] + storages
        ids[_beyond(place, step, made)] = range(first, first + storages * made, storages)
    for access in accesses:
        if access.fresh or not count:
            continue
        ids, step = access.table.ids, access.step(loop)
        assert ids is not None
        for place in access.places():
            here = ids[place]
            change = storages if here >= start else here - ids[place - step]
            found = ids[_beyond(place, step, count)]
            if change:
                first = here + change
                expected: Any = range(first, first + change * count, change)
                if found != list(expected):
                    count = _agreeing(found, expected)
            elif found != [here] * count:
                count = _agreeing(found, [here] * count)
    for ids, place, step in writes if count < made else ():
        for number in range(count + 1, made + 1):
            ids[place + number * step] = -1
    return count


def held(loop: Loop, moved: list[Memory], accesses: list[Access]) -> bool:
    """Whether tiles that Python holds and that move may do so, if they are blocks.

    A block of a tensor that was made before the loop stays where it is; what holds one that this
    iteration has made holds that of a later one instead.
    """
    blocks = {m.id for m in moved if 0 < m.block < loop.serial}
    if not blocks:
        return True
    made: set[int] = set()
    for access in accesses:
        if access.fresh:
            assert access.table.ids is not None
            made.update(map(access.table.ids.__getitem__, access.places()))
    return blocks <= made


def release(accesses: list[Access], moved: list[Memory]) -> None:
    """Forget the tiles of blocks that are moved; others take their places when they are used."""
    gone = {m.id for m in moved if m.block}
    if not gone:
        return
    for access in accesses:
        made = access.table.made
        for key in [k for k, tile in made.items() if tile.memory and tile.memory.id in gone]:
            del made[key]
