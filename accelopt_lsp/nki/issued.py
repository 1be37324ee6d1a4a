"""From issued instructions and how often they run to :class:`Issued`.

Static analysis and simulator both count through this function, so that equal instruction
streams give equal counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from accelopt_lsp.nki.costs import instruction_cost
from accelopt_lsp.nki.lowering import Issue
from accelopt_lsp.nki.operands import Engine
from accelopt_lsp.nki.profile import Issued
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.nki.workload import Traffic


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


def add_issued(parts: Iterable[Issued]) -> Issued:
    """Totals over parts that were counted apart."""
    instructions: dict[str, int] = {}
    elements: dict[str, int] = {}
    engine_ns: dict[str, float] = {}
    read = written = descriptors = products = transposes = 0
    for part in parts:
        _add(instructions, part.instructions)
        _add(elements, part.elements)
        for engine, ns in part.engine_ns.items():
            engine_ns[engine] = engine_ns.get(engine, 0.0) + ns
        read += part.hbm_read_bytes
        written += part.hbm_write_bytes
        descriptors += part.dma_descriptors
        products += part.matmul_flops
        transposes += part.transpose_flops
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


def _add(total: dict[str, int], part: Mapping[str, int]) -> None:
    for name, count in part.items():
        total[name] = total.get(name, 0) + count


def count_traffic(issues: Iterable[tuple[Issue, int]]) -> Traffic:
    """Bytes by route and descriptors by size over (instruction, number of executions)."""
    routes: dict[str, int] = {}
    descriptors: dict[int, int] = {}
    for issue, count in issues:
        dma = issue.work.dma
        if dma is None:
            continue
        route = dma.route.value
        routes[route] = routes.get(route, 0) + count * max(dma.read_bytes, dma.write_bytes)
        size = dma.descriptor_bytes
        descriptors[size] = descriptors.get(size, 0) + count * dma.descriptors
    return Traffic(routes, dict(sorted(descriptors.items())))


def add_traffic(parts: Iterable[Traffic]) -> Traffic:
    """Totals over parts that were counted apart."""
    routes: dict[str, int] = {}
    descriptors: dict[int, int] = {}
    for part in parts:
        _add(routes, part.routes)
        for size, count in part.descriptors.items():
            descriptors[size] = descriptors.get(size, 0) + count
    return Traffic(routes, dict(sorted(descriptors.items())))
