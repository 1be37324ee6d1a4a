"""neuron-profile's summary counters of a schedule.

Conventions, as seen in the published NKIBench profiles: fp32 products and their transposes
count twice in ``hardware_flops`` (products with one row, which broadcast partitions, once); the
engines' part of the SBUF and PSUM bytes is per partition; transfers count with true bytes. Cycles
are those of the base clock, at which Scalar runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from accelopt_lsp.nki.dtypes import BFLOAT16
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.peak import matmul_peak
from accelopt_lsp.nki.profile import COUNTER_NAMES
from accelopt_lsp.profiler.simulator.timeline.schedule import Schedule
from accelopt_lsp.profiler.simulator.timeline.stream import Op, Queue


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
            traffic[Buffer.SBUF, "write"] += count * _sbuf_written(op)
            traffic[Buffer.SBUF, "read"] += count * _sbuf_read(op)
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
    saved, reloaded = _internal_traffic(schedule)
    found["spill_save_bytes"] = schedule.spill_save_bytes + saved
    found["spill_reload_bytes"] = schedule.spill_reload_bytes + reloaded
    found["hardware_flops"], found["transpose_flops"] = flops, transposes
    moved = hbm_read + hbm_write
    if moved:
        found["mm_arithmetic_intensity"] = (flops - transposes) / moved
    peak = matmul_peak(target, BFLOAT16)
    ridge = peak / (target["hbm_stack_bandwidth"] * 1e9)
    found["peak_flops_bandwidth_ratio"] = ridge
    found.update(_transfers(schedule, totals))
    found.update(_instructions(schedule, totals))
    found.update(_tensor_sizes(schedule))
    if latency_ns:
        found.update(_spans(schedule))
        bandwidth = target["hbm_stack_bandwidth"] * 1e9
        found["mbu_estimated_percent"] = moved / (latency_ns * 1e-9 * bandwidth)
        found["mfu_inst_estimated_percent"] = (flops - transposes) / (peak * latency_ns * 1e-9)
        intensity = found["mm_arithmetic_intensity"]
        if intensity is not None:
            found["mfu_inst_max_achievable_estimated_percent"] = min(1.0, intensity / ridge)
        found["hfu_estimated_percent"] = flops / (peak * latency_ns * 1e-9)
        stores = sum(
            count for code, count in totals.items() if stream.ops[code].queue is Queue.STORE
        )
        for engine in ("tensor", "vector", "scalar", "gpsimd"):
            busy = schedule.engine_busy_ns[engine]
            if engine == "gpsimd":
                busy += stores * target["dma_trigger_ns"]
            found[f"{engine}_engine_active_time_percent"] = min(1.0, busy / latency_ns)
            found[f"{engine}_engine_active_time"] = min(busy, latency_ns) * 1e-9
    return found


def _transfers(schedule: Schedule, totals: Mapping[int, int]) -> dict[str, float | None]:
    """Counters of transfers; an average is unknown where there are none."""
    count = size = 0
    packets = 0.0
    for code, executed in totals.items():
        op = schedule.stream.ops[code]
        if op.work.dma is not None:
            count += executed
            size += executed * max(op.work.dma.read_bytes, op.work.dma.write_bytes)
            packets += executed * op.busy_ns * op.engines * 1e-9
    return {
        "dma_transfer_count": count,
        "dma_transfer_total_bytes": size,
        "dma_transfer_average_bytes": size / count if count else None,
        "dma_packet_time": None if schedule.unknown else packets,
    }


def _instructions(schedule: Schedule, totals: Mapping[int, int]) -> dict[str, float | None]:
    """Executed instructions by engine; semaphore instructions are no part of the stream."""
    engines = dict.fromkeys(("tensor", "vector", "scalar", "gpsimd"), 0)
    activations = evictions = 0
    for code, executed in totals.items():
        op = schedule.stream.ops[code]
        if op.engine_name in engines:
            engines[op.engine_name] += executed
            evictions += executed if op.work.psum_inputs and op.work.dst is Buffer.SBUF else 0
        activations += executed if op.name == "activation" else 0
    found: dict[str, float | None] = {
        f"{engine}_engine_instruction_count": count for engine, count in engines.items()
    }
    found["activate_instruction_count"] = activations
    found["psum_read_sbuf_write_count"] = evictions
    return found


def _tensor_sizes(schedule: Schedule) -> dict[str, float | None]:
    """Bytes of the kernel's tensors in HBM; what it never writes is an input."""
    stream = schedule.stream
    sizes = {
        s.id: s.partitions * s.partition_bytes
        for s in stream.storages
        if s.external and s.buffer is Buffer.HBM
    }
    writes = {code: op.writes for code, op in enumerate(stream.ops) if op.work.dma is not None}
    written: set[int] = set()
    for code, regions in zip(stream.codes, stream.regions, strict=True):
        if code in writes:
            for position in writes[code]:
                written.add(regions[position][0])
    inputs = sum(size for storage, size in sizes.items() if storage not in written)
    return {
        "inputs_and_weights_size_bytes": inputs,
        "inputs_outputs_weights_size_bytes": sum(sizes.values()),
    }


def _spans(schedule: Schedule) -> dict[str, float | None]:
    """Times at which anything, or a transfer, was under way."""
    stream, times, target = schedule.stream, schedule.times, schedule.target
    latency = schedule.latency_ns
    transfers = {code for code, op in enumerate(stream.ops) if op.work.dma is not None}
    moving = [i for i, code in enumerate(stream.codes) if code in transfers]
    active = _union(times.start, times.end, range(len(stream)))
    dma_active = _union(times.start, times.end, moving)
    in_transfer = sum(times.end[i] - times.start[i] for i in moving)
    first = min(times.start, default=latency)
    return {
        "total_time": latency * 1e-9,
        "total_exec_time": (latency - first) * 1e-9,
        "total_active_time": active * 1e-9,
        "total_active_time_percent": active / latency,
        "neuroncore_cycle_count": latency * target["scalar_clock"],
        "dma_active_time": dma_active * 1e-9,
        "dma_active_time_percent": dma_active / latency,
        "dma_transfer_time": in_transfer * 1e-9,
    }


def _union(starts: Sequence[float], ends: Sequence[float], indices: Iterable[int]) -> float:
    """Length of the union of spans."""
    total = reached = 0.0
    for index in sorted(indices, key=starts.__getitem__):
        end = ends[index]
        if end > reached:
            total += end - max(reached, starts[index])
            reached = end
    return total


def _internal_traffic(schedule: Schedule) -> tuple[int, int]:
    """Bytes written to HBM tensors that are neither input nor output, and read back.

    neuron-profile counts them as spills: so does the measured swiglu, which keeps an
    intermediate in HBM.
    """
    stream = schedule.stream
    internal = {s.id for s in stream.storages if s.buffer is Buffer.HBM and not s.external}
    if not internal:
        return 0, 0
    transfers = {
        code: op
        for code, op in enumerate(stream.ops)
        if op.work.dma is not None and op.issue is not None
    }
    written: dict[int, int] = {}
    read: dict[int, int] = {}
    for code, regions in zip(stream.codes, stream.regions, strict=True):
        op = transfers.get(code)
        if op is None or op.work.dma is None:
            continue
        for position in op.writes:
            storage = regions[position][0]
            if storage in internal:
                written[storage] = written.get(storage, 0) + op.work.dma.hbm_write_bytes
        for position in op.reads:
            storage = regions[position][0]
            if storage in internal:
                read[storage] = read.get(storage, 0) + op.work.dma.hbm_read_bytes
    return sum(written.values()), sum(size for s, size in read.items() if s in written)


def _sbuf_written(op: Op) -> float:
    dma = op.work.dma
    return dma.write_bytes if dma is not None and dma.route.value.endswith("sbuf") else 0


def _sbuf_read(op: Op) -> float:
    dma = op.work.dma
    return dma.read_bytes if dma is not None and dma.route.value.startswith("sbuf") else 0


def _engine_traffic(op: Op, count: int, traffic: dict[tuple[Buffer, str], float]) -> None:
    """Bytes per partition that an engine moves.

    As measured: instructions with one tile input only; fp32 products run as two instructions,
    each of which reads both operands and writes the result.
    """
    work = op.work
    if op.queue is Queue.TENSOR:
        repeats = count * (2 if work.passes == 4 and work.partitions > 1 else 1)
        width = 4 if work.passes == 4 else 2
        inputs = work.elements + _stationary_columns(op)
        traffic[Buffer.SBUF, "read"] += repeats * inputs * width
        traffic[Buffer.PSUM, "write"] += repeats * _product_columns(op) * 4
        return
    if work.sbuf_inputs + work.psum_inputs != 1:
        return
    size = count * work.elements * (2 if work.all_16bit else 4)
    traffic[work.dst, "write"] += size
    traffic[Buffer.SBUF if work.sbuf_inputs else Buffer.PSUM, "read"] += size


def _stationary_columns(op: Op) -> int:
    work = op.work
    if op.name == "nc_transpose":
        return work.partitions
    return work.flops // max(1, 2 * work.partitions * work.elements)


def _product_columns(op: Op) -> int:
    """Columns of the result: those of the moving operand, or the data's rows in a transpose."""
    return op.work.partitions if op.name == "nc_transpose" else op.work.elements
