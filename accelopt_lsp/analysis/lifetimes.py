"""How much on-chip memory is live at the fullest moment.

An estimate: each body is visited once, so a tensor lives from its first to its last use in the
order of the text, and to the end of every loop that uses it but did not create it.
"""

from __future__ import annotations

from collections import defaultdict
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


def lifetimes(machine: Machine) -> list[Lifetime]:
    """Lifetimes of all on-chip tensors that are used."""
    by_storage: dict[int, list[Access]] = defaultdict(list)
    spans: dict[Var, tuple[int, int]] = {}
    for access in machine.accesses:
        by_storage[access.storage.id].append(access)
        for var in access.loops:
            low, high = spans.get(var, (access.sequence, access.sequence))
            spans[var] = (min(low, access.sequence), max(high, access.sequence))
    found = []
    for storage in machine.storages:
        accesses = by_storage.get(storage.id)
        if accesses and storage.buffer.on_chip:
            found.append(_lifetime(storage, accesses, spans))
    return found


def _lifetime(
    storage: Storage, accesses: list[Access], spans: dict[Var, tuple[int, int]]
) -> Lifetime:
    home = set(storage.loops)
    blocks = storage.block_count
    if storage.blocks:
        private = _private_loops(accesses)
        blocks = max(1, blocks // prod(v.trips for v in private))
        home |= _common_loops(accesses) if private else set()
    first = min(a.sequence for a in accesses)
    last = max(a.sequence for a in accesses)
    kept: set[Var] = set()
    for access in accesses:
        outside = next((v for v in access.loops if v not in home), None)
        if outside is not None:
            first = min(first, spans[outside][0])
            last = max(last, spans[outside][1])
        kept.update(v for v in storage.loops if v not in access.loops)
    copies = prod(v.trips for v in kept)
    return Lifetime(storage, first, last, storage.partition_bytes * blocks * copies)


def _common_loops(accesses: list[Access]) -> set[Var]:
    return set.intersection(*(set(a.loops) for a in accesses))


def _private_loops(accesses: list[Access]) -> list[Var]:
    """Loops of whose iterations each has a block of its own: one block at a time is live."""
    common = _common_loops(accesses)
    for access in accesses:
        used = {v for index in access.block for v, _ in terms_of(index)}
        common &= used
    return list(common)


def peak(found: Iterable[Lifetime], buffer: Buffer) -> int:
    """Largest sum of live bytes per partition in one memory."""
    changes: dict[int, int] = defaultdict(int)
    for life in found:
        if life.storage.buffer is buffer:
            changes[life.first] += life.partition_bytes
            changes[life.last + 1] -= life.partition_bytes
    level = highest = 0
    for moment in sorted(changes):
        level += changes[moment]
        highest = max(highest, level)
    return highest
