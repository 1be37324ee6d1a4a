"""Tiles that the legacy compiler keeps in PSUM although the kernel asks for SBUF.

A tile of one bank that Scalar writes and one tensor_tensor reads goes to PSUM while banks are
idle: the tensor_tensor then streams one operand from each memory and takes half the time.
Source: the measured adamw, whose PSUM write counter shows such tiles although the kernel never asks
for PSUM, and whose Vector time fits four of them.
"""

from __future__ import annotations

from collections import Counter

from attrs import evolve

from accelopt_lsp.nki.costs import instruction_cost
from accelopt_lsp.nki.operands import Buffer, Engine
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.profiler.simulator.timeline.merging import is_broadcast
from accelopt_lsp.profiler.simulator.timeline.stream import Op, Queue, Stream
from accelopt_lsp.profiler.simulator.trace import Region


def forward_broadcasts(stream: Stream, target: Target) -> Stream:
    """Let a tensor_tensor read a broadcast row from PSUM, without the copy to SBUF.

    Where the copy fits one bank and has this one reader. Source: the published Mamba kernels,
    which take a quarter less with rows of 512 elements (one bank) than with longer ones.
    """
    codes, all_regions, ops = stream.codes, stream.regions, stream.ops
    if not any(is_broadcast(op) for op in ops):
        return stream
    bank = target.integer("psum_bank_bytes")
    writers: dict[int, list[int]] = {}
    readers: dict[int, list[int]] = {}
    for index, (code, regions) in enumerate(zip(codes, all_regions, strict=True)):
        op = ops[code]
        for position in op.reads:
            readers.setdefault(regions[position][0], []).append(index)
        for position in op.writes:
            writers.setdefault(regions[position][0], []).append(index)
    dropped: set[int] = set()
    moved: dict[int, Region] = {}
    for index, (code, regions) in enumerate(zip(codes, all_regions, strict=True)):
        op = ops[code]
        if op.name != "tensor_copy" or op.work.psum_inputs != 1:
            continue
        copied, source = regions[op.writes[0]][0], regions[op.reads[0]]
        made, used = writers.get(source[0], []), readers.get(copied, [])
        if len(made) != 1 or len(readers[source[0]]) != 1 or not is_broadcast(ops[codes[made[0]]]):
            continue
        if len(used) != 1 or len(writers[copied]) != 1:
            continue
        if stream.storages[copied].partition_bytes > bank:
            continue
        reader = ops[codes[used[0]]]
        if reader.name != "tensor_tensor" or reader.work.psum_inputs:
            continue
        if sum(all_regions[used[0]][p][0] in moved for p in reader.reads):
            continue
        moved[copied] = source
        dropped.add(index)
    if not moved:
        return stream
    return _without_copies(stream, dropped, moved, target)


def _without_copies(
    stream: Stream, dropped: set[int], moved: dict[int, Region], target: Target
) -> Stream:
    result = Stream(list(stream.ops), stream.storages)
    variants: dict[int, int] = {}
    for index, (code, regions) in enumerate(zip(stream.codes, stream.regions, strict=True)):
        if index in dropped:
            continue
        if any(r[0] in moved for r in regions):
            if code not in variants:
                variants[code] = len(result.ops)
                result.ops.append(_variant(stream.ops[code], False, 1, target))
            code = variants[code]
            regions = tuple(moved.get(r[0], r) for r in regions)
        result.codes.append(code)
        result.regions.append(regions)
    return result


MOST_SITES = 4
"""Variables kept in PSUM at the same time: two banks each."""


def keep_in_psum(stream: Stream, target: Target) -> int:
    """Move suitable tiles of ``stream`` to PSUM, in place; returns how many variables moved.

    Only where the kernel uses no PSUM itself.
    """
    if any(s.buffer is Buffer.PSUM for s in stream.storages):
        return 0
    sites = _candidates(stream, target.integer("psum_bank_bytes"))
    chosen = set(sites[:MOST_SITES])
    if not chosen:
        return 0
    moved = {s.id for s in stream.storages if s.buffer is Buffer.SBUF and s.site in chosen}
    stream.storages = [
        evolve(s, buffer=Buffer.PSUM) if s.id in moved else s for s in stream.storages
    ]
    stream.ops = list(stream.ops)
    variants: dict[tuple[int, bool, int], int] = {}
    codes = []
    for code, regions in zip(stream.codes, stream.regions, strict=True):
        op = stream.ops[code]
        if op.engines:
            codes.append(code)
            continue
        writes = any(regions[p][0] in moved for p in op.writes)
        reads = sum(regions[p][0] in moved for p in op.reads)
        if writes or reads:
            key = (code, writes, reads)
            if key not in variants:
                variants[key] = len(stream.ops)
                stream.ops.append(_variant(op, writes, reads, target))
            code = variants[key]
        codes.append(code)
    stream.codes = codes
    return len(chosen)


def _variant(op: Op, writes: bool, reads: int, target: Target) -> Op:
    """The same instruction with some operands in PSUM."""
    work = evolve(
        op.work,
        dst=Buffer.PSUM if writes else op.work.dst,
        sbuf_inputs=op.work.sbuf_inputs - reads,
        psum_inputs=op.work.psum_inputs + reads,
    )
    engine = op.issue.engine if op.issue is not None else Engine.VECTOR
    cost = instruction_cost(op.name, engine, work, target)
    if cost is None:
        return evolve(op, work=work)
    return evolve(op, work=work, busy_ns=cost.busy_ns, latency_ns=cost.latency_ns)


def _candidates(stream: Stream, bank_bytes: int) -> list[int]:
    """Sites all of whose tiles are suitable, in program order.

    At most one operand of an instruction can come from PSUM.
    """
    writes: Counter[int] = Counter()
    reads: Counter[int] = Counter()
    unfit: set[int] = set()
    rivals: dict[int, set[int]] = {}
    order: dict[int, None] = {}
    storages = stream.storages
    for code, regions in zip(stream.codes, stream.regions, strict=True):
        op = stream.ops[code]
        scalar = op.queue is Queue.SCALAR
        pairs = op.name == "tensor_tensor" and op.queue is Queue.VECTOR
        for position in op.writes:
            storage = storages[regions[position][0]]
            order.setdefault(storage.site)
            writes[storage.id] += 1
            if not scalar or storage.partition_bytes > bank_bytes:
                unfit.add(storage.site)
        sites = {storages[regions[p][0]].site for p in op.reads}
        for position in op.reads:
            storage = storages[regions[position][0]]
            reads[storage.id] += 1
            if not pairs:
                unfit.add(storage.site)
            else:
                rivals.setdefault(storage.site, set()).update(sites - {storage.site})
    for storage in storages:
        if writes[storage.id] > 1 or reads[storage.id] > 1:
            unfit.add(storage.site)
    chosen: list[int] = []
    for site in order:
        if site not in unfit and rivals.get(site) and not rivals[site] & set(chosen):
            chosen.append(site)
    return chosen
