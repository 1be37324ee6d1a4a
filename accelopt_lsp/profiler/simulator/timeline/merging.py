"""Work that the legacy compiler does only once: equal loads, and equal work on equal data.

A tile's value is numbered by how it came about: the instructions that wrote it and the values
they read. Two tiles of the same number are the same tile; the second one's instructions vanish
and its readers read the first. Matrix products, and transposes that a composite implies, are
always done again; a partition broadcast is only hoisted out of the innermost loop, merged with
the execution just before, and only if its row is short.

Source: counters of the measured NKIBench kernels (HBM reads and transpose FLOPs).
"""

from __future__ import annotations

from attrs import frozen

from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.profiler.simulator.timeline.liveness import sbuf_bytes
from accelopt_lsp.profiler.simulator.timeline.stream import Op, Queue, Stream
from accelopt_lsp.profiler.simulator.trace import Region

LONGEST_ROW = 8
"""A row of more than this part of SBUF is not kept broadcast. Source: the measured
matmul_add_rmsnorm keeps 8 KiB a partition, mamba broadcasts 28 KiB again every time."""


@frozen(slots=True)
class Merged:
    """A stream without repeated work, and how many instructions vanished."""

    stream: Stream
    dropped: int


def merge(stream: Stream, capacity: int) -> Merged:
    """Drop repeated work whose results fit into SBUF (``capacity`` bytes per partition).

    Does nothing where no load repeats: equal work starts from equal loads.
    """
    if not _repeats(stream):
        return Merged(stream, 0)
    alias = _equal_tiles(stream, capacity // LONGEST_ROW)
    kept = _needed(stream, alias)
    while alias and _unmerge_large(stream, alias, kept, capacity):
        kept = _needed(stream, alias)
    if not alias:
        return Merged(stream, 0)
    result = stream.same_tables()
    for keep, code, regions in zip(kept, stream.codes, stream.regions, strict=True):
        if keep:
            result.codes.append(code)
            result.regions.append(_renamed(regions, alias))
    return Merged(result, len(stream) - len(result))


def _renamed(regions: tuple[Region, ...], alias: dict[int, int]) -> tuple[Region, ...]:
    for region in regions:
        if region[0] in alias:
            return tuple((alias.get(r[0], r[0]), *r[1:]) for r in regions)
    return regions


def _repeats(stream: Stream) -> bool:
    """Whether some region of HBM is loaded twice."""
    source = {
        code: op.reads[0]
        for code, op in enumerate(stream.ops)
        if op.queue is Queue.LOAD and op.reads
    }
    seen: set[Region] = set()
    for code, regions in zip(stream.codes, stream.regions, strict=True):
        if code in source:
            region = regions[source[code]]
            if region in seen:
                return True
            seen.add(region)
    return False


def mergeable(op: Op) -> bool:
    """Whether equal executions of this instruction are done once."""
    if op.queue is Queue.STORE or op.issue is None or op.accumulates:
        return False
    if any(pattern is None for _, pattern in op.patterns):
        return False
    if is_broadcast(op):
        return True
    if op.name in ("nc_matmul", "nc_transpose"):
        destination = op.issue.operands[0][1]
        return op.work.is_transpose and (destination[0] != "%" or destination == "%result")
    return True


def is_broadcast(op: Op) -> bool:
    """A product with one row, which spreads a row over partitions."""
    return op.name == "nc_matmul" and op.work.partitions == 1 and not op.accumulates


def _equal_tiles(stream: Stream, longest_row: int) -> dict[int, int]:
    """On-chip storages whose whole history equals that of an earlier one.

    Rows of more than ``longest_row`` bytes are broadcast again every time. Values are numbers:
    positive for what can be merged, negative for what is unique.
    """
    keys: dict[object, int] = {}
    table = []
    for op in stream.ops:
        key = (op.name, op.queue, op.issue.attrs if op.issue else None, op.work, op.patterns)
        kind = keys.setdefault(key, len(keys)) if mergeable(op) else -1
        table.append((kind, op.reads, op.writes))
    broadcasts = {code for code, op in enumerate(stream.ops) if is_broadcast(op)}
    moving = {code: stream.ops[code].reads[-1] for code in broadcasts}
    latest: dict[int, tuple[object, int]] = {}
    value = [-2 - s.id if s.buffer is Buffer.HBM else 0 for s in stream.storages]
    hbm = [s.buffer is Buffer.HBM for s in stream.storages]
    read = bytearray(len(value))
    numbers: dict[object, int] = {}
    unique = -2 - len(value)
    written: dict[int, None] = {}
    for code, regions in zip(stream.codes, stream.regions, strict=True):
        kind, reads, writes = table[code]
        if kind < 0:
            for position in reads:
                read[regions[position][0]] = 1
            for position in writes:
                unique -= 1
                value[regions[position][0]] = unique
            continue
        token: list[object] = [kind]
        for position in reads:
            region = regions[position]
            read[region[0]] = 1
            token += (value[region[0]], *region[1:])
        for position in writes:
            region = regions[position]
            storage = region[0]
            before = value[storage]
            written[storage] = None
            if read[storage] or before < 0 or hbm[storage]:
                unique -= 1
                value[storage] = unique
                continue
            name: object = (position, before, *region[1:], *token)
            if code in broadcasts:
                row = stream.storages[regions[moving[code]][0]]
                if row.partition_bytes > longest_row:
                    unique -= 1
                    value[storage] = unique
                    continue
                if code not in latest or latest[code][0] != name:
                    latest[code] = name, len(numbers)
                name = latest[code]
            value[storage] = numbers.setdefault(name, len(numbers) + 1)
    first: dict[tuple[int, int, int], int] = {}
    alias: dict[int, int] = {}
    for storage in written:
        tile, number = stream.storages[storage], value[storage]
        if number <= 0:
            continue
        original = first.setdefault((number, tile.partitions, tile.partition_bytes), tile.id)
        if original != tile.id:
            alias[tile.id] = original
    return alias


def _unmerge_large(stream: Stream, alias: dict[int, int], kept: bytearray, capacity: int) -> bool:
    """Give up merging loads that would take more than ``capacity`` to keep.

    A merged tile lives from its first to its last use. Computed tiles stay merged: the
    compiler spills them. Source: the measured transpose_matmul loads 704 KiB a partition again
    in every pass, swiglu and matmul_add_rmsnorm keep 128 KiB, and lora transposes 640 KiB
    once and spills the result.
    """
    originals = dict.fromkeys(alias.values(), 0)
    for original in originals:
        originals[original] = original
    originals.update(alias)
    loads = [op.queue is Queue.LOAD for op in stream.ops]
    loaded: set[int] = set()
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for index, regions in enumerate(stream.regions):
        if not kept[index]:
            continue
        for region in regions:
            if region[0] in originals:
                storage = originals[region[0]]
                if loads[stream.codes[index]]:
                    loaded.add(storage)
                last[storage] = index
                if storage not in first:
                    first[storage] = index
    sites: dict[int, list[tuple[int, int]]] = {}
    for storage, start in first.items():
        tile = stream.storages[storage]
        if tile.buffer is Buffer.SBUF and storage in loaded:
            size = sbuf_bytes(tile)
            events = sites.setdefault(tile.site, [])
            events += ((start, size), (last[storage] + 1, -size))
    large = {site for site, events in sites.items() if _peak(events) > capacity}
    doomed = [
        s
        for s, original in alias.items()
        if original in loaded and stream.storages[original].site in large
    ]
    for storage in doomed:
        del alias[storage]
    return bool(doomed)


def _peak(events: list[tuple[int, int]]) -> int:
    level = peak = 0
    for _, change in sorted(events):
        level += change
        peak = max(peak, level)
    return peak


def _needed(stream: Stream, alias: dict[int, int]) -> bytearray:
    """Instructions that stay: those that write no merged tile.

    A merged PSUM tile that a remaining instruction reads is computed again instead, since
    PSUM has no room to keep it.
    """
    psum = [s.buffer is Buffer.PSUM for s in stream.storages]
    table = [(op.reads, op.writes) for op in stream.ops]
    kept = bytearray(len(stream))
    codes, all_regions = stream.codes, stream.regions
    for index in range(len(stream) - 1, -1, -1):
        regions = all_regions[index]
        reads, writes = table[codes[index]]
        for position in writes:
            if regions[position][0] not in alias:
                kept[index] = 1
                for source in reads:
                    storage = regions[source][0]
                    if psum[storage]:
                        alias.pop(storage, None)
                break
    return kept
