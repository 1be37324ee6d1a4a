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


def assign_slots(stream: Stream, lives: Lifetimes, policy: Policy, target: Target) -> Slots:
    """Place every on-chip storage by the dialect's policy."""
    slots = Slots()
    sbuf = _by_first_use(stream, lives, Buffer.SBUF)
    if policy.rotates:
        _rotate(sbuf, lives, policy, sbuf_capacity(target), slots)
    else:
        _pool(sbuf, lives, sbuf_bytes, sbuf_capacity(target), slots)
    bank = target.integer("psum_bank_bytes")
    room = target.integer("psum_banks") * bank
    slots.overflows = _pool(
        _by_first_use(stream, lives, Buffer.PSUM),
        lives,
        lambda storage: psum_bytes(storage, bank),
        room,
        slots,
    )
    return slots


def _by_first_use(stream: Stream, lives: Lifetimes, buffer: Buffer) -> list[Storage]:
    used = [s for s in stream.storages if s.buffer is buffer and lives.first[s.id] >= 0]
    used.sort(key=lambda s: (lives.first[s.id], s.id))
    return used


def _pool(
    storages: list[Storage],
    lives: Lifetimes,
    size_of: object,
    capacity: int,
    slots: Slots,
) -> int:
    """One pool for all: fresh room while there is some, then what was freed first.

    Returns the number of storages that had to take room that was still in use.
    """
    free = capacity
    occupied: list[tuple[int, int, int]] = []
    overflows = 0
    for storage in storages:
        need = size_of(storage)  # type: ignore[operator]
        start = lives.first[storage.id]
        taken: list[int] = []
        while free < need and occupied and occupied[0][0] < start:
            _, previous, size = heappop(occupied)
            taken.append(previous)
            free += size
        if free < need:
            overflows += 1
        free -= need
        if taken:
            slots.after[storage.id] = tuple(taken)
        heappush(occupied, (lives.last[storage.id], storage.id, need))
    return overflows


@define(slots=True)
class _Site:
    """One allocation call: how many tiles of it live at once, and how many places it owns."""

    size: int
    start: int
    stop: int
    peak: int
    places: int


def _rotate(
    storages: list[Storage], lives: Lifetimes, policy: Policy, capacity: int, slots: Slots
) -> None:
    groups: dict[tuple[int, int], list[Storage]] = defaultdict(list)
    for storage in storages:
        groups[storage.site, sbuf_bytes(storage)].append(storage)
    sites = {key: _site(group, lives, policy) for key, group in groups.items()}
    _fit(list(sites.values()), capacity)
    for key, group in groups.items():
        places = sites[key].places
        occupied: list[tuple[int, int]] = []
        for storage in group:
            if len(occupied) >= places and occupied[0][0] < lives.first[storage.id]:
                slots.after[storage.id] = (heappop(occupied)[1],)
            heappush(occupied, (lives.last[storage.id], storage.id))


def _site(group: list[Storage], lives: Lifetimes, policy: Policy) -> _Site:
    ends: list[int] = []
    peak = 0
    for storage in group:
        while ends and ends[0] < lives.first[storage.id]:
            heappop(ends)
        heappush(ends, lives.last[storage.id])
        peak = max(peak, len(ends))
    size = sbuf_bytes(group[0])
    extra = max(policy.extra_buffers, policy.extra_bytes // max(1, size))
    return _Site(
        size=size,
        start=lives.first[group[0].id],
        stop=max(lives.last[s.id] for s in group),
        peak=peak,
        places=min(len(group), peak + extra),
    )


def _fit(sites: list[_Site], capacity: int) -> None:
    """Take spare buffers away, from those that have most bytes of them, until all fit."""
    edges = sorted({site.start for site in sites})
    for edge in edges:
        alive = [s for s in sites if s.start <= edge <= s.stop]
        total = sum(s.places * s.size for s in alive)
        while total > capacity:
            spare = [s for s in alive if s.places > s.peak]
            if not spare:
                break
            site = max(spare, key=lambda s: ((s.places - s.peak) * s.size, -s.start))
            site.places -= 1
            total -= site.size
