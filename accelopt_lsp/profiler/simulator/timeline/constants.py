"""Constants that the compiler itself puts into HBM and loads once: the identity for transposes.

A transpose on the Tensor Engine multiplies with an identity. Where the kernel gives none
(``nl.matmul`` of an operand that must be transposed, ``nisa.nc_transpose``), the legacy compiler
loads its own. Source: HBM reads of the measured add_rmsnorm_matmul, 64 KiB more than its tensors.
"""

from __future__ import annotations

from attrs import evolve

from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.nki.work import Route
from accelopt_lsp.profiler.simulator.timeline.stream import Op, Queue, Stream, transfer_op
from accelopt_lsp.profiler.simulator.trace import Region, Storage


def with_identities(stream: Stream, target: Target) -> Stream:
    """Load an identity of each element size that implied transposes need, before everything.

    The tiles stay in SBUF to the end. Returns the same stream where none is needed.
    """
    used = {code for code in set(stream.codes) if _needs_identity(stream.ops[code])}
    if not used:
        return stream
    result = Stream(list(stream.ops), list(stream.storages))
    users: dict[int, Region] = {}
    variants: dict[int, int] = {}
    boxes: dict[int, Region] = {}
    for code in sorted(used):
        op = stream.ops[code]
        nbytes = 2 if op.work.all_16bit else 4
        if nbytes not in boxes:
            boxes[nbytes] = _load_identity(result, nbytes, op.line, target)
        variants[code] = len(result.ops)
        result.ops.append(evolve(op, reads=(*op.reads, len(op.reads) + len(op.writes))))
        users[code] = boxes[nbytes]
    for code, regions in zip(stream.codes, stream.regions, strict=True):
        box = users.get(code)
        result.codes.append(code if box is None else variants[code])
        result.regions.append(regions if box is None else (*regions, box))
    return result


def _load_identity(stream: Stream, nbytes: int, line: int, target: Target) -> Region:
    """Append the load of an identity of ``nbytes`` an element; returns its place in SBUF."""
    size = target.integer("partitions")
    tile = Storage(
        id=len(stream.storages),
        name="identity",
        buffer=Buffer.SBUF,
        partition_bytes=size * nbytes,
        partitions=size,
        line=line,
        site=-nbytes,
        born=0,
    )
    home = evolve(tile, id=tile.id + 1, buffer=Buffer.HBM)
    stream.storages += (tile, home)
    stream.codes.append(len(stream.ops))
    stream.ops.append(transfer_op("dma_copy", tile, Route.LOAD, Queue.LOAD, line, target))
    box = 0, size, 0, size * nbytes
    stream.regions.append(((tile.id, *box), (home.id, *box)))
    return (tile.id, *box)


def _needs_identity(op: Op) -> bool:
    return op.name == "nc_transpose" and op.queue is Queue.TENSOR
