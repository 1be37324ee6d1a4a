"""How much on-chip memory is live, line by line and at the fullest moment.

An estimate: each body is visited once, so a tensor lives from its first to its last use in the
order of the text, and to the end of every loop that uses it but did not create it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from math import prod

from attrs import frozen

from accelopt_lsp.analysis.affine import Var, terms_of
from accelopt_lsp.analysis.machine import Access, Machine
from accelopt_lsp.analysis.values import Storage
from accelopt_lsp.nki.operands import Buffer


@frozen(slots=True, eq=False)
class Lifetime:
    """One tensor: first and last moment, and bytes per partition while it lives."""

    storage: Storage
    first: int
    last: int
    partition_bytes: int


LoopKey = tuple[int, str]
"""A loop by line and variable: its parts, which were visited apart, count as one."""


def _key(var: Var) -> LoopKey:
    return var.line, var.name


@frozen(slots=True, eq=False)
class _Loops:
    """First and last moment of every entry of a loop, and iterations of every loop.

    An entry is known by the visits of the loops around it.
    """

    spans: dict[tuple[tuple[Var, ...], LoopKey], tuple[int, int]]
    trips: dict[LoopKey, int]


def _loops_of(machine: Machine) -> _Loops:
    spans: dict[tuple[tuple[Var, ...], LoopKey], tuple[int, int]] = {}
    ranges: dict[LoopKey, tuple[int, int]] = {}
    for access in machine.accesses:
        for depth, var in enumerate(access.loops):
            entry = (access.loops[:depth], _key(var))
            low, high = spans.get(entry, (access.sequence, access.sequence))
            spans[entry] = (min(low, access.sequence), max(high, access.sequence))
    nests = [*(a.loops for a in machine.accesses), *(s.loops for s in machine.storages)]
    for loops in nests:
        for var in loops:
            first, end = ranges.get(_key(var), (var.low, var.high))
            ranges[_key(var)] = (min(first, var.low), max(end, var.high))
    return _Loops(spans, {key: end - first for key, (first, end) in ranges.items()})


def lifetimes(machine: Machine) -> list[Lifetime]:
    """Lifetimes of all on-chip tensors that are used."""
    by_storage: dict[int, list[Access]] = defaultdict(list)
    for access in machine.accesses:
        by_storage[access.storage.id].append(access)
    loops = _loops_of(machine)
    found = []
    for storage in machine.storages:
        accesses = by_storage.get(storage.id)
        if accesses and storage.buffer.on_chip:
            found.append(_lifetime(storage, accesses, loops))
    return found


def _lifetime(storage: Storage, accesses: list[Access], loops: _Loops) -> Lifetime:
    home = {_key(v) for v in storage.loops}
    blocks = storage.block_count
    if storage.blocks:
        private = _private_loops(accesses)
        blocks = max(1, blocks // prod(loops.trips[key] for key in private))
        home |= _common_loops(accesses) if private else set()
    first = min(a.sequence for a in accesses)
    last = max(a.sequence for a in accesses)
    kept: set[LoopKey] = set()
    for access in accesses:
        around = [_key(v) for v in access.loops]
        depth = next((n for n, key in enumerate(around) if key not in home), None)
        if depth is not None:
            low, high = loops.spans[access.loops[:depth], around[depth]]
            first, last = min(first, low), max(last, high)
        kept.update(key for v in storage.loops if (key := _key(v)) not in around)
    copies = prod(loops.trips[key] for key in kept)
    return Lifetime(storage, first, last, storage.partition_bytes * blocks * copies)


def _common_loops(accesses: list[Access]) -> set[LoopKey]:
    return set.intersection(*({_key(v) for v in a.loops} for a in accesses))


def _private_loops(accesses: list[Access]) -> set[LoopKey]:
    """Loops of whose iterations each has a block of its own: one block at a time is live."""
    common = _common_loops(accesses)
    for access in accesses:
        common &= _block_loops(access)
    return common


def _block_loops(access: Access) -> set[LoopKey]:
    """Loops that decide which block is meant; a part of one iteration does so by its number."""
    numbers = {index for index in access.block if isinstance(index, int)}
    alone = {_key(v) for v in access.loops if v.trips == 1 and v.low in numbers}
    return alone | {_key(v) for index in access.block for v, _ in terms_of(index)}


@frozen(slots=True, eq=False)
class Occupation:
    """How full one memory is, moment by moment.

    Attributes:
        peak_bytes, peak_line: bytes per partition at the fullest moment, and its line.
        holders: lifetimes that are alive then, the largest first.
        by_line: largest number of live bytes per partition by line.
    """

    peak_bytes: int
    peak_line: int | None
    holders: tuple[Lifetime, ...]
    by_line: dict[int, int]


def occupation(found: Iterable[Lifetime], buffer: Buffer, accesses: list[Access]) -> Occupation:
    """Live bytes per partition of one memory; one pass over the accesses, in their order."""
    lives = [life for life in found if life.storage.buffer is buffer]
    changes: dict[int, int] = defaultdict(int)
    for life in lives:
        changes[life.first] += life.partition_bytes
        changes[life.last + 1] -= life.partition_bytes
    moments = deque(sorted(changes))
    level = highest = 0
    at: Access | None = None
    by_line: dict[int, int] = {}
    for access in accesses:
        while moments and moments[0] <= access.sequence:
            level += changes[moments.popleft()]
        if level > by_line.get(access.line, -1):
            by_line[access.line] = level
        if level > highest:
            highest, at = level, access
    if at is None:
        return Occupation(0, None, (), by_line)
    holders = [x for x in lives if x.first <= at.sequence <= x.last]
    holders.sort(key=lambda x: (-x.partition_bytes, x.storage.line))
    return Occupation(highest, at.line, tuple(holders), by_line)


def peak_banks(found: Iterable[Lifetime], bank_bytes: int) -> int:
    """Largest number of PSUM banks in use at one moment; tiles share none."""
    changes: dict[int, int] = defaultdict(int)
    for life in found:
        if life.storage.buffer is Buffer.PSUM:
            one = max(1, life.storage.partition_bytes)
            banks = -(-life.partition_bytes // one) * -(-one // bank_bytes)
            changes[life.first] += banks
            changes[life.last + 1] -= banks
    level = highest = 0
    for moment in sorted(changes):
        level += changes[moment]
        highest = max(highest, level)
    return highest
