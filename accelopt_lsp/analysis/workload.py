"""From what a run wrote down to the kernel's :class:`Workload`."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping

from attrs import evolve, frozen

from accelopt_lsp.analysis.coverage import (
    Footprint,
    distinct_elements,
    footprint,
    free_loops,
    union_size,
)
from accelopt_lsp.analysis.dependences import Use, dependences, uses_by_storage
from accelopt_lsp.analysis.lifetimes import Lifetime, Occupation, lifetimes, occupation, peak_banks
from accelopt_lsp.analysis.machine import Machine, Record
from accelopt_lsp.analysis.sites import (
    LoopKey,
    Part,
    Site,
    issues_of,
    loop_key,
    parts_of,
    sites_of,
    sum_counts,
    total_issued,
)
from accelopt_lsp.analysis.values import Storage, View
from accelopt_lsp.nki.costs import dma_transpose_ns
from accelopt_lsp.nki.derivations import derivations
from accelopt_lsp.nki.issued import add_traffic
from accelopt_lsp.nki.lowering import RESULT, Issue, Lowered
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.nki.work import Route
from accelopt_lsp.nki.workload import (
    AllocationWork,
    Holder,
    LineWork,
    LoopWork,
    NamedView,
    TensorTraffic,
    Workload,
)

__all__ = ["Facts", "build_workload", "collect", "issues_of", "loaded_view", "reload_factor"]


@frozen(slots=True, eq=False)
class Facts:
    """What rules look at besides the workload.

    Attributes:
        workload: the totals.
        parts, sites: each call within each nest of loops, and over all of them.
        lives: lifetimes of on-chip tensors.
        uses: what touches each on-chip tensor, by its storage.
    """

    workload: Workload
    parts: tuple[Part, ...]
    sites: tuple[Site, ...]
    lives: tuple[Lifetime, ...]
    uses: Mapping[int, list[Use]]


def build_workload(machine: Machine) -> Workload:
    """Totals by line, loop, allocation and tensor."""
    return collect(machine).workload


def collect(machine: Machine) -> Facts:
    """The workload, and the parts that it is the sum of. Linear in what the run wrote down."""
    from accelopt_lsp.analysis.roofline import ceilings

    parts = parts_of(machine.records, machine.target)
    lives = lifetimes(machine)
    uses = uses_by_storage(machine)
    sbuf = occupation(lives, Buffer.SBUF, machine.accesses)
    psum = occupation(lives, Buffer.PSUM, machine.accesses)
    tensors = _tensors(machine)
    external = [tensors[s.id] for s in _external(machine) if s.id in tensors]
    unsupported: dict[str, int] = {}
    for _, name, times in machine.unsupported:
        unsupported[name] = unsupported.get(name, 0) + times
    issued = total_issued(parts)
    workload = Workload(
        lines=_lines(machine, parts, sbuf, psum),
        loops=_loops(machine, parts),
        allocations=_allocations(machine, lives),
        calls=_calls(machine, parts),
        issued=issued,
        compulsory_read_bytes=_once(external, written=False),
        compulsory_write_bytes=_once(external, written=True),
        sbuf_peak_bytes=sbuf.peak_bytes,
        psum_peak_bytes=psum.peak_bytes,
        sbuf_peak_line=sbuf.peak_line,
        psum_peak_line=psum.peak_line,
        sbuf_holders=_holders(sbuf),
        psum_holders=_holders(psum),
        psum_peak_banks=peak_banks(lives, machine.target.integer("psum_bank_bytes")),
        traffic=add_traffic(part.traffic for part in parts),
        flops=sum_counts(part.flops for part in parts),
        tensors=tuple(tensors.values()),
        dependences=dependences(machine, uses),
        ceilings_ns=ceilings(issued, issues_of(machine.records), machine.target, machine.dialect),
        unknowns=tuple(dict.fromkeys(machine.unknowns)),
        unknown_instructions=unsupported,
        uncounted=_uncounted(machine),
    )
    return Facts(workload, parts, sites_of(parts), tuple(lives), uses)


def _uncounted(machine: Machine) -> tuple[LineWork, ...]:
    """One execution of each line in loops whose iterations are not known."""
    found: dict[int, list[Record]] = {}
    for record in machine.uncounted:
        calls = found.setdefault(record.line, [])
        if all(record.node is not known.node for known in calls):
            calls.append(evolve(record, times=1))
    once = [record for records in found.values() for record in records]
    return _lines(machine, parts_of(once, machine.target), None, None)


def _lines(
    machine: Machine, parts: Iterable[Part], sbuf: Occupation | None, psum: Occupation | None
) -> tuple[LineWork, ...]:
    by_line: dict[int, list[Part]] = defaultdict(list)
    for part in parts:
        by_line[part.line].append(part)
    return tuple(
        _line(
            machine,
            line,
            found,
            None if sbuf is None else sbuf.by_line.get(line),
            None if psum is None else psum.by_line.get(line),
        )
        for line, found in sorted(by_line.items())
    )


def _calls(machine: Machine, parts: Iterable[Part]) -> tuple[LineWork, ...]:
    """Each call of the lines that have several."""
    by_line: dict[int, dict[ast.AST, list[Part]]] = defaultdict(lambda: defaultdict(list))
    for part in parts:
        by_line[part.line][part.node].append(part)
    return tuple(
        _line(machine, line, found, None, None)
        for line, calls in sorted(by_line.items())
        if len(calls) > 1
        for found in calls.values()
    )


def _line(
    machine: Machine, line: int, parts: list[Part], sbuf: int | None, psum: int | None
) -> LineWork:
    target = machine.target
    issued = total_issued(parts)
    engine, busy = max(issued.engine_ns.items(), key=lambda i: i[1], default=("", 0.0))
    records = [record for part in parts for record in part.records]
    runs: dict[int, int] = defaultdict(int)
    templates: dict[int, tuple[Lowered, int]] = {}
    for record in records:
        runs[id(record.node)] += record.times
        lowered, times = templates.get(id(record.lowered), (record.lowered, 0))
        templates[id(lowered)] = (lowered, times + record.times)
    last = records[-1].lowered
    issues = [(issue, times) for lowered, times in templates.values() for issue in lowered.issues]
    traffic = add_traffic(part.traffic for part in parts)
    descriptor = min(traffic.descriptors, default=None)
    if _by_blocks(issues, target):
        descriptor = None
    return LineWork(
        line=line,
        count=max(runs.values()),
        issued=issued,
        engine=engine,
        engine_ns=busy,
        shape=last.types.get(RESULT) or last.types.get("dst"),
        descriptor_bytes=descriptor,
        reload_factor=reload_factor(records),
        reload_loops=reload_loops(records),
        traffic=traffic,
        engine_bytes=sum_counts(part.engine_bytes for part in parts),
        flops=sum_counts(part.flops for part in parts),
        sbuf_live_bytes=sbuf,
        psum_live_bytes=psum,
        derivation=derivations(issues, target),
        column=_column(machine, line, [part.node for part in parts]),
    )


def _by_blocks(issues: Iterable[tuple[Issue, int]], target: Target) -> bool:
    """Whether transfers are transposes that the hardware does by blocks, not by descriptors."""
    for issue, _ in issues:
        dma = issue.work.dma
        if dma is not None and dma.transpose and dma_transpose_ns(issue.work, target) is not None:
            return True
    return False


def _column(machine: Machine, line: int, nodes: list[ast.AST]) -> int | None:
    """Where the one call stands that all of these are."""
    node = nodes[0]
    if any(other is not node for other in nodes) or getattr(node, "lineno", None) != line:
        return None
    return machine.document.column_of(line, getattr(node, "col_offset", 0))


def loaded_view(record: Record) -> View | None:
    """The HBM tensor that a call loads; None if it is no load, or nobody knows of which part."""
    for issue in record.lowered.issues:
        dma = issue.work.dma
        if dma is not None and dma.route in (Route.LOAD, Route.HBM_COPY):
            slot = dict(issue.operands).get("src", "")
            view = record.views.get(slot)
            return None if view is not None and view.dynamic is not None else view
    return None


def reload_factor(records: Iterable[Record]) -> float | None:
    """Bytes read over distinct bytes read; None for lines that load nothing."""
    total = 0
    distinct: dict[Storage, int] = defaultdict(int)
    for record in records:
        view = loaded_view(record)
        if view is None:
            continue
        total += record.times * view.operand().elements
        distinct[view.storage] += distinct_elements(view)
    if not total:
        return None
    unique = sum(min(n, _elements(storage)) for storage, n in distinct.items())
    return max(1.0, total / max(unique, 1))


def reload_loops(records: Iterable[Record]) -> tuple[tuple[int, str, int], ...]:
    """Loops over which the same bytes are read again: (line, variable, trips)."""
    found: dict[LoopKey, int] = {}
    for record in records:
        view = loaded_view(record)
        for var in () if view is None else free_loops(view, record.loops):
            found[loop_key(var)] = max(found.get(loop_key(var), 0), var.trips)
    return tuple((line, name, trips) for (line, name), trips in found.items())


def _elements(storage: Storage) -> int:
    return storage.nbytes // storage.dtype.nbytes


def _external(machine: Machine) -> list[Storage]:
    """Inputs and outputs."""
    returned = {o.storage.id for o in machine.outputs}
    return [s for s in machine.storages if s.kind == "input" or s.id in returned]


def _tensors(machine: Machine) -> dict[int, TensorTraffic]:
    """Traffic of every HBM tensor by its storage: bytes moved, and each byte once."""
    moved: dict[tuple[int, bool], int] = defaultdict(int)
    seen: dict[tuple[int, bool], dict[Footprint, int]] = defaultdict(dict)
    inexact: set[tuple[int, bool]] = set()
    lines: dict[int, dict[int, None]] = defaultdict(dict)
    storages: dict[int, Storage] = {}
    for record in machine.records:
        for issue in record.lowered.issues:
            if issue.work.dma is None:
                continue
            written = set(issue.writes)
            for _, slot in issue.operands:
                view = record.views.get(slot)
                if view is None or view.on_chip:
                    continue
                storage = view.storage
                key = (storage.id, slot in written)
                storages[storage.id] = storage
                moved[key] += record.times * view.operand().nbytes
                seen[key].setdefault(footprint(view), view.dtype.nbytes)
                if view.dynamic is not None or view.dtype is not storage.dtype:
                    inexact.add(key)
                if slot not in written:
                    lines[storage.id].setdefault(record.line)
    return {
        storage.id: TensorTraffic(
            name=storage.name,
            size_bytes=storage.nbytes,
            read_bytes=moved.get((storage.id, False), 0),
            written_bytes=moved.get((storage.id, True), 0),
            distinct_read_bytes=_distinct(storage, (storage.id, False), seen, inexact),
            distinct_written_bytes=_distinct(storage, (storage.id, True), seen, inexact),
            lines=tuple(lines[storage.id]),
            shape=storage.shape,
            dtype=storage.dtype.name,
        )
        for storage in storages.values()
    }


def _distinct(
    storage: Storage,
    key: tuple[int, bool],
    seen: dict[tuple[int, bool], dict[Footprint, int]],
    inexact: set[tuple[int, bool]],
) -> int | None:
    found = seen.get(key)
    if not found:
        return 0
    if key in inexact:
        return None
    count = union_size(found, _elements(storage))
    return None if count is None else count * storage.dtype.nbytes


def _once(tensors: Iterable[TensorTraffic], *, written: bool) -> int:
    """Bytes of inputs and outputs, each once; where overlaps are not known, at most all of them."""
    total = 0
    for tensor in tensors:
        distinct = tensor.distinct_written_bytes if written else tensor.distinct_read_bytes
        moved = tensor.written_bytes if written else tensor.read_bytes
        total += min(moved, tensor.size_bytes) if distinct is None else distinct
    return total


def _loops(machine: Machine, parts: Iterable[Part]) -> tuple[LoopWork, ...]:
    trips: dict[LoopKey, set[int]] = defaultdict(set)
    totals: dict[LoopKey, int] = defaultdict(int)
    ends: dict[LoopKey, int] = {}
    for visit in machine.visits:
        key = (visit.line, visit.variable)
        trips[key].add(visit.trips)
        totals[key] += visit.total
        ends[key] = visit.end_line
    inside: dict[LoopKey, list[Part]] = defaultdict(list)
    for part in parts:
        for key in dict.fromkeys(part.loops):
            inside[key].append(part)
    unknown = {(line, name): (text, end) for line, name, text, end in machine.uncounted_loops}
    counted = [
        LoopWork(
            *key,
            next(iter(found)) if len(found) == 1 else None,
            totals[key],
            ends[key],
            total_issued(inside[key]),
            add_traffic(part.traffic for part in inside[key]),
            sum_counts(part.flops for part in inside[key]),
        )
        for key, found in trips.items()
    ]
    counted += [
        LoopWork(*key, None, None, end_line=end, written=text)
        for key, (text, end) in unknown.items()
    ]
    return tuple(sorted(counted, key=lambda loop: (loop.line, loop.variable)))


def _allocations(machine: Machine, lives: Iterable[Lifetime]) -> tuple[AllocationWork, ...]:
    bank = machine.target.integer("psum_bank_bytes")
    live = {life.storage.id: life.partition_bytes for life in lives}
    found: dict[tuple[int, str, tuple[int, ...]], AllocationWork] = {}
    for storage in machine.storages:
        if not storage.buffer.on_chip:
            continue
        size = storage.partition_bytes
        found[storage.line, storage.name, storage.shape] = AllocationWork(
            line=storage.line,
            name=storage.name,
            buffer=storage.buffer,
            shape=storage.shape,
            dtype=storage.dtype.name,
            partition_bytes=size * storage.block_count,
            live_bytes=live.get(storage.id),
            banks=-(-size // bank) if storage.buffer is Buffer.PSUM else 0,
        )
    return tuple(sorted(found.values(), key=lambda a: a.line))


def named_views(machine: Machine) -> tuple[NamedView, ...]:
    """Names for tensors that have another one, and for their parts, by line."""
    found = []
    for (line, name), view in sorted(machine.named.items(), key=lambda item: item[0]):
        held = view.storage
        if (held.name, held.line) != (name, line):
            seen = NamedView(line, name, held.name, held.buffer, view.shape, view.dtype.name)
            found.append(seen)
    return tuple(found)


def _holders(found: Occupation) -> tuple[Holder, ...]:
    """What is alive at the fullest moment; tiles of one name and line count together."""
    sizes: dict[tuple[str, int], int] = defaultdict(int)
    for life in found.holders:
        sizes[life.storage.name, life.storage.line] += life.partition_bytes
    ordered = sorted(sizes.items(), key=lambda item: (-item[1], item[0][1]))
    return tuple(Holder(name, line, size) for (name, line), size in ordered)
