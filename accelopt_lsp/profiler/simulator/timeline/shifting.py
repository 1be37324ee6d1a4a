"""Results on other partitions than their operands.

An instruction with two tile inputs in SBUF reads and writes the same partitions. Where a kernel
asks for the result elsewhere, the legacy compiler computes into a tile of its own and lets Scalar
copy it. Source: the measured rope kernel, whose Scalar time and SBUF counters hold 512 copies that
no line asks for.
"""

from __future__ import annotations

from attrs import evolve

from accelopt_lsp.nki.costs import instruction_cost
from accelopt_lsp.nki.operands import Buffer, Engine
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.profiler.simulator.timeline.stream import Op, Queue, Stream
from accelopt_lsp.profiler.simulator.trace import Region

_SITE = -(1 << 20)
"""Allocation sites of the compiler's own tiles count down from here by the site they stand for."""


def with_shifts(stream: Stream, target: Target) -> Stream:
    """Put a tile and a copy behind every ``tensor_tensor`` that moves to other partitions.

    Returns the same stream where there is none.
    """
    pairs = {code for code, op in enumerate(stream.ops) if _reads_two(op)}
    if not pairs or pairs.isdisjoint(stream.codes):
        return stream
    result = Stream(list(stream.ops), list(stream.storages))
    copies: dict[int, int] = {}
    moved = False
    for code, regions in zip(stream.codes, stream.regions, strict=True):
        if code in pairs and _shifts(stream, stream.ops[code], regions):
            moved = True
            op = stream.ops[code]
            at = op.writes[0]
            wanted, start = regions[at], regions[op.reads[0]][1]
            tile = stream.storages[wanted[0]]
            rows, size = wanted[2] - wanted[1], wanted[4] - wanted[3]
            own = evolve(
                tile,
                id=len(result.storages),
                partitions=rows,
                partition_bytes=size,
                site=_SITE - tile.site,
                external=False,
                pinned=None,
            )
            result.storages.append(own)
            box = own.id, start, start + rows, 0, size
            result.codes.append(code)
            result.regions.append((*regions[:at], box, *regions[at + 1 :]))
            if code not in copies:
                copies[code] = len(result.ops)
                result.ops.append(_copy(op, target))
            result.codes.append(copies[code])
            result.regions.append((wanted, box))
            continue
        result.codes.append(code)
        result.regions.append(regions)
    return result if moved else stream


def _reads_two(op: Op) -> bool:
    return op.name == "tensor_tensor" and op.work.sbuf_inputs == 2 and len(op.writes) == 1


def _shifts(stream: Stream, op: Op, regions: tuple[Region, ...]) -> bool:
    wanted = regions[op.writes[0]]
    if stream.storages[wanted[0]].buffer is not Buffer.SBUF:
        return False
    return all(wanted[1] != regions[position][1] for position in op.reads)


def _copy(op: Op, target: Target) -> Op:
    """The copy of an instruction's result on Scalar."""
    work = evolve(op.work, sbuf_inputs=1, psum_inputs=0, dst=Buffer.SBUF)
    cost = instruction_cost("tensor_copy", Engine.SCALAR, work, target)
    return Op(
        name="tensor_copy",
        queue=Queue.SCALAR,
        busy_ns=cost.busy_ns if cost else 0.0,
        latency_ns=cost.latency_ns if cost else 0.0,
        engines=0,
        reads=(1,),
        writes=(0,),
        accumulates=False,
        line=op.line,
        work=work,
        unknown=cost is None,
    )
