"""From issued instructions and how often they run to :class:`Issued`.

Static analysis and simulator both count through this function, so that equal instruction
streams give equal counts.
"""

from __future__ import annotations

from collections.abc import Iterable

from accelopt_lsp.nki.costs import instruction_cost
from accelopt_lsp.nki.lowering import Issue
from accelopt_lsp.nki.operands import Engine
from accelopt_lsp.nki.profile import Issued
from accelopt_lsp.nki.targets import Target


def count_issued(issues: Iterable[tuple[Issue, int]], target: Target) -> Issued:
    """Totals over (instruction, number of executions).

    Instructions without a known cost count everywhere but in ``engine_ns``.
    """
    instructions: dict[str, int] = {}
    elements: dict[str, int] = {}
    engine_ns: dict[str, float] = {}
    read = written = descriptors = products = transposes = 0
    for issue, count in issues:
        work = issue.work
        instructions[issue.op] = instructions.get(issue.op, 0) + count
        elements[issue.op] = elements.get(issue.op, 0) + count * work.partitions * work.elements
        cost = instruction_cost(issue.op, issue.engine, work, target)
        engine, share = str(issue.engine), 1.0
        if work.dma is not None:
            engine, share = Engine.DMA.value, work.dma.engines / target["dma_engines"]
            read += count * work.dma.hbm_read_bytes
            written += count * work.dma.hbm_write_bytes
            descriptors += count * work.dma.descriptors
        elif work.is_transpose:
            transposes += count * work.flops
        else:
            products += count * work.flops
        if cost is not None:
            engine_ns[engine] = engine_ns.get(engine, 0.0) + count * cost.busy_ns * share
    return Issued(
        instructions=instructions,
        elements=elements,
        hbm_read_bytes=read,
        hbm_write_bytes=written,
        dma_descriptors=descriptors,
        matmul_flops=products,
        transpose_flops=transposes,
        engine_ns=engine_ns,
    )
