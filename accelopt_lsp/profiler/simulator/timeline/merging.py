"""Work that the legacy compiler does only once: equal loads, and equal work on equal data.

A tile's value is numbered by how it came about: the instructions that wrote it and the values
they read. Two tiles of the same number are the same tile; the second one's instructions vanish
and its readers read the first. Matrix products, and transposes and broadcasts that a composite
implies, are always done again.

Source: counters of the measured NKIBench kernels (HBM reads and transpose FLOPs).
"""

from __future__ import annotations

from attrs import frozen

from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.profiler.simulator.timeline.stream import Op, Queue, Stream
from accelopt_lsp.profiler.simulator.trace import Region


@frozen(slots=True)
class Merged:
    """A stream without repeated work, and how many instructions vanished."""

    stream: Stream
    dropped: int


def merge(stream: Stream) -> Merged:
    """Drop repeated work.

    Does nothing where no load repeats: equal work starts from equal loads.
    """
    if not _repeats(stream):
        return Merged(stream, 0)
    alias = _equal_tiles(stream)
    if not alias:
        return Merged(stream, 0)
    kept = _needed(stream, alias)
    result = stream.same_tables()
    for index, (code, regions) in enumerate(zip(stream.codes, stream.regions, strict=True)):
        if not kept[index]:
            continue
        result.codes.append(code)
        result.regions.append(_renamed(regions, alias))
    return Merged(result, len(stream) - len(result))


def _renamed(regions: tuple[Region, ...], alias: dict[int, int]) -> tuple[Region, ...]:
    if any(region[0] in alias for region in regions):
        return tuple((alias.get(r[0], r[0]), r[1], r[2], r[3], r[4]) for r in regions)
    return regions


def _repeats(stream: Stream) -> bool:
    """Whether some region of HBM is loaded twice."""
    load = {code for code, op in enumerate(stream.ops) if op.queue is Queue.LOAD and op.engines}
    seen: set[Region] = set()
    for code, regions in zip(stream.codes, stream.regions, strict=True):
        if code in load:
            source = regions[stream.ops[code].reads[0]]
            if source in seen:
                return True
            seen.add(source)
    return False


def mergeable(op: Op) -> bool:
    """Whether equal executions of this instruction are done once."""
    if op.queue is Queue.STORE or op.issue is None:
        return False
    if op.name in ("nc_matmul", "nc_transpose"):
        explicit = not any(slot.startswith("%") for _, slot in op.issue.operands[:1])
        return op.work.is_transpose and (explicit or op.issue.operands[0][1] == "%result")
    return True


def _equal_tiles(stream: Stream) -> dict[int, int]:
    """On-chip storages whose whole history equals that of an earlier one."""
    ops = stream.ops
    keys: dict[object, int] = {}
    identity = []
    for op in ops:
        key = (op.name, op.queue, op.issue.attrs if op.issue else None, op.work, op.accumulates)
        identity.append(keys.setdefault(key, len(keys)) if mergeable(op) else -1)
    numbers: dict[object, int] = {}
    value: dict[int, int] = {}
    frozen_value: set[int] = set()
    unique = -1
    hbm = {s.id for s in stream.storages if s.buffer is Buffer.HBM}
    dirty: set[int] = set()
    for code, regions in zip(stream.codes, stream.regions, strict=True):
        op = ops[code]
        known = identity[code]
        inputs: list[object] = []
        for position in op.reads:
            storage, p0, p1, b0, b1 = regions[position]
            frozen_value.add(storage)
            inputs.append(
                (value.get(storage, -storage - 2 if storage in hbm else 0), p0, p1, b0, b1)
            )
        for position in op.writes:
            storage, p0, p1, b0, b1 = regions[position]
            if storage in hbm:
                unique -= 1
                value[storage] = unique - 1_000_000_000
                continue
            if storage in frozen_value or known < 0 or op.accumulates:
                dirty.add(storage)
                unique -= 1
                value[storage] = unique - 1_000_000_000
                continue
            token = (known, position, value.get(storage, 0), p0, p1, b0, b1, *inputs)
            value[storage] = numbers.setdefault(token, len(numbers) + 1)
    first: dict[tuple[int, int, int], int] = {}
    alias: dict[int, int] = {}
    for tile in stream.storages:
        number = value.get(tile.id, 0)
        if tile.buffer is Buffer.HBM or number <= 0 or tile.id in dirty:
            continue
        original = first.setdefault((number, tile.partitions, tile.partition_bytes), tile.id)
        if original != tile.id:
            alias[tile.id] = original
    return alias


def _needed(stream: Stream, alias: dict[int, int]) -> bytearray:
    """Instructions that stay: those that write no merged tile.

    A merged PSUM tile that a remaining instruction reads is computed again instead, since
    PSUM has no room to keep it.
    """
    psum = {s.id for s in stream.storages if s.buffer is Buffer.PSUM}
    ops = stream.ops
    kept = bytearray(len(stream))
    wanted: set[int] = set()
    for index in range(len(stream) - 1, -1, -1):
        op, regions = ops[stream.codes[index]], stream.regions[index]
        written = [regions[p][0] for p in op.writes]
        if written and all(w in alias and w not in wanted for w in written):
            continue
        kept[index] = 1
        for position in op.reads:
            storage = regions[position][0]
            if storage in alias and storage in psum:
                wanted.add(storage)
                del alias[storage]
    return kept
