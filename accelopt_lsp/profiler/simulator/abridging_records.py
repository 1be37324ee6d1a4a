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
    return all(
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


def more_records(
    before: Sequence[Record], after: Sequence[Record], count: int
) -> list[Record | None]:
    """Records of ``count`` iterations after two that ran."""
    size = len(after)
    made: list[Record | None] = [None] * (size * count)
    columns: dict[tuple[Region, Region], Iterable[Region]] = {}
    for at, (first, second) in enumerate(zip(before, after, strict=True)):
        old, new = first[1], second[1]
        if old == new:
            made[at::size] = [second] * count
            continue
        operands = []
        for region, next_region in zip(old, new, strict=True):
            if region == next_region:
                operands.append(repeat(next_region, count))
                continue
            key = (region, next_region)
            column = columns.get(key)
            if column is None:
                column = columns[key] = _continued(region, next_region, count)
            operands.append(column)
        made[at::size] = list(zip(repeat(second[0]), zip(*operands)))  # noqa: B905 - repeat
    return made


def _continued(before: Region, after: Region, count: int) -> list[Region]:
    """The regions that follow two, each number by its own step."""
    numbers: list[Iterable[int]] = []
    for first, second in zip(before, after, strict=True):
        step = second - first
        if step:
            start = second + step
            numbers.append(range(start, start + step * count, step))
        else:
            numbers.append(repeat(second, count))
    return list(zip(*numbers, strict=True))  # type: ignore[arg-type]


def add_storages(
    trace: Trace, before: Sequence[Storage], after: Sequence[Storage], count: int
) -> None:
    """Tiles of ``count`` iterations after two that ran."""
    storages = trace.storages
    steps = [a.born - b.born for b, a in zip(before, after, strict=True)]
    number = len(storages)
    for more in range(1, count + 1):
        for made, step in zip(after, steps, strict=True):
            storages.append(
                Storage(
                    number,
                    made.name,
                    made.buffer,
                    made.partition_bytes,
                    made.partitions,
                    made.line,
                    made.site,
                    made.born + step * more,
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
