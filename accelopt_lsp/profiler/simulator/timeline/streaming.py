"""Loaded tensors that are too large to keep: loaded again, piece by piece, at every use.

Where tiles do not fit into SBUF and one loaded tensor takes most of the room, the compiler
does not keep part of it: each pass loads the regions that it uses. Source: HBM reads of the
measured matmul, whose right operand takes 160 KiB of 176 KiB a partition and is read 384 times.
"""

from __future__ import annotations

from collections import OrderedDict

from attrs import define, evolve, field

from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.nki.work import Route
from accelopt_lsp.profiler.simulator.timeline.liveness import (
    Lifetimes,
    live_peak,
    sbuf_bytes,
)
from accelopt_lsp.profiler.simulator.timeline.stream import Queue, Stream, transfer_op
from accelopt_lsp.profiler.simulator.trace import Region

LARGE = 0.5
"""Share of SBUF from which on a tensor counts as taking most of the room."""


def stream_large(
    stream: Stream, lives: Lifetimes, capacity: int, target: Target
) -> tuple[Stream, int | None]:
    """Load the largest tensor at each use if that alone makes everything fit.

    Returns the new stream and the tensor's allocation site, or the same stream and None.
    """
    site = _largest_loaded(stream, lives, capacity)
    if site is None:
        return stream, None
    members = {s.id for s in stream.storages if s.site == site and s.buffer is Buffer.SBUF}
    rest = Lifetimes(
        [-1 if s.id in members else lives.first[s.id] for s in stream.storages], lives.last
    )
    room = capacity - live_peak(stream, rest, Buffer.SBUF)
    if room <= 0:
        return stream, None
    return _Streamer(stream, members, room, target).run(), site


def _largest_loaded(stream: Stream, lives: Lifetimes, capacity: int) -> int | None:
    """Site with the largest live peak among those whose tiles are loaded whole, and once."""
    writes: dict[int, int] = {}
    unfit: set[int] = set()
    for code, regions in zip(stream.codes, stream.regions, strict=True):
        op = stream.ops[code]
        dma = op.work.dma
        loads = op.queue is Queue.LOAD and dma is not None and not dma.transpose
        for position in op.writes:
            storage = regions[position][0]
            writes[storage] = writes.get(storage, 0) + 1
            if not loads or writes[storage] > 1:
                unfit.add(stream.storages[storage].site)
    peaks: dict[int, list[tuple[int, int]]] = {}
    for tile in stream.storages:
        if tile.buffer is Buffer.SBUF and tile.id in writes and tile.site not in unfit:
            size = sbuf_bytes(tile)
            events = peaks.setdefault(tile.site, [])
            events += ((lives.first[tile.id], size), (lives.last[tile.id] + 1, -size))
    best, site = 0, None
    for number, events in peaks.items():
        level = peak = 0
        for _, change in sorted(events):
            level += change
            peak = max(peak, level)
        if peak > best:
            best, site = peak, number
    return site if best > LARGE * capacity else None


@define(slots=False)
class _Streamer:
    stream: Stream
    members: set[int]
    room: int
    target: Target
    pieces: OrderedDict[Region, int] = field(factory=OrderedDict)
    codes: dict[tuple[int, int], int] = field(factory=dict)
    used: int = 0

    def run(self) -> Stream:
        stream = self.stream
        self.out = Stream(list(stream.ops), list(stream.storages))
        source: dict[int, tuple[Region, int]] = {}
        streamed = bytearray(len(stream.storages))
        for storage in self.members:
            streamed[storage] = 1
        for code, regions in zip(stream.codes, stream.regions, strict=True):
            op = stream.ops[code]
            if op.writes and regions[op.writes[0]][0] in self.members:
                source[regions[op.writes[0]][0]] = regions[op.reads[0]], op.line
                continue
            for region in regions:
                if streamed[region[0]]:
                    regions = tuple(
                        [self._piece(r, *source[r[0]]) if streamed[r[0]] else r for r in regions]
                    )
                    break
            self.out.codes.append(code)
            self.out.regions.append(regions)
        return self.out

    def _piece(self, box: Region, origin: Region, line: int) -> Region:
        """The part of a tile that is used, loaded unless it was used a moment ago."""
        _, p0, p1, b0, b1 = box
        found = self.pieces.get(box)
        if found is None:
            tile = self.stream.storages[box[0]]
            piece = evolve(
                tile,
                id=len(self.out.storages),
                partitions=p1 - p0,
                partition_bytes=b1 - b0,
            )
            self.out.storages.append(piece)
            found = self.pieces[box] = piece.id
            self.used += piece.partition_bytes
            self._load(found, box, origin, line)
            while self.used > self.room and len(self.pieces) > 1:
                _, old = self.pieces.popitem(last=False)
                self.used -= self.out.storages[old].partition_bytes
        self.pieces.move_to_end(box)
        return (found, 0, p1 - p0, 0, b1 - b0)

    def _load(self, piece: int, box: Region, origin: Region, line: int) -> None:
        tile = self.out.storages[piece]
        key = (tile.partitions, tile.partition_bytes)
        if key not in self.codes:
            self.codes[key] = len(self.out.ops)
            self.out.ops.append(
                transfer_op("reload", tile, Route.LOAD, Queue.LOAD, line, self.target)
            )
        self.out.codes.append(self.codes[key])
        self.out.regions.append(((piece, 0, tile.partitions, 0, tile.partition_bytes), origin))
