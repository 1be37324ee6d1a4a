"""What iterations that were left out would have added to a trace.

Two iterations that ran give every number and its step; the iterations after them continue them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import repeat

import numpy as np

from accelopt_lsp.profiler.simulator.trace import Region, Storage, Trace

Record = tuple[int, tuple[Region, ...]]


def same_issues(before: Sequence[Record], after: Sequence[Record]) -> bool:
    """Whether two iterations issued the same instructions from the same lines."""
    return all(
        first is second or (first[0] == second[0] and len(first[1]) == len(second[1]))
        for first, second in zip(before, after, strict=True)
    )


def same_storages(before: Sequence[Storage], after: Sequence[Storage]) -> bool:
    """Whether two iterations made the same tiles."""
    return len(before) == len(after) and all(
        a.site == b.site
        and a.name == b.name
        and a.partition_bytes == b.partition_bytes
        and a.partitions == b.partitions
        and a.buffer is b.buffer
        and a.line == b.line
        and a.external == b.external
        and a.pinned == b.pinned
        and a.loop_depth == b.loop_depth
        for a, b in zip(before, after, strict=True)
    )


def same_but_new(
    before: Sequence[Record], after: Sequence[Record], old_start: int, start: int
) -> bool:
    """Whether each tile that both use is the same, or neither was made by the first iteration.

    Args:
        old_start, start: storages before the first and before the second iteration.
    """
    for (_, old), (_, new) in zip(before, after, strict=True):
        if old is new:
            continue
        for (first, *_), (second, *_) in zip(old, new, strict=True):
            if second >= start:
                if first < old_start:
                    return False
            elif first != second and (first >= old_start or second >= old_start):
                return False
    return True


def more_records(
    before: Sequence[Record],
    after: Sequence[Record],
    start: int,
    storages: int,
    count: int,
) -> list[Record | None]:
    """Records of ``count`` iterations after two that ran.

    Args:
        start: number of storages before the second of them.
        storages: how many it made.
    """
    size = len(after)
    made: list[Record | None] = [None] * (size * count)
    columns: dict[tuple[Region, Region], Iterable[Region]] = {}
    for at, (first, second) in enumerate(zip(before, after, strict=True)):
        old, new = first[1], second[1]
        operands: list[Iterable[Region]] = []
        moves = False
        for region, next_region in zip(old, new, strict=True):
            # A tile made by an iteration is one made by each, at its place among theirs.
            step = storages if next_region[0] >= start else next_region[0] - region[0]
            if not step and region[1:] == next_region[1:]:
                operands.append(repeat(next_region, count))
                continue
            moves = True
            key = (region, next_region)
            column = columns.get(key)
            if column is None:
                column = columns[key] = _continued(region, next_region, step, count)
            operands.append(column)
        if moves:
            made[at::size] = list(zip(repeat(second[0]), zip(*operands)))  # noqa: B905 - repeat
        else:
            made[at::size] = [second] * count
    return made


def _continued(before: Region, after: Region, storages: int, count: int) -> list[Region]:
    """The regions that follow two, each number by its own step."""
    numbers: list[Iterable[int]] = []
    steps = (storages, *[b - a for a, b in zip(before[1:], after[1:], strict=True)])
    for second, step in zip(after, steps, strict=True):
        if step:
            start = second + step
            numbers.append(range(start, start + step * count, step))
        else:
            numbers.append(repeat(second, count))
    return list(zip(*numbers))  # noqa: B905 - repeat


def add_storages(trace: Trace, start: int, records: int, size: int, count: int) -> None:
    """Tiles of ``count`` iterations after one that ran.

    Args:
        start, records: number of storages and records before it.
        size: records of an iteration.
    """
    storages = trace.storages
    last = storages[start:]
    number = len(storages)
    for more in range(size, size * count + 1, size) if size else repeat(0, count):
        for made in last:
            born = made.born
            storages.append(
                Storage(
                    number,
                    made.name,
                    made.buffer,
                    made.partition_bytes,
                    made.partitions,
                    made.line,
                    made.site,
                    born + more if born >= records else born,
                    made.external,
                    made.pinned,
                    made.loop_depth,
                )
            )
            number += 1


def add_iterations(trace: Trace, start: int, middle: int, count: int) -> None:
    """Entries of ``count`` iterations after two whose entries begin at ``start`` and ``middle``."""
    entries = trace.iterations
    before = np.array(entries[start:middle], dtype=np.int64)
    after = np.array(entries[middle:], dtype=np.int64)
    more = np.arange(1, count + 1, dtype=np.int64)[:, None]
    made = array("q")
    made.frombytes((after + more * (after - before)).tobytes())
    entries.extend(made)
