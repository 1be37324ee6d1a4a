"""When SBUF is too small: which tiles go back to HBM, and when they return.

The tile is evicted whose transfers cost least for the room that they free, and for how long: of
tiles alike, the one whose next use lies farthest ahead. A clean one (loaded, and not written since)
needs no save; its re-load is an ordinary HBM read. A dirty one is saved and re-loaded: only those
bytes count as spills. The engine that needs a spilled tile issues its re-load
(:mod:`dependencies` says how early).
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


def spill(
    stream: Stream, capacity: int, spare: int, target: Target, *, late_reloads: bool = True
) -> Spilled:
    """Evict and re-load tiles so that at most ``capacity`` bytes a partition are alive.

    ``spare`` bytes of them are kept free as well, so that loads and engines can run ahead; but no
    tile that is larger than that is evicted for it. ``late_reloads``: re-loads have a queue of
    their own, in which they wait for the engine that needs them.
    """
    return _Spiller(stream, capacity, spare, target, late_reloads).run()


def hbm_written(stream: Stream) -> set[int]:
    """HBM storages that the kernel writes."""
    stores = {code: op for code, op in enumerate(stream.ops) if op.queue is Queue.STORE}
    found: set[int] = set()
    for code, regions in zip(stream.codes, stream.regions, strict=True):
        op = stores.get(code)
        if op is not None:
            found.update(regions[p][0] for p in op.writes)
    return found


def _touched(stream: Stream, size: list[int]) -> list[dict[int, int]]:
    """For each instruction the tiles in SBUF that it touches, and where they are touched next."""
    upcoming = [_NEVER] * len(stream.storages)
    found: list[dict[int, int]] = []
    for index in range(len(stream) - 1, -1, -1):
        touched = {}
        for region in stream.regions[index]:
            storage = region[0]
            if size[storage]:
                touched[storage] = upcoming[storage]
        for storage in touched:
            upcoming[storage] = index
        found.append(touched)
    found.reverse()
    return found


@define(slots=False)
class _Spiller:
    """Program order from begin to end, with what is in SBUF at each moment.

    ``kinds`` holds what evicting a resident tile is worth and costs: (bytes freed, time of its
    transfers); ``heaps`` the candidates of each kind, farthest next use first. Entries that no
    longer hold are dropped when they come up.
    """

    stream: Stream
    capacity: int
    spare: int
    target: Target
    late_reloads: bool
    result: Spilled = field(init=False)
    size: list[int] = field(init=False)
    resident: bytearray = field(init=False)
    next_use: list[int] = field(init=False)
    names: dict[int, int] = field(factory=dict)
    homes: dict[int, Storage] = field(factory=dict)
    codes: dict[tuple[object, ...], int] = field(factory=dict)
    rewritten: set[int] = field(factory=set)
    dirty: set[int] = field(factory=set)
    source: dict[int, Region | None] = field(factory=dict)
    costs: dict[tuple[int, int, bool], tuple[int, float]] = field(factory=dict)
    kinds: dict[int, tuple[int, float]] = field(factory=dict)
    heaps: dict[tuple[int, float], list[tuple[int, int]]] = field(factory=dict)
    fresh: dict[int, None] = field(factory=dict)

    def run(self) -> Spilled:
        stream = self.stream
        out = Stream(list(stream.ops), list(stream.storages))
        self.result = Spilled(out)
        self.size = [sbuf_bytes(s) if s.buffer is Buffer.SBUF else 0 for s in stream.storages]
        self.resident = bytearray(len(stream.storages))
        self.next_use = [_NEVER] * len(stream.storages)
        self.rewritten = hbm_written(stream)
        size, resident, next_use, fresh = self.size, self.resident, self.next_use, self.fresh
        names, codes, regions_of = self.names, out.codes, out.regions
        writes_of = [op.writes for op in stream.ops]
        gone: set[int] = set()
        level = 0
        room = self.capacity - self.spare
        for now, (code, regions, touched) in enumerate(
            zip(stream.codes, stream.regions, _touched(stream, size), strict=True)
        ):
            for storage in touched:
                if resident[storage]:
                    continue
                level += size[storage]
                while level > room:
                    tight = level > self.capacity
                    victim = self._victim(now, self.capacity if tight else self.spare, touched)
                    if victim is None:
                        self.result.overflows += tight
                        break
                    level -= size[victim]
                    resident[victim] = 0
                    gone.add(victim)
                    self._evict(victim)
                resident[storage] = 1
                if storage in gone:
                    gone.discard(storage)
                    self._reload(storage, stream.ops[code])
            codes.append(code)
            if names:
                for storage in touched:
                    if storage in names:
                        regions_of.append(tuple([(names.get(r[0], r[0]), *r[1:]) for r in regions]))
                        break
                else:
                    regions_of.append(regions)
            else:
                regions_of.append(regions)
            for position in writes_of[code]:
                if size[regions[position][0]]:
                    self._note_write(stream.ops[code], regions, regions[position][0])
            for storage, following in touched.items():
                next_use[storage] = following
                if following == _NEVER:
                    level -= size[storage]
                    resident[storage] = 0
                else:
                    fresh[storage] = None
        return self.result

    def _victim(self, now: int, largest: int, touched: dict[int, int]) -> int | None:
        """The resident tile that is cheapest to do without and not needed right now.

        Tiles of more than ``largest`` bytes per partition are not looked at.

        Cheapest: time of its transfers over bytes freed and instructions until its next use.
        """
        resident, next_use, kinds = self.resident, self.next_use, self.kinds
        for storage in self.fresh:
            if resident[storage]:
                self._offer(storage, next_use[storage])
        self.fresh.clear()
        best, found = -1.0, None
        for kind, heap in self.heaps.items():
            if kind[0] > largest:
                continue
            aside = []
            while heap:
                entry = heap[0]
                storage = entry[1]
                if (
                    not resident[storage]
                    or next_use[storage] != -entry[0]
                    or kinds[storage] != kind
                ):
                    heappop(heap)
                elif storage in touched:
                    aside.append(heappop(heap))
                else:
                    score = (-entry[0] - now) * kind[0] / kind[1]
                    if score > best:
                        best, found = score, storage
                    break
            for entry in aside:
                heappush(heap, entry)
        return found

    def _offer(self, storage: int, next_use: int) -> None:
        """Make a resident tile a candidate for eviction."""
        tile = self.stream.storages[storage]
        key = tile.partitions, tile.partition_bytes, storage in self.dirty
        kind = self.costs.get(key)
        if kind is None:
            load = transfer_op("", tile, Route.LOAD, Queue.LOAD, 0, self.target)
            time = load.busy_ns * load.engines
            if key[2]:
                save = transfer_op("", tile, Route.STORE, Queue.SAVE, 0, self.target)
                time += save.busy_ns * save.engines
            kind = self.costs[key] = self.size[storage], max(time, 1.0)
            self.heaps.setdefault(kind, [])
        self.kinds[storage] = kind
        heappush(self.heaps[kind], (-next_use, storage))

    def _note_write(self, op: Op, regions: tuple[Region, ...], storage: int) -> None:
        """Remember whether HBM holds the same data as the tile."""
        loaded = op.queue is Queue.LOAD and regions[op.reads[0]][0] not in self.rewritten
        if loaded and storage not in self.dirty:
            self.source[storage] = regions[op.reads[0]]
            return
        self.dirty.add(storage)
        self.source[storage] = None

    def _box(self, storage: Storage, name: int) -> Region:
        return (name, 0, max(1, storage.partitions), 0, max(1, storage.partition_bytes))

    def _evict(self, storage: int) -> None:
        if storage not in self.dirty:
            return
        self.dirty.discard(storage)
        tile = self.stream.storages[storage]
        home = self._home(tile)
        code = self._code("spill_save", tile, Route.STORE, Queue.SAVE, tile.line)
        source = self._box(tile, self.names.get(storage, storage))
        out = self.result.stream
        out.codes.append(code)
        out.regions.append((self._box(tile, home.id), source))
        self.result.saved_bytes += tile.partitions * tile.partition_bytes

    def _reload(self, storage: int, user: Op) -> None:
        source = self.source.get(storage)
        tile = self.stream.storages[storage]
        out = self.result.stream
        again = evolve(tile, id=len(out.storages))
        out.storages.append(again)
        self.names[storage] = again.id
        queue = Queue.LOAD
        if source is not None:
            name, origin = "reload", source
        else:
            name, origin = "spill_reload", self._box(tile, self._home(tile).id)
            if self.late_reloads and not user.engines:
                queue = Queue.RELOAD
            self.result.reloaded_bytes += tile.partitions * tile.partition_bytes
        code = self._code(name, tile, Route.LOAD, queue, tile.line)
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
        key = (name, tile.partitions, tile.partition_bytes, line, queue)
        code = self.codes.get(key)
        if code is None:
            code = self.codes[key] = len(self.result.stream.ops)
            self.result.stream.ops.append(transfer_op(name, tile, route, queue, line, self.target))
        return code
