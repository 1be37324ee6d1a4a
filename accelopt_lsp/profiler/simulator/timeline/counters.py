"""neuron-profile's summary counters of a schedule.

Conventions, as seen in the published NKIBench profiles: fp32 products and their transposes
count twice in ``hardware_flops`` (products with one row, which broadcast partitions, once); the
engines' SBUF and PSUM bytes are per partition; HBM bytes are true bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from accelopt_lsp.nki.dtypes import BFLOAT16
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.peak import matmul_peak
from accelopt_lsp.nki.profile import COUNTER_NAMES
from accelopt_lsp.profiler.simulator.timeline.schedule import Schedule
from accelopt_lsp.profiler.simulator.timeline.stream import Op, Queue

PARTITIONS = 128


def hardware_flops(op: Op) -> int:
    """FLOPs that neuron-profile counts for one execution."""
    twice = op.work.passes == 4 and op.work.partitions > 1
    return op.work.flops * (2 if twice else 1)


def counters(schedule: Schedule, latency_ns: float | None) -> Mapping[str, float | None]:
    """Counters by their summary names; None where they cannot be known.

    ``latency_ns``: None over unknown instructions; everything that divides by it is None then.
    """
    stream, target = schedule.stream, schedule.target
    totals = Counter(stream.codes)
    found: dict[str, float | None] = dict.fromkeys(COUNTER_NAMES)
    hbm_read = hbm_write = flops = transposes = 0
    traffic = {(b, d): 0.0 for b in (Buffer.SBUF, Buffer.PSUM) for d in ("read", "write")}
    for code, count in totals.items():
        op = stream.ops[code]
        work = op.work
        if work.dma is not None:
            hbm_read += count * work.dma.hbm_read_bytes
            hbm_write += count * work.dma.hbm_write_bytes
            traffic[Buffer.SBUF, "write"] += count * _sbuf_written(op) / PARTITIONS
            traffic[Buffer.SBUF, "read"] += count * _sbuf_read(op) / PARTITIONS
            continue
        if op.queue is Queue.TENSOR:
            size = count * hardware_flops(op)
            flops += size
            if work.is_transpose:
                transposes += size
        _engine_traffic(op, count, traffic)
    found["hbm_read_bytes"], found["hbm_write_bytes"] = hbm_read, hbm_write
    for (buffer, direction), amount in traffic.items():
        found[f"{buffer.value}_{direction}_bytes"] = round(amount)
    found["spill_save_bytes"] = schedule.spill_save_bytes
    found["spill_reload_bytes"] = schedule.spill_reload_bytes
    found["hardware_flops"], found["transpose_flops"] = flops, transposes
    moved = hbm_read + hbm_write
    if moved:
        found["mm_arithmetic_intensity"] = (flops - transposes) / moved
    peak = matmul_peak(target, BFLOAT16)
    found["peak_flops_bandwidth_ratio"] = peak / (target["hbm_bandwidth"] * 1e9)
    if latency_ns:
        found["hfu_estimated_percent"] = flops / (peak * latency_ns * 1e-9)
        stores = sum(
            count for code, count in totals.items() if stream.ops[code].queue is Queue.STORE
        )
        for engine in ("tensor", "vector", "scalar", "gpsimd"):
            busy = schedule.engine_busy_ns[engine]
            if engine == "gpsimd":
                busy += stores * target["dma_trigger_ns"]
            found[f"{engine}_engine_active_time_percent"] = min(1.0, busy / latency_ns)
    return found


def _sbuf_written(op: Op) -> float:
    dma = op.work.dma
    return dma.write_bytes if dma is not None and dma.route.value.endswith("sbuf") else 0


def _sbuf_read(op: Op) -> float:
    dma = op.work.dma
    return dma.read_bytes if dma is not None and dma.route.value.startswith("sbuf") else 0


def _engine_traffic(op: Op, count: int, traffic: dict[tuple[Buffer, str], float]) -> None:
    """Bytes per partition that an engine moves; element sizes are taken as four bytes in PSUM."""
    issue = op.issue
    if issue is None:
        return
    width = 2 if op.work.all_16bit else 4
    elements = op.work.elements
    if op.work.dst.on_chip:
        traffic[op.work.dst, "write"] += count * elements * width
    traffic[Buffer.SBUF, "read"] += count * op.work.sbuf_inputs * elements * width
    traffic[Buffer.PSUM, "read"] += count * op.work.psum_inputs * elements * width
