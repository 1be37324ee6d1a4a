"""Types that a kernel rounds its intermediate results to."""

from __future__ import annotations

from accelopt_lsp.nki.instructions import INSTRUCTIONS
from accelopt_lsp.nki.operands import Buffer, Engine
from accelopt_lsp.profiler.simulator.trace import Region, Template, Trace

MOVERS = frozenset("tensor_copy nc_transpose nc_stream_shuffle local_gather sendrecv".split())
"""They change no value, unless between types."""


def intermediates(trace: Trace) -> dict[str, tuple[str, ...]]:
    """Floating-point types of computed results that engines read again, by reader.

    What was loaded, made of nothing (constants, indices) or only moved is no result. Tiles of one
    allocation site are taken together, and of equal instructions on a line the first one counts.
    """
    made: dict[int, set[str]] = {}
    moved: dict[int, set[str]] = {}
    read: dict[str, set[str]] = {}
    first = _first_of_each(trace)
    for template, regions in first:
        _note_results(trace, template, regions, made, moved)
    for template, regions in first:
        issue = template.issue
        if issue.work.dma is not None:
            continue
        reader = "tensor" if issue.engine is Engine.TENSOR else "others"
        for position, kind in enumerate(template.types):
            if _written(template, position) or not kind.is_float:
                continue
            if kind.name in made.get(trace.storages[regions[position][0]].site, ()):
                read.setdefault(reader, set()).add(kind.name)
    return {reader: tuple(sorted(names)) for reader, names in sorted(read.items())}


def _first_of_each(trace: Trace) -> list[tuple[Template, tuple[Region, ...]]]:
    first: dict[int, tuple[Region, ...]] = {}
    for code, regions in trace.records:
        if code not in first:
            first[code] = regions
    return [(trace.templates[code], regions) for code, regions in first.items()]


def _note_results(
    trace: Trace,
    template: Template,
    regions: tuple[Region, ...],
    made: dict[int, set[str]],
    moved: dict[int, set[str]],
) -> None:
    """Note what an instruction leaves in its allocation sites on chip.

    Args:
        made: types of computed results by site.
        moved: types that what was only moved there had before.
    """
    issue = template.issue
    sources: set[str] = set()
    reads = 0
    for position, kind in enumerate(template.types):
        if _written(template, position):
            continue
        reads += 1
        sources |= {kind.name, *moved.get(trace.storages[regions[position][0]].site, ())}
    if issue.work.dma is not None or not reads:
        return
    spreads = issue.op == "nc_matmul" and issue.work.partitions == 1
    moves = issue.op in MOVERS or issue.work.is_transpose or spreads
    for position, kind in enumerate(template.types):
        storage = trace.storages[regions[position][0]]
        if not _written(template, position) or storage.buffer is Buffer.HBM:
            continue
        if moves:
            moved.setdefault(storage.site, set()).update(sources)
        if kind.is_float and not (moves and kind.name in sources):
            made.setdefault(storage.site, set()).add(kind.name)


def _written(template: Template, position: int) -> bool:
    operand = INSTRUCTIONS[template.issue.op].operand(template.issue.operands[position][0])
    return operand is not None and operand.written
