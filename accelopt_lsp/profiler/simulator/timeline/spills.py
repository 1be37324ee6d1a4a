"""When SBUF is too small: which tiles go back to HBM, and when they return.

The tile whose next use lies farthest ahead is evicted. A clean one (loaded, and not written
since) needs no save; its re-load is an ordinary HBM read. A dirty one is saved and re-loaded:
only those bytes count as spills.
"""

from __future__ import annotations

from heapq import heappop, heappush

from attrs import define, evolve, field

from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.nki.work import Route
from accelopt_lsp.profiler.simulator.timeline.liveness import sbuf_bytes
from accelopt_lsp.profiler.simulator.timeline.stream import Op, Queue, Stream, transfer_op
from accelopt_lsp.profiler.simulator.trace import Region, Storage

_NEVER = 1 << 60


@define(slots=True)
class Spilled:
    """A stream that fits into SBUF.

    Attributes:
        stream: with the added transfers.
        saved_bytes, reloaded_bytes: spill traffic.
        overflows: moments at which even one instruction's own operands do not fit.
    """

    stream: Stream
    saved_bytes: int = 0
    reloaded_bytes: int = 0
    overflows: int = 0


def spill(stream: Stream, capacity: int, target: Target) -> Spilled:
    """Evict and re-load tiles so that at most ``capacity`` bytes a partition are alive."""
    return _Spiller(stream, capacity, target).run()


def hbm_written(stream: Stream) -> set[int]:
    """HBM storages that the kernel writes."""
    stores = {code: op for code, op in enumerate(stream.ops) if op.queue is Queue.STORE}
    found: set[int] = set()
    for code, regions in zip(stream.codes, stream.regions, strict=True):
        op = stores.get(code)
        if op is not None:
            found.update(regions[p][0] for p in op.writes)
    return found


@define(slots=False)
class _Spiller:
    stream: Stream
    capacity: int
    target: Target
    result: Spilled = field(init=False)
    names: dict[int, int] = field(factory=dict)
    homes: dict[int, Storage] = field(factory=dict)
    codes: dict[tuple[object, ...], int] = field(factory=dict)
    rewritten: set[int] = field(factory=set)

    def run(self) -> Spilled:
        stream = self.stream
        out = Stream(list(stream.ops), list(stream.storages))
        self.result = Spilled(out)
        sbuf = {s.id: sbuf_bytes(s) for s in stream.storages if s.buffer is Buffer.SBUF}
        uses: dict[int, list[int]] = {}
        for index, regions in enumerate(stream.regions):
            for region in regions:
                if region[0] in sbuf:
                    found = uses.setdefault(region[0], [])
                    if not found or found[-1] != index:
                        found.append(index)
        self.rewritten = hbm_written(stream)
        cursor = dict.fromkeys(uses, 0)
        resident: dict[int, int] = {}
        gone: set[int] = set()
        dirty: set[int] = set()
        source: dict[int, tuple[int, Region] | None] = {}
        heap: list[tuple[int, int]] = []
        level = 0
        ops = stream.ops
        for code, regions in zip(stream.codes, stream.regions, strict=True):
            op = ops[code]
            current = {r[0] for r in regions if r[0] in sbuf}
            for storage in sorted(current):
                if storage in resident:
                    continue
                need = sbuf[storage]
                level += need
                while level > self.capacity:
                    victim = self._victim(heap, resident, cursor, uses, current)
                    if victim is None:
                        self.result.overflows += 1
                        break
                    level -= resident.pop(victim)
                    gone.add(victim)
                    self._evict(victim, victim in dirty, op.line)
                    dirty.discard(victim)
                resident[storage] = need
                if storage in gone:
                    gone.discard(storage)
                    self._reload(storage, source.get(storage), op.line)
            out.codes.append(code)
            out.regions.append(self._renamed(regions))
            for position in op.writes:
                storage = regions[position][0]
                if storage in sbuf:
                    self._note_write(op, regions, storage, dirty, source)
            for storage in current:
                places = uses[storage]
                at = cursor[storage] = cursor[storage] + 1
                if at >= len(places):
                    level -= resident.pop(storage, 0)
                else:
                    heappush(heap, (-places[at], storage))
        return self.result

    def _victim(
        self,
        heap: list[tuple[int, int]],
        resident: dict[int, int],
        cursor: dict[int, int],
        uses: dict[int, list[int]],
        current: set[int],
    ) -> int | None:
        """The resident tile with the farthest next use that is not needed right now."""
        aside = []
        found = None
        while heap:
            entry = heappop(heap)
            storage = entry[1]
            if storage not in resident or uses[storage][cursor[storage]] != -entry[0]:
                continue
            if storage in current:
                aside.append(entry)
                continue
            found = storage
            break
        for entry in aside:
            heappush(heap, entry)
        return found

    def _note_write(
        self,
        op: Op,
        regions: tuple[Region, ...],
        storage: int,
        dirty: set[int],
        source: dict[int, tuple[int, Region] | None],
    ) -> None:
        """Remember whether HBM holds the same data as the tile."""
        loaded = op.queue is Queue.LOAD and regions[op.reads[0]][0] not in self.rewritten
        if loaded and storage not in dirty:
            source[storage] = (0, regions[op.reads[0]])
            return
        dirty.add(storage)
        source[storage] = None

    def _renamed(self, regions: tuple[Region, ...]) -> tuple[Region, ...]:
        names = self.names
        if names and any(r[0] in names for r in regions):
            return tuple((names.get(r[0], r[0]), r[1], r[2], r[3], r[4]) for r in regions)
        return regions

    def _box(self, storage: Storage, name: int) -> Region:
        return (name, 0, max(1, storage.partitions), 0, max(1, storage.partition_bytes))

    def _evict(self, storage: int, dirty: bool, line: int) -> None:
        if not dirty:
            return
        tile = self.stream.storages[storage]
        home = self._home(tile)
        code = self._code("spill_save", tile, Route.STORE, Queue.SAVE, tile.line)
        source = self._box(tile, self.names.get(storage, storage))
        out = self.result.stream
        out.codes.append(code)
        out.regions.append((self._box(tile, home.id), source))
        self.result.saved_bytes += tile.partitions * tile.partition_bytes

    def _reload(self, storage: int, source: tuple[int, Region] | None, line: int) -> None:
        tile = self.stream.storages[storage]
        out = self.result.stream
        again = evolve(tile, id=len(out.storages))
        out.storages.append(again)
        self.names[storage] = again.id
        if source is not None:
            name, origin = "reload", source[1]
        else:
            name, origin = "spill_reload", self._box(tile, self._home(tile).id)
            self.result.reloaded_bytes += tile.partitions * tile.partition_bytes
        code = self._code(name, tile, Route.LOAD, Queue.LOAD, tile.line)
        out.codes.append(code)
        out.regions.append((self._box(tile, again.id), origin))

    def _home(self, tile: Storage) -> Storage:
        """Place in HBM where a dirty tile is kept."""
        home = self.homes.get(tile.id)
        if home is None:
            out = self.result.stream
            home = evolve(tile, id=len(out.storages), buffer=Buffer.HBM, name=f"{tile.name} spill")
            out.storages.append(home)
            self.homes[tile.id] = home
        return home

    def _code(self, name: str, tile: Storage, route: Route, queue: Queue, line: int) -> int:
        key = (name, tile.partitions, tile.partition_bytes, line)
        code = self.codes.get(key)
        if code is None:
            code = self.codes[key] = len(self.result.stream.ops)
            self.result.stream.ops.append(transfer_op(name, tile, route, queue, line, self.target))
        return code
