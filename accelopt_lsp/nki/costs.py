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

from accelopt_lsp.nki.operands import Engine
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.nki.work import DmaWork, Work

MIN_CYCLES = 64
"""No Vector, Scalar or GpSimd instruction takes fewer cycles (MIN_II in the documentation)."""
GPSIMD_START_CYCLES = 150
MIN_DYNAMIC_CYCLES = 600
"""Least cycles of an instruction with a run-time address (nisa.tensor_copy_dynamic_src, 2.26)."""


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


def _one_input(work: Work, engine: Engine, target: Target) -> float:
    """N, and 64 cycles more to read a reduction out (ActReadAccumulator)."""
    cycles = max(MIN_CYCLES, work.elements / _vector_speedup(work, engine, target))
    return cycles + MIN_CYCLES if work.reduces else cycles


def _two_inputs(work: Work, engine: Engine, target: Target) -> float:
    """2N with both inputs in SBUF, N when one is in PSUM or all operands are 16-bit."""
    factor = 1.0 if work.psum_inputs or work.all_16bit else 2.0
    return max(MIN_CYCLES, factor * work.elements)


def _scan(work: Work, engine: Engine, target: Target) -> float:
    return max(MIN_CYCLES, 2.0 * work.elements)


def _reciprocal(work: Work, engine: Engine, target: Target) -> float:
    return max(MIN_CYCLES, target["vector_reciprocal_factor"] * work.elements)


def _stream(work: Work, engine: Engine, target: Target) -> float:
    return max(MIN_CYCLES, work.elements)


def _merge_statistics(work: Work, engine: Engine, target: Target) -> float:
    """13 cycles for each triple of count, mean and variance * count."""
    return max(MIN_CYCLES, 13 * work.elements / 3)


def _vector_speedup(work: Work, engine: Engine, target: Target) -> float:
    """Vector performance modes of NeuronCore-v3 and later (trainium2_arch).

    16-bit operands in SBUF: 4x when contiguous, 2x otherwise; 2x when one is in PSUM.
    """
    if engine is not Engine.VECTOR or target.generation < 3 or not work.all_16bit:
        return 1.0
    in_sbuf = work.psum_inputs == 0 and work.dst.value == "sbuf"
    if in_sbuf:
        return 4.0 if work.contiguous else 2.0
    return 2.0 if work.contiguous else 1.0


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


def _quantize(work: Work, engine: Engine, target: Target) -> float:
    """Four elements a partition and cycle (trainium3_arch)."""
    return max(MIN_CYCLES, work.elements / 4)


FORMULAS: Mapping[str, Formula] = {
    "activation": _one_input,
    "tensor_tensor": _two_inputs,
    "tensor_scalar": _one_input,
    "scalar_tensor_tensor": _two_inputs,
    "tensor_scalar_reduce": _one_input,
    "tensor_tensor_scan": _scan,
    "tensor_reduce": _one_input,
    "tensor_copy": _one_input,
    "reciprocal": _reciprocal,
    "memset": _one_input,
    "bn_stats": _stream,
    "bn_aggr": _merge_statistics,
    "affine_select": _stream,
    "iota": _stream,
    "range_select": _stream,
    "tensor_copy_predicated": _copy_predicated,
    "max8": _stream,
    "nc_find_index8": _stream,
    "nc_match_replace8": _stream,
    "topk": _topk,
    "local_gather": _local_gather,
    "nc_stream_shuffle": _stream,
    "dropout": _stream,
    "quantize_mx": _quantize,
}
TENSOR_ENGINE_INSTRUCTIONS = frozenset({"nc_matmul", "nc_transpose", "nc_matmul_mx"})
DMA_INSTRUCTIONS = frozenset({"dma_copy", "dma_transpose"})


def has_cost(instruction: str) -> bool:
    """Whether some source gives this instruction's cost."""
    return (
        instruction in FORMULAS
        or instruction in TENSOR_ENGINE_INSTRUCTIONS
        or instruction in DMA_INSTRUCTIONS
    )


def tensor_engine_ns(work: Work, target: Target) -> float:
    """Columns x passes at the effective clock; loading the stationary hides behind it."""
    return work.columns * work.passes / target["pe_effective_clock"]


def dma_ns(dma: DmaWork, target: Target) -> float:
    """Time that the transfer's DMA engines need for their share of the descriptors.

    Each descriptor costs a fixed time, longer when it writes to HBM, plus its bytes at the
    engine's rate. The pieces of a transfer that transposes are single elements.
    """
    per_engine = ceil(dma.descriptors / dma.engines)
    fixed = target[
        "dma_descriptor_ns" if dma.descriptor_bytes >= 512 else "dma_small_descriptor_ns"
    ]
    if dma.hbm_write_bytes:
        fixed = target["dma_store_descriptor_ns"]
    return per_engine * (fixed + dma.descriptor_bytes / target["dma_engine_rate"])


def instruction_cost(instruction: str, engine: Engine, work: Work, target: Target) -> Cost | None:
    """Occupancy and latency of one instruction, or None if no source gives its cost."""
    if work.dma is not None and instruction in DMA_INSTRUCTIONS:
        return Cost(dma_ns(work.dma, target), target["dma_completion_ns"])
    if engine is Engine.TENSOR:
        return Cost(tensor_engine_ns(work, target), target["semaphore_ns"])
    formula = FORMULAS.get(instruction)
    if formula is None:
        return None
    cycles = formula(work, engine, target)
    if work.dynamic:
        cycles = max(cycles, MIN_DYNAMIC_CYCLES)
    if engine is Engine.VECTOR:
        busy = cycles / target["vector_clock"] + target["vector_issue_ns"]
        if work.sbuf_inputs > 1 and not work.psum_inputs:
            busy += target["vector_two_input_ns"]
        return Cost(busy, target["vector_latency_ns"])
    if engine is Engine.SCALAR:
        issue = target["scalar_psum_issue_ns" if work.psum_inputs else "scalar_issue_ns"]
        return Cost(cycles / target["scalar_clock"] + issue, target["scalar_latency_ns"])
    cycles += GPSIMD_START_CYCLES
    return Cost(cycles / target["gpsimd_clock"], target["vector_latency_ns"])
