"""What a kernel cannot avoid: each input and output byte once, and its true products."""

from __future__ import annotations

from collections import Counter

from accelopt_lsp.nki.dtypes import BFLOAT16, DType
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.peak import Yardstick, matmul_peak, product_peak
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.nki.work import DmaWork
from accelopt_lsp.profiler.simulator.trace import Region, Trace

COMPULSORY = "compulsory"
"""Name of this basis in :class:`~accelopt_lsp.nki.profile.Profile`."""


def compulsory(trace: Trace, target: Target) -> tuple[Yardstick, DType]:
    """Yardstick of a trace, and the type whose products its FLOPs are counted as.

    An external tensor counts with the bytes that the kernel touches, at most its size.
    """
    flops = 0.0
    peak = matmul_peak(target, BFLOAT16)
    counts = Counter(code for code, _ in trace.records)
    for code, count in counts.items():
        work = trace.templates[code].issue.work
        if work.flops and not work.is_transpose:
            flops += count * work.flops * (peak / product_peak(target, work))
    read, written = _touched(trace)
    return Yardstick(vector_flops=0.0, matmul_flops=flops, hbm_bytes=read + written), BFLOAT16


def _touched(trace: Trace) -> tuple[int, int]:
    """External bytes read and written, each once."""
    sizes = {
        s.id: s.partitions * s.partition_bytes
        for s in trace.storages
        if s.external and s.buffer is Buffer.HBM
    }
    seen: set[tuple[int, Region]] = set()
    moved: dict[tuple[int, bool], int] = {}
    roles: list[tuple[DmaWork, int, int] | None] = []
    for template in trace.templates:
        dma = template.issue.work.dma
        names = [role for role, _ in template.issue.operands]
        roles.append(
            (dma, names.index("src"), names.index("dst"))
            if dma is not None and "src" in names and "dst" in names
            else None
        )
    for code, regions in trace.records:
        role = roles[code]
        if role is None:
            continue
        dma, source, destination = role
        for position, size, write in (
            (source, dma.hbm_read_bytes, False),
            (destination, dma.hbm_write_bytes, True),
        ):
            region = regions[position]
            if size and region[0] in sizes and (write, region) not in seen:
                seen.add((write, region))
                key = (region[0], write)
                moved[key] = moved.get(key, 0) + size
    read = sum(min(size, sizes[s]) for (s, write), size in moved.items() if not write)
    written = sum(min(size, sizes[s]) for (s, write), size in moved.items() if write)
    return read, written
