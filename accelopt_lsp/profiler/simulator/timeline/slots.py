"""Buffers: which tile takes the place of which earlier one.

The result of every allocator is, for each storage, the storages whose place it takes; its
first writers have to wait until these were used for the last time. This is what limits how far
loads and engines run ahead.
"""

from __future__ import annotations

from collections import defaultdict
from heapq import heappop, heappush

from attrs import define, field

from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.profiler.simulator.timeline.liveness import (
    Lifetimes,
    psum_bytes,
    sbuf_bytes,
    sbuf_capacity,
)
from accelopt_lsp.profiler.simulator.timeline.policy import Policy
from accelopt_lsp.profiler.simulator.timeline.stream import Stream
from accelopt_lsp.profiler.simulator.trace import Storage


@define(slots=True)
class Slots:
    """Placement of all on-chip storages.

    Attributes:
        after: storages whose place a storage takes, by storage id.
        overflows: storages that found no free place in PSUM.
    """

    after: dict[int, tuple[int, ...]] = field(factory=dict)
    overflows: int = 0


def assign_slots(
    stream: Stream,
    lives: Lifetimes,
    policy: Policy,
    target: Target,
    streamed: int | None = None,
) -> Slots:
    """Place every on-chip storage by the dialect's policy.

    Pieces of the ``streamed`` site may fill all the room that is left.
    """
    slots = Slots()
    sbuf = _by_first_use(stream, lives, Buffer.SBUF)
    sizes = {s.id: sbuf_bytes(s) for s in sbuf}
    places = _places(sbuf, lives, policy) if policy.buffering else None
    if places is not None and streamed in places.limit:
        places.limit[streamed] = len(sbuf)
    _pool(sbuf, lives, sizes, sbuf_capacity(target), places, slots)
    psum = _by_first_use(stream, lives, Buffer.PSUM)
    bank = target.integer("psum_bank_bytes")
    sizes = {s.id: psum_bytes(s, bank) for s in psum}
    room = target.integer("psum_banks") * bank
    slots.overflows = _pool(psum, lives, sizes, room, None, slots)
    return slots


def _by_first_use(stream: Stream, lives: Lifetimes, buffer: Buffer) -> list[Storage]:
    used = [s for s in stream.storages if s.buffer is buffer and lives.first[s.id] >= 0]
    used.sort(key=lambda s: (lives.first[s.id], s.id))
    return used


def _pool(
    storages: list[Storage],
    lives: Lifetimes,
    sizes: dict[int, int],
    capacity: int,
    places: _Places | None,
    slots: Slots,
) -> int:
    """Give every storage a place, in program order.

    A group that holds as many places as its limit re-uses the one of them that was freed first.
    Otherwise there is fresh room while it lasts, then what was freed first anywhere.

    Returns the number of storages that had to take room that was still in use.
    """
    free = capacity
    freed: list[tuple[int, int]] = []
    held: dict[int, list[tuple[int, int]]] = {}
    taken_over = bytearray(max(lives.size, 1))
    overflows = 0
    for storage in storages:
        number, need = storage.id, sizes[storage.id]
        start, end = lives.first[number], lives.last[number]
        taken: list[int] = []
        if places is not None:
            group = places.group[number]
            own = held.setdefault(group, [])
            while own and taken_over[own[0][1]]:
                heappop(own)
            if len(own) >= places.limit[group] and own[0][0] < start:
                previous = heappop(own)[1]
                taken_over[previous] = 1
                taken.append(previous)
                free += sizes[previous]
            heappush(own, (end, number))
        while free < need and freed and freed[0][0] < start:
            previous = heappop(freed)[1]
            if taken_over[previous]:
                continue
            taken_over[previous] = 1
            taken.append(previous)
            free += sizes[previous]
        if free < need:
            overflows += 1
        free -= need
        if taken:
            slots.after[number] = tuple(taken)
        heappush(freed, (end, number))
    return overflows


@define(slots=True)
class _Places:
    """Which storages share places, and how many there are for them.

    Attributes:
        group: by storage id.
        limit: by group.
    """

    group: dict[int, int] = field(factory=dict)
    limit: dict[int, int] = field(factory=dict)


def _places(storages: list[Storage], lives: Lifetimes, policy: Policy) -> _Places:
    """Places by allocation site: a multiple of its live peak, more if tiles are small.

    Tiles of unrolled code, which Python's own loops create one by one, share places with all
    others of their size: the live peak and two more. Source: the measured rope kernel.
    """
    unrolled = _unrolled_sites(storages)
    members: dict[int, list[Storage]] = defaultdict(list)
    for storage in storages:
        key = storage.site
        if key in unrolled:
            key = _UNROLLED - storage.partition_bytes
        members[key].append(storage)
    places = _Places()
    for key, group in members.items():
        ends: list[int] = []
        peak = 0
        for storage in group:
            places.group[storage.id] = key
            while ends and ends[0] < lives.first[storage.id]:
                heappop(ends)
            heappush(ends, lives.last[storage.id])
            peak = max(peak, len(ends))
        if key <= _UNROLLED:
            places.limit[key] = peak + 2
        else:
            size = max(1, sbuf_bytes(group[0]))
            places.limit[key] = max(policy.buffering * peak, policy.least_bytes // size)
    return places


_UNROLLED = -1_000_000_000
"""Groups of unrolled tiles count down from here by tile size; sites are far above."""


def _unrolled_sites(storages: list[Storage]) -> set[int]:
    """Sites whose call ran several times outside every ``nl`` loop."""
    born: dict[int, int] = {}
    unrolled: set[int] = set()
    for storage in storages:
        if storage.loop_depth == 0 and born.setdefault(storage.site, storage.born) != storage.born:
            unrolled.add(storage.site)
    return unrolled
