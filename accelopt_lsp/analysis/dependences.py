"""Tiles through which the iterations of a loop wait for each other.

A tile that a loop did not create is one place in memory. An iteration that writes it waits until
the one before has read it; an iteration that reads it first needs what the one before has left
there. Both keep engines, and transfers and engines, from working side by side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from attrs import frozen

from accelopt_lsp.analysis.affine import Var, const_of, terms_of
from accelopt_lsp.analysis.machine import Machine, Record
from accelopt_lsp.analysis.sites import LoopKey, loop_key
from accelopt_lsp.analysis.values import Storage, View
from accelopt_lsp.nki.costs import instruction_cost
from accelopt_lsp.nki.lowering import Issue, Lowered
from accelopt_lsp.nki.operands import Buffer, Engine
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.nki.workload import Dependence, Waiting


@frozen(slots=True, eq=False)
class Use:
    """One instruction that touches a tile.

    Attributes:
        record: the call that issues it.
        view: the part that it touches.
        written, read: what it does to the tile; both for a tile that it updates.
        engine: engine, or ``dma``.
        product: it adds a product up in PSUM.
        busy_ns: time that it occupies its engine, over the whole kernel.
        ns: the same with the time until a transfer's data can be used.
    """

    record: Record
    view: View
    written: bool
    read: bool
    engine: str
    product: bool
    busy_ns: float
    ns: float


class _Costs:
    """Time of instructions that wait for each other, each looked up once."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.known: dict[int, tuple[float, float]] = {}

    def of(self, issue: Issue) -> tuple[float, float]:
        """Busy time, and time with the latency of a transfer."""
        found = self.known.get(id(issue))
        if found is None:
            cost = instruction_cost(issue.op, issue.engine, issue.work, self.target)
            found = (0.0, 0.0)
            if cost is not None:
                late = cost.latency_ns if issue.work.dma is not None else 0.0
                found = (cost.busy_ns, cost.busy_ns + late)
            self.known[id(issue)] = found
        return found


Touched = tuple[str, bool, bool, Issue]
"""Slot, written, read, instruction."""


def _touched(lowered: Lowered) -> tuple[Touched, ...]:
    found: list[Touched] = []
    for issue in lowered.issues:
        slots: dict[str, tuple[bool, bool]] = {}
        for slot in issue.reads:
            slots[slot.partition("@")[0]] = (False, True)
        for slot in issue.writes:
            base = slot.partition("@")[0]
            slots[base] = (True, slots.get(base, (False, False))[1])
        found += [(slot, written, read, issue) for slot, (written, read) in slots.items()]
    return tuple(found)


def uses_by_storage(machine: Machine) -> dict[int, list[Use]]:
    """What touches each on-chip tensor, in the order of the kernel."""
    costs = _Costs(machine.target)
    templates: dict[int, tuple[Touched, ...]] = {}
    found: dict[int, list[Use]] = defaultdict(list)
    for record in machine.records:
        key = id(record.lowered)
        touched = templates.get(key)
        if touched is None:
            touched = templates[key] = _touched(record.lowered)
        merged: dict[tuple[int, int], Use] = {}
        for slot, written, read, issue in touched:
            view = record.views.get(slot)
            if view is None or not view.on_chip:
                continue
            product = (
                written and issue.op == "nc_matmul" and view.buffer is Buffer.PSUM and not read
            )
            engine = Engine.DMA.value if issue.work.dma is not None else issue.engine.value
            place = (view.storage.id, id(issue))
            known = merged.get(place)
            if known is not None:
                written, read = written or known.written, read or known.read
            read = read or (written and record.accumulates and not product)
            busy, late = costs.of(issue)
            times = record.times
            merged[place] = Use(
                record, view, written, read, engine, product, busy * times, late * times
            )
        for (storage, _), use in merged.items():
            found[storage].append(use)
    return found


def dependences(machine: Machine, uses: dict[int, list[Use]]) -> tuple[Dependence, ...]:
    """Waits between iterations, those that cost most first."""
    found: list[Dependence] = []
    for storage in machine.storages:
        touched = uses.get(storage.id)
        if touched and storage.buffer.on_chip:
            found += _of_storage(storage, touched)
    return tuple(sorted(found, key=lambda d: (-d.lost_ns, d.line, d.loop_line)))


def _of_storage(storage: Storage, uses: list[Use]) -> Iterable[Dependence]:
    home = {loop_key(v) for v in storage.loops}
    groups: dict[LoopKey, list[tuple[Use, Var, int]]] = defaultdict(list)
    for use in uses:
        keys = [loop_key(v) for v in use.record.loops]
        if not home <= set(keys):
            return  # one tile of several that a list holds
        for depth, (key, var) in enumerate(zip(keys, use.record.loops, strict=True)):
            if key not in home:
                groups[key].append((use, var, depth))
    innermost: dict[tuple[int, ...], tuple[int, LoopKey]] = {}
    for key, members in groups.items():
        same = tuple(id(use) for use, _, _ in members)
        depth = members[0][2]
        if same not in innermost or depth > innermost[same][0]:
            innermost[same] = (depth, key)
    for _, key in innermost.values():
        members = groups[key]
        touched = [use for use, _, _ in members]
        waiting = _waiting(touched)
        if waiting is None or _own_place(members):
            continue
        if max(v.high for _, v, _ in members) - min(v.low for _, v, _ in members) <= 1:
            continue
        yield _dependence(storage, key, waiting, touched, whole=len(touched) == len(uses))


def _waiting(uses: list[Use]) -> Waiting | None:
    if not any(use.written for use in uses):
        return None
    if all(use.product for use in uses):
        return Waiting.PRODUCT
    if not any(use.read for use in uses):
        return None
    return Waiting.CARRIED if uses[0].read else Waiting.REUSE


def _own_place(members: list[tuple[Use, Var, int]]) -> bool:
    """Each iteration writes a place of its own in the tile."""
    alone: set[object] = set()
    parts: set[int] = set()
    for use, var, _ in members:
        if not use.written:
            continue
        if var.trips > 1:
            key = loop_key(var)
            indices = (use.view.offset, *use.view.block)
            return any(loop_key(v) == key for index in indices for v, _ in terms_of(index))
        alone.add((const_of(use.view.offset), *map(const_of, use.view.block)))
        parts.add(var.low)
    return len(parts) > 1 and len(alone) > 1


def _dependence(
    storage: Storage, key: LoopKey, waiting: Waiting, uses: list[Use], *, whole: bool
) -> Dependence:
    times: dict[str, float] = defaultdict(float)
    for use in uses:
        times[use.engine] += use.ns
    writers = dict.fromkeys(use.engine for use in uses if use.written)
    readers = dict.fromkeys(use.engine for use in uses if use.read)
    read = next((use for use in uses if use.read), uses[-1])
    movable = whole and waiting is Waiting.REUSE and storage.kind == "tensor"
    return Dependence(
        loop_line=key[0],
        variable=key[1],
        waiting=waiting,
        tensor=storage.name,
        line=storage.line,
        buffer=storage.buffer,
        write_line=next(use.record.line for use in uses if use.written),
        read_line=read.record.line,
        writers=tuple(writers),
        readers=tuple(readers),
        movable=movable and not storage.blocks and _covered(uses),
        lost_ns=sum(times.values()) - max(times.values()),
    )


def _covered(uses: list[Use]) -> bool:
    """The first write fills all that is read of the tile."""
    first = uses[0].view
    if first.is_whole:
        return True
    return all(
        use.view.offset == first.offset and use.view.shape == first.shape
        for use in uses
        if use.read
    )
