"""What each call of a kernel's text issues over the whole kernel: counted once, used by all.

Workload, rules and hints ask for totals by line, by loop and by call. They are sums over the same
parts, so that each instruction is counted and costed a single time.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property

from attrs import define, field, frozen

from accelopt_lsp.analysis.affine import Var
from accelopt_lsp.analysis.machine import Record
from accelopt_lsp.nki.issued import add_issued, add_traffic, count_issued, count_traffic
from accelopt_lsp.nki.lowering import Issue, Lowered
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.profile import Issued
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.nki.workload import Traffic

LoopKey = tuple[int, str]
"""A loop by line and variable: its parts, which were visited apart, count as one."""


def loop_key(var: Var) -> LoopKey:
    return var.line, var.name


def issues_of(records: Iterable[Record]) -> list[tuple[Issue, int]]:
    """(instruction, executions) of some records."""
    return [(issue, record.times) for record in records for issue in record.lowered.issues]


@frozen(slots=True, eq=False)
class Part:
    """One call within one nest of loops."""

    line: int
    node: ast.AST
    loops: tuple[LoopKey, ...]
    records: tuple[Record, ...]
    issued: Issued
    traffic: Traffic
    flops: Mapping[str, int]
    engine_bytes: Mapping[str, int]


@define(slots=False, eq=False)
class Site:
    """One call of the text, in all loops and functions that it is reached from."""

    line: int
    node: ast.AST
    parts: list[Part] = field(factory=list)

    @cached_property
    def records(self) -> tuple[Record, ...]:
        return tuple([record for part in self.parts for record in part.records])

    @cached_property
    def issued(self) -> Issued:
        return total_issued(self.parts)

    @cached_property
    def traffic(self) -> Traffic:
        return add_traffic(part.traffic for part in self.parts)

    @cached_property
    def runs(self) -> int:
        """How often it is executed."""
        return sum(record.times for record in self.records)

    @cached_property
    def record(self) -> Record:
        """The record that runs most often."""
        return max(self.records, key=lambda r: r.times)

    def busy_ns(self, engine: str) -> float:
        return self.issued.engine_ns.get(engine, 0.0)

    @cached_property
    def longest(self) -> tuple[str, float]:
        """The engine that it occupies longest, and for how long in ns."""
        return max(self.issued.engine_ns.items(), key=lambda item: item[1], default=("", 0.0))

    def issues(self) -> list[tuple[Issue, int]]:
        return issues_of(self.records)


def parts_of(records: Iterable[Record], target: Target) -> tuple[Part, ...]:
    """All calls by nest, in the order of the text's execution."""
    grouped: dict[tuple[int, tuple[LoopKey, ...]], list[Record]] = defaultdict(list)
    for record in records:
        grouped[id(record.node), tuple([loop_key(v) for v in record.loops])].append(record)
    flows: dict[int, tuple[Mapping[str, int], Mapping[str, int]]] = {}
    return tuple([_part(target, loops, found, flows) for (_, loops), found in grouped.items()])


def _part(
    target: Target,
    loops: tuple[LoopKey, ...],
    records: list[Record],
    flows: dict[int, tuple[Mapping[str, int], Mapping[str, int]]],
) -> Part:
    first = records[0]
    times: dict[int, int] = defaultdict(int)
    templates: dict[int, Lowered] = {}
    for record in records:
        times[id(record.lowered)] += record.times
        templates[id(record.lowered)] = record.lowered
    issues = [(issue, times[key]) for key, lowered in templates.items() for issue in lowered.issues]
    flops: dict[str, int] = {}
    moved: dict[str, int] = {}
    for key, lowered in templates.items():
        if key not in flows:
            flows[key] = _flows(lowered)
        for total, once in zip((flops, moved), flows[key], strict=True):
            for name, count in once.items():
                total[name] = total.get(name, 0) + count * times[key]
    return Part(
        first.line,
        first.node,
        loops,
        tuple(records),
        count_issued(issues, target),
        count_traffic(issues),
        flops,
        moved,
    )


def _flows(lowered: Lowered) -> tuple[dict[str, int], dict[str, int]]:
    """FLOPs by data type, and bytes between engines and memories, of one execution."""
    flops: dict[str, int] = {}
    moved: dict[str, int] = {}
    for issue in lowered.issues:
        work = issue.work
        if work.dma is not None:
            continue
        types = {role: lowered.types[slot] for role, slot in issue.operands}
        if work.flops and not work.is_transpose:
            widest = max(
                (t.dtype for role, t in types.items() if role in ("stationary", "moving")),
                key=lambda d: d.nbytes,
            )
            flops[widest.name] = flops.get(widest.name, 0) + work.flops
        written = set(issue.writes)
        for role, slot in issue.operands:
            given = types[role]
            if given.buffer is Buffer.HBM:
                continue
            ends = (issue.engine, given.buffer) if slot in written else (given.buffer, issue.engine)
            route = f"{ends[0]}->{ends[1]}"
            moved[route] = moved.get(route, 0) + given.nbytes
    return flops, moved


def sites_of(parts: Iterable[Part]) -> tuple[Site, ...]:
    """All calls, in the order of the text's execution."""
    found: dict[int, Site] = {}
    for part in parts:
        site = found.get(id(part.node))
        if site is None:
            site = found[id(part.node)] = Site(part.line, part.node)
        site.parts.append(part)
    return tuple(found.values())


def total_issued(parts: Iterable[Part]) -> Issued:
    return add_issued(part.issued for part in parts)


def sum_counts(tables: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Sums by name."""
    total: dict[str, int] = {}
    for table in tables:
        for name, count in table.items():
            total[name] = total.get(name, 0) + count
    return total
