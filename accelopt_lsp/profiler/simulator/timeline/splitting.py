"""Tiles whose parts live lives of their own.

Where every instruction touches a tile within the same disjoint byte ranges, the parts have
nothing in common but the name: the legacy compiler places, evicts and re-loads them one by one.
A transfer or an instruction that touches two parts at once keeps them together. Source: spill
counters of the measured gqa_full and lora, whose transposed operands are written and used slice
by slice.
"""

from __future__ import annotations

from attrs import evolve

from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.profiler.simulator.timeline.stream import Stream
from accelopt_lsp.profiler.simulator.trace import Region

Span = tuple[int, int]
"""First and end byte within a partition."""


def split_tiles(stream: Stream) -> Stream:
    """Give every independent part of an SBUF tile a storage of its own.

    Returns the same stream where no tile has such parts.
    """
    touched = _touched(stream)
    parts: dict[int, dict[Span, tuple[int, int]]] = {}
    storages = list(stream.storages)
    for storage, spans in touched.items():
        if len(spans) < 2:
            continue
        groups = _components(spans)
        if len(groups) < 2:
            continue
        tile = stream.storages[storage]
        found = parts[storage] = {}
        for start, end, members in groups:
            piece = evolve(tile, id=len(storages), partition_bytes=end - start)
            storages.append(piece)
            for span in members:
                found[span] = piece.id, start
    if not parts:
        return stream
    result = Stream(stream.ops, storages, stream.codes)
    known: dict[Region, Region] = {}
    split = bytearray(len(storages))
    for storage in parts:
        split[storage] = 1
    for regions in stream.regions:
        for region in regions:
            if split[region[0]]:
                regions = tuple([known.get(r) or _moved(r, parts, known) for r in regions])
                break
        result.regions.append(regions)
    return result


def _touched(stream: Stream) -> dict[int, set[Span]]:
    """Byte ranges by SBUF storage."""
    sbuf = [s.buffer is Buffer.SBUF for s in stream.storages]
    found: dict[int, set[Span]] = {}
    for regions in stream.regions:
        for storage, _, _, start, end in regions:
            if sbuf[storage]:
                spans = found.get(storage)
                if spans is None:
                    found[storage] = {(start, end)}
                else:
                    spans.add((start, end))
    return found


def _components(spans: set[Span]) -> list[tuple[int, int, list[Span]]]:
    """Groups of overlapping ranges: first byte, end byte, members."""
    groups: list[tuple[int, int, list[Span]]] = []
    for span in sorted(spans):
        if groups and span[0] < groups[-1][1]:
            start, end, members = groups[-1]
            members.append(span)
            groups[-1] = start, max(end, span[1]), members
        else:
            groups.append((span[0], span[1], [span]))
    return groups


def _moved(
    region: Region, parts: dict[int, dict[Span, tuple[int, int]]], known: dict[Region, Region]
) -> Region:
    spans = parts.get(region[0])
    if spans is None:
        return region
    piece, offset = spans[region[3], region[4]]
    found = piece, region[1], region[2], region[3] - offset, region[4] - offset
    known[region] = found
    return found
