"""Layer 4 of the instruction table: how long one instruction occupies its engine.

Costs are kept apart from the instructions because calibration changes them. Formulas are in
engine cycles with N = elements per partition; constants come from the target's data file.
A cost that no source gives is None, and whoever adds costs up must say so.

Sources: nki.isa docs of SDK 2.26 for the cycle formulas; ``data/targets.toml`` for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil

from attrs import frozen

from accelopt_lsp.nki.operands import Buffer, Engine
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.nki.work import DmaWork, Route, Work

MIN_CYCLES = 64
"""No Vector, Scalar or GpSimd instruction takes fewer cycles (MIN_II in the documentation)."""
GPSIMD_START_CYCLES = 150
MIN_DYNAMIC_CYCLES = 600
"""Least cycles of an instruction with a run-time address (nisa.tensor_copy_dynamic_src, 2.26)."""
LANES = 128
"""Partitions that Vector, Scalar and GpSimd process side by side."""
TRANSPOSE_BLOCK = 16
"""Elements along the free axis that all DMA engines write together when they transpose."""


@frozen(slots=True)
class Cost:
    """Time of one instruction.

    Attributes:
        busy_ns: how long the engine (for DMA: its engines) is occupied.
        latency_ns: further time until the result can be used.
    """

    busy_ns: float
    latency_ns: float = 0.0


Formula = Callable[[Work, Engine, Target], float]
"""Cycles of the executing engine."""


def _readout(work: Work) -> int:
    """64 cycles more to read a reduction out (ActReadAccumulator, trainium_inferentia2_arch)."""
    return MIN_CYCLES if work.reduces else 0


def _stream(work: Work, engine: Engine, target: Target) -> float:
    """N cycles: one tile streams through (the rule for one input, trainium_inferentia2_arch)."""
    return max(MIN_CYCLES, work.elements) + _readout(work)


def _moved(work: Work, engine: Engine, target: Target) -> float:
    """As :func:`_stream`, in the performance mode of the engine: see :func:`mode_speedup`."""
    return max(MIN_CYCLES, work.elements / mode_speedup(work, engine, target)) + _readout(work)


def _halved(work: Work, engine: Engine, target: Target) -> float:
    """N/2 in the fast form on Vector (nisa.tensor_reduce, nisa.memset, 2.26), N otherwise."""
    fast = work.parameter and engine is Engine.VECTOR
    return max(MIN_CYCLES, work.elements / (2 if fast else 1))


def _two_inputs(work: Work, engine: Engine, target: Target) -> float:
    """2N with both inputs in SBUF; N when one is in PSUM, or in Vector's fast form (2.26).

    From NeuronCore-v3 on the Vector Engine takes half of that when both inputs are in SBUF and
    all operands are 16-bit (trainium2_arch: twice the throughput of NeuronCore-v2). GpSimd reads
    32 bits a partition and cycle (trainium_inferentia2_arch), so 2N for two inputs.
    """
    fast = work.parameter and engine is Engine.VECTOR
    factor = 1.0 if work.psum_inputs or fast else 2.0
    if engine is Engine.VECTOR and work.all_16bit and not work.psum_inputs:
        factor /= target.get("vector_two_input_speedup") or 1.0
    return max(MIN_CYCLES, factor * work.elements)


def _both_inputs(work: Work, engine: Engine, target: Target) -> float:
    """2N cycles: the scan (2.26), and the rule for two inputs (trainium_inferentia2_arch)."""
    return max(MIN_CYCLES, 2.0 * work.elements)


def _reciprocal(work: Work, engine: Engine, target: Target) -> float:
    return max(MIN_CYCLES, target["vector_reciprocal_factor"] * work.elements)


def _merge_statistics(work: Work, engine: Engine, target: Target) -> float:
    """13 cycles for each triple of count, mean and variance * count."""
    return max(MIN_CYCLES, 13 * work.elements / 3)


def _copy_predicated(work: Work, engine: Engine, target: Target) -> float:
    """2N with source and predicate in SBUF, N when one of them is in PSUM, or a number."""
    factor = 2.0 if work.sbuf_inputs > 1 else 1.0
    return max(MIN_CYCLES, factor * work.elements)


def _topk(work: Work, engine: Engine, target: Target) -> float:
    """4n + K for each of the 16 partitions' elements (nisa.topk, NKI 0.6)."""
    return 4.0 * work.elements + work.parameter


def _local_gather(work: Work, engine: Engine, target: Target) -> float:
    """Elements over ((28 + 4e)/4e) / min(4/size, e) with runs of e elements, as printed."""
    run = work.elements / max(work.parameter, 1)
    rate = (28 + 4 * run) / (4 * run) / min(4 / work.element_bytes, run)
    return work.elements / rate


def _four_a_cycle(work: Work, engine: Engine, target: Target) -> float:
    """Four elements a partition and cycle (trainium3_arch).

    Said of the quantization to microscaling formats; of the exponential, as four times the rate
    of the Scalar Engine at the same clock; and of random numbers.
    """
    return max(MIN_CYCLES, work.elements / 4) + _readout(work)


FORMULAS: Mapping[str, Formula] = {
    "activation": _stream,
    "activate2": _stream,
    "tensor_tensor": _two_inputs,
    "tensor_scalar": _moved,
    "scalar_tensor_tensor": _two_inputs,
    "tensor_scalar_reduce": _stream,
    "tensor_scalar_cumulative": _stream,
    "tensor_tensor_scan": _both_inputs,
    "tensor_reduce": _halved,
    "tensor_copy": _moved,
    "reciprocal": _reciprocal,
    "exponential": _four_a_cycle,
    "memset": _halved,
    "bn_stats": _stream,
    "bn_aggr": _merge_statistics,
    "affine_select": _stream,
    "iota": _stream,
    "range_select": _stream,
    "select_reduce": _both_inputs,
    "tensor_copy_predicated": _copy_predicated,
    "max8": _stream,
    "nc_find_index8": _stream,
    "nc_match_replace8": _stream,
    "nc_transpose": _stream,
    "topk": _topk,
    "local_gather": _local_gather,
    "nc_stream_shuffle": _stream,
    "dropout": _stream,
    "rand2": _four_a_cycle,
    "quantize_mx": _four_a_cycle,
}
"""Of the engines that stream elements; ``nc_transpose`` is here for the Vector Engine."""
TENSOR_ENGINE_INSTRUCTIONS = frozenset({"nc_matmul", "nc_transpose", "nc_matmul_mx"})
DMA_INSTRUCTIONS = frozenset({"dma_copy", "dma_transpose", "dma_compute"})


def has_cost(instruction: str) -> bool:
    """Whether some source gives this instruction's cost."""
    return (
        instruction in FORMULAS
        or instruction in TENSOR_ENGINE_INSTRUCTIONS
        or instruction in DMA_INSTRUCTIONS
    )


def mode_speedup(work: Work, engine: Engine, target: Target) -> float:
    """Elements a lane and cycle that a copy, or a computation with numbers, streams.

    Vector, from NeuronCore-v3 on (trainium2_arch): 16-bit tiles run 4 times as fast when both are
    in SBUF and contiguous, twice as fast when not contiguous or with one in PSUM. The data path
    takes 256 elements a cycle of other types, two a lane: the same page's table, and the profile
    of step 5 in kernel-optimization, where copies of 512 fp32 columns follow each other at 343 ns.
    Scalar, from NeuronCore-v4 on (trainium3_arch): up to twice as fast on 16-bit tiles.
    """
    if engine is Engine.SCALAR:
        width = target.get("scalar_width_16bit") if work.all_16bit else None
        return 1.0 if width is None else width / LANES
    if engine is not Engine.VECTOR:
        return 1.0
    in_sbuf = work.psum_inputs == 0 and work.dst is Buffer.SBUF
    if not work.all_16bit:
        width = target.get("vector_width") if in_sbuf and work.element_bytes else None
        return width / LANES if width is not None and work.contiguous else 1.0
    width = target.get("vector_width_16bit")
    if width is None:
        return 1.0
    if in_sbuf and work.contiguous:
        return width / LANES
    return width / LANES / 2 if in_sbuf or work.contiguous else 1.0


def performance_mode(instruction: str, work: Work, target: Target) -> float | None:
    """Speed of the mode that the Vector Engine runs an instruction in; None if it has no modes."""
    if target.get("vector_width_16bit") is None or FORMULAS.get(instruction) is not _moved:
        return None
    return mode_speedup(work, Engine.VECTOR, target)


def uses_performance_mode(instruction: str, work: Work, target: Target) -> bool:
    """Whether the Vector Engine runs an instruction faster than NeuronCore-v2 would."""
    formula = FORMULAS.get(instruction)
    if formula is _moved:
        return mode_speedup(work, Engine.VECTOR, target) > 1
    fast = target.get("vector_two_input_speedup") is not None and work.all_16bit
    return formula is _two_inputs and fast and not work.psum_inputs


def tensor_engine_ns(work: Work, target: Target) -> float:
    """Columns x passes at the effective clock; loading the stationary hides behind it.

    From NeuronCore-v3 on, an fp32 transpose takes half the passes (trainium2_arch, transpose
    mode).
    """
    return work.columns * tensor_engine_passes(work, target) / target["pe_effective_clock"]


def tensor_engine_passes(work: Work, target: Target) -> int:
    """Passes over the columns: those of the type, fewer for wide transposes."""
    if work.is_transpose and work.passes > 1:
        return target.integer("pe_transpose_passes")
    return work.passes


def stationary_load_ns(work: Work, target: Target) -> float:
    """Time to load the stationary operand, where no earlier product hides it.

    A quarter of a cycle a column and pass (Fast LoadStationary, trainium_inferentia2_arch).
    """
    cycles = work.stationary_columns * work.passes * target["pe_load_factor"]
    return cycles / target["pe_effective_clock"]


@frozen(slots=True)
class DescriptorCost:
    """What the descriptors of a transfer cost.

    Attributes:
        per_engine: descriptors that the busiest of its DMA engines has.
        fixed_ns: time of a descriptor whatever its size.
        rate: bytes a ns that follow.
    """

    per_engine: int
    fixed_ns: float
    rate: float


def descriptor_cost(dma: DmaWork, target: Target, *, computes: bool = False) -> DescriptorCost:
    """Each descriptor costs a fixed time, longer when it writes to HBM, plus its bytes at the
    engine's rate. Engines that compute on the way move half as fast (trainium3_arch).
    """
    fixed = target[
        "dma_descriptor_ns" if dma.descriptor_bytes >= 512 else "dma_small_descriptor_ns"
    ]
    if dma.hbm_write_bytes:
        fixed = target["dma_store_descriptor_ns"]
    rate = target["dma_engine_rate"]
    if computes:
        rate *= target["dma_compute_share"]
    return DescriptorCost(ceil(dma.descriptors / dma.engines), fixed, rate)


def dma_ns(dma: DmaWork, target: Target, *, computes: bool = False) -> float:
    """Time that the transfer's DMA engines need for their share of the descriptors.

    The pieces of a transfer that transposes are single elements.
    """
    cost = descriptor_cost(dma, target, computes=computes)
    return cost.per_engine * (cost.fixed_ns + dma.descriptor_bytes / cost.rate)


def descriptor_generation_ns(mode: str | None, target: Target) -> float:
    """Time that a transfer's queue is occupied while descriptors are made; 0 if they lie in HBM.

    In the current dialect the compiler has them made unless the call says ``dge_mode=none``: in
    AWS's own profiles of such kernels all packets are dynamic (kernel-optimization). The time
    from trigger to use that is documented includes making them. Legacy kernels have descriptors
    in HBM.
    """
    return 0.0 if mode == "none" else target.get("dma_generation_ns") or 0.0


def dma_transpose_ns(work: Work, target: Target) -> float | None:
    """Time of a transfer that the DMA engines transpose in hardware, or None if they cannot.

    From NeuronCore-v3 on, all engines write blocks of 128 partitions by 16 elements together, at
    up to 90 % of a copy's rate from HBM and 50 % within SBUF (trainium2_arch). A block that is
    not full takes the time of a full one.
    """
    dma = work.dma
    if dma is None:
        return None
    share = target.get(f"dma_transpose_{'load' if dma.route is Route.LOAD else 'sbuf'}_share")
    size = dma.descriptor_bytes
    if share is None or dma.route not in (Route.LOAD, Route.SBUF_COPY) or size not in (2, 4):
        return None
    rows = ceil(work.partitions / LANES) * LANES
    padded = ceil(work.elements / TRANSPOSE_BLOCK) * TRANSPOSE_BLOCK
    return rows * padded * size / (share * target["dma_engine_rate"] * target["dma_engines"])


def instruction_cost(instruction: str, engine: Engine, work: Work, target: Target) -> Cost | None:
    """Occupancy and latency of one instruction, or None if no source gives its cost."""
    if work.dma is not None and instruction in DMA_INSTRUCTIONS:
        busy = dma_transpose_ns(work, target) if work.dma.transpose else None
        if busy is None:
            busy = dma_ns(work.dma, target, computes=instruction == "dma_compute")
        return Cost(busy, target["dma_completion_ns"])
    if engine is Engine.TENSOR:
        return Cost(tensor_engine_ns(work, target), target["pe_latency_ns"])
    cycles = engine_cycles(instruction, engine, work, target)
    if cycles is None:
        return None
    busy = cycles / engine_clock(engine, target) + issue_ns(engine, work, target)
    latency = "scalar_latency_ns" if engine is Engine.SCALAR else "vector_latency_ns"
    return Cost(busy, target[latency])


def _clocked(engine: Engine) -> Engine:
    """The engine whose clock counts: all but Vector and Scalar go by GpSimd's."""
    return engine if engine in (Engine.VECTOR, Engine.SCALAR) else Engine.GPSIMD


def engine_cycles(instruction: str, engine: Engine, work: Work, target: Target) -> float | None:
    """Cycles of Vector, Scalar or GpSimd; None if no source gives the instruction's cost."""
    formula = FORMULAS.get(instruction)
    if formula is None:
        return None
    cycles = formula(work, engine, target)
    if work.dynamic:
        cycles = max(cycles, MIN_DYNAMIC_CYCLES)
    return cycles if _clocked(engine) is not Engine.GPSIMD else cycles + GPSIMD_START_CYCLES


def engine_clock(engine: Engine, target: Target) -> float:
    """GHz of Vector, Scalar or GpSimd."""
    return target[f"{_clocked(engine)}_clock"]


def issue_ns(engine: Engine, work: Work, target: Target) -> float:
    """Time that an instruction takes whatever its size, on Vector and Scalar."""
    if engine is Engine.VECTOR:
        two = work.sbuf_inputs > 1 and not work.psum_inputs
        return target["vector_issue_ns"] + (target["vector_two_input_ns"] if two else 0.0)
    if engine is Engine.SCALAR:
        return target["scalar_psum_issue_ns" if work.psum_inputs else "scalar_issue_ns"]
    return 0.0
