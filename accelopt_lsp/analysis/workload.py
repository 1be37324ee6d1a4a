"""From what a run wrote down to the kernel's :class:`Workload`."""

from __future__ import annotations

import ast
from collections import defaultdict

from accelopt_lsp.analysis.coverage import distinct_elements
from accelopt_lsp.analysis.lifetimes import lifetimes, peak
from accelopt_lsp.analysis.machine import Machine, Record
from accelopt_lsp.analysis.values import Storage, View
from accelopt_lsp.nki.issued import count_issued
from accelopt_lsp.nki.lowering import RESULT, Issue
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.work import Route
from accelopt_lsp.nki.workload import AllocationWork, LineWork, LoopWork, Workload


def issues_of(records: list[Record]) -> list[tuple[Issue, int]]:
    """(instruction, executions) of some records."""
    return [(issue, record.times) for record in records for issue in record.lowered.issues]


def build_workload(machine: Machine) -> Workload:
    """Totals by line, loop and allocation."""
    by_line: dict[int, list[Record]] = defaultdict(list)
    for record in machine.records:
        by_line[record.line].append(record)
    lives = lifetimes(machine)
    read, written = compulsory_bytes(machine)
    unsupported: dict[str, int] = {}
    for _, name, times in machine.unsupported:
        unsupported[name] = unsupported.get(name, 0) + times
    return Workload(
        lines=tuple(_line(machine, line, found) for line, found in sorted(by_line.items())),
        loops=_loops(machine),
        allocations=_allocations(machine),
        issued=count_issued(issues_of(machine.records), machine.target),
        compulsory_read_bytes=read,
        compulsory_write_bytes=written,
        sbuf_peak_bytes=peak(lives, Buffer.SBUF),
        psum_peak_bytes=peak(lives, Buffer.PSUM),
        unknowns=tuple(dict.fromkeys(machine.unknowns)),
        unknown_instructions=unsupported,
    )


def _line(machine: Machine, line: int, records: list[Record]) -> LineWork:
    issued = count_issued(issues_of(records), machine.target)
    engine, busy = max(issued.engine_ns.items(), key=lambda i: i[1], default=("", 0.0))
    runs: dict[ast.AST, int] = defaultdict(int)
    for record in records:
        runs[record.node] += record.times
    last = records[-1].lowered
    sizes = [
        issue.work.dma.descriptor_bytes
        for record in records
        for issue in record.lowered.issues
        if issue.work.dma is not None
    ]
    return LineWork(
        line=line,
        count=max(runs.values()),
        issued=issued,
        engine=engine,
        engine_ns=busy,
        shape=last.types.get(RESULT) or last.types.get("dst"),
        descriptor_bytes=min(sizes, default=None),
        reload_factor=reload_factor(records),
    )


def loaded_view(record: Record) -> View | None:
    """The HBM tensor that a call loads; None if it is no load, or nobody knows of which part."""
    for issue in record.lowered.issues:
        dma = issue.work.dma
        if dma is not None and dma.route in (Route.LOAD, Route.HBM_COPY):
            slot = dict(issue.operands).get("src", "")
            view = record.views.get(slot)
            return None if view is not None and view.dynamic is not None else view
    return None


def reload_factor(records: list[Record]) -> float | None:
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


def _elements(storage: Storage) -> int:
    return storage.nbytes // storage.dtype.nbytes


def compulsory_bytes(machine: Machine) -> tuple[int, int]:
    """Bytes of inputs read and of inputs and outputs written, each once."""
    external = {s.id for s in machine.storages if s.kind == "input"}
    external |= {o.storage.id for o in machine.outputs}
    touched: dict[tuple[int, bool], int] = defaultdict(int)
    seen: set[tuple[int, bool, tuple[int, ...], tuple[int, ...], object]] = set()
    sizes: dict[int, int] = {}
    for record in machine.records:
        for issue in record.lowered.issues:
            if issue.work.dma is None:
                continue
            for role, slot in issue.operands:
                view = record.views.get(slot)
                if view is None or view.storage.id not in external:
                    continue
                written = role == "dst"
                key = (view.storage.id, written, view.shape, view.strides, view.offset)
                if key in seen:
                    continue
                seen.add(key)
                sizes[view.storage.id] = view.storage.nbytes
                nbytes = distinct_elements(view) * view.dtype.nbytes
                touched[view.storage.id, written] += nbytes
    read = sum(min(n, sizes[s]) for (s, written), n in touched.items() if not written)
    wrote = sum(min(n, sizes[s]) for (s, written), n in touched.items() if written)
    return read, wrote


def _loops(machine: Machine) -> tuple[LoopWork, ...]:
    trips: dict[tuple[int, str], set[int]] = defaultdict(set)
    totals: dict[tuple[int, str], int] = defaultdict(int)
    for visit in machine.visits:
        key = (visit.line, visit.variable)
        trips[key].add(visit.trips)
        totals[key] += visit.total
    counted = [
        LoopWork(
            line,
            variable,
            next(iter(found)) if len(found) == 1 else None,
            totals[line, variable],
        )
        for (line, variable), found in trips.items()
    ]
    unknown = {
        LoopWork(line, variable, None, None) for line, variable, _ in machine.uncounted_loops
    }
    return tuple(sorted([*counted, *unknown], key=lambda loop: (loop.line, loop.variable)))


def _allocations(machine: Machine) -> tuple[AllocationWork, ...]:
    found: dict[tuple[int, str, tuple[int, ...]], AllocationWork] = {}
    for storage in machine.storages:
        if storage.buffer.on_chip:
            key = (storage.line, storage.name, storage.shape)
            found[key] = AllocationWork(
                line=storage.line,
                name=storage.name,
                buffer=storage.buffer,
                shape=storage.shape,
                dtype=storage.dtype.name,
                partition_bytes=storage.partition_bytes * storage.block_count,
            )
    return tuple(sorted(found.values(), key=lambda a: a.line))
