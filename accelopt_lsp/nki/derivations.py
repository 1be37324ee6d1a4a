"""How a cost comes about, in words with its numbers: ``512 columns x 4 passes / 2.4 GHz``.

The terms come from :mod:`~accelopt_lsp.nki.costs`, so that the words say what was computed.
"""

from __future__ import annotations

from collections.abc import Iterable

from accelopt_lsp.nki.costs import (
    DMA_INSTRUCTIONS,
    descriptor_cost,
    dma_transpose_ns,
    engine_clock,
    engine_cycles,
    instruction_cost,
    issue_ns,
    tensor_engine_passes,
)
from accelopt_lsp.nki.lowering import Issue
from accelopt_lsp.nki.operands import Engine
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.nki.work import Work

MOST_TERMS = 3
"""Kinds of instruction of one line that a derivation spells out."""


def derivation(instruction: str, engine: Engine, work: Work, target: Target) -> str | None:
    """The occupancy of one instruction as a formula with its numbers; None if it has no cost."""
    if work.dma is not None and instruction in DMA_INSTRUCTIONS:
        return _transfer(instruction, work, target)
    if engine is Engine.TENSOR:
        passes = _counted(tensor_engine_passes(work, target), "pass", "es")
        clock = target["pe_effective_clock"]
        return f"{_counted(work.columns, 'column')} x {passes} / {clock:g} GHz effective"
    cycles = engine_cycles(instruction, engine, work, target)
    if cycles is None:
        return None
    text = f"{_number(cycles)} cycles / {engine_clock(engine, target):g} GHz"
    fixed = issue_ns(engine, work, target)
    if fixed:
        text = f"({text} + {fixed:g} ns to issue)"
    return f"{_counted(work.elements, 'element')} a partition: {text}"


def _transfer(instruction: str, work: Work, target: Target) -> str:
    dma = work.dma
    assert dma is not None
    if dma.transpose and (whole := dma_transpose_ns(work, target)) is not None:
        engines = _counted(dma.engines, "DMA engine")
        size = f"[{work.partitions}, {work.elements}]"
        return f"{_number(whole)} ns to transpose {size} on each of {engines}"
    cost = descriptor_cost(dma, target, computes=instruction == "dma_compute")
    return (
        f"{_counted(cost.per_engine, 'descriptor')} on each of "
        f"{_counted(dma.engines, 'DMA engine')} x "
        f"({cost.fixed_ns:g} ns + {dma.descriptor_bytes:,} B / {cost.rate:g} B/ns)"
    )


def derivations(issues: Iterable[tuple[Issue, int]], target: Target) -> tuple[str, ...]:
    """The costs of (instruction, executions), the most time first, each with how often it runs."""
    runs: dict[tuple[str, Engine, Work], int] = {}
    for issue, count in issues:
        key = (issue.op, issue.engine, issue.work)
        runs[key] = runs.get(key, 0) + count
    costly = []
    for (op, engine, work), count in runs.items():
        cost = instruction_cost(op, engine, work, target)
        if cost is not None:
            costly.append((cost.busy_ns * count, op, engine, work, count))
    costly.sort(key=lambda item: -item[0])
    found = []
    for _, op, engine, work, count in costly[:MOST_TERMS]:
        found.append(f"{derivation(op, engine, work, target)} x {count:,} `{op}`")
    if len(costly) > MOST_TERMS:
        found.append(f"and {len(costly) - MOST_TERMS} more")
    return tuple(found)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def _counted(count: int, noun: str, plural: str = "s") -> str:
    return f"{count:,} {noun}{plural if count != 1 else ''}"
