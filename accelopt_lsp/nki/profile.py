"""The ``Profile`` that static analysis, simulator and hardware all yield.

Times in milliseconds, sizes in bytes, ``percent_of_peak`` in percent, other shares as
fractions, as in neuron-profile. What is not known is None, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import attrs
from attrs import field, frozen

SCHEMA_VERSION = 1


class Provenance(StrEnum):
    """Where figures come from."""

    ESTIMATED = "estimated"
    SIMULATED = "simulated"
    MEASURED = "measured"


class Bound(StrEnum):
    """What limits a kernel."""

    TENSOR = "tensor"
    VECTOR = "vector"
    SCALAR = "scalar"
    GPSIMD = "gpsimd"
    DMA = "dma"
    LATENCY = "latency"


class Resource(StrEnum):
    """What can hold a kernel up at one moment of its critical path.

    ``dma_bandwidth``: a transfer's bytes and descriptors are moving. ``dma_latency``: a transfer
    was triggered and has not begun, or has ended and is not yet known to have. ``engine_latency``:
    a compute engine is free again, its result not yet visible. ``sync``: a semaphore travels from
    one queue to another. ``room``: a place in SBUF or PSUM is still in use. ``launch``: before the
    first instruction.
    """

    TENSOR = "tensor"
    VECTOR = "vector"
    SCALAR = "scalar"
    GPSIMD = "gpsimd"
    DMA_BANDWIDTH = "dma_bandwidth"
    DMA_LATENCY = "dma_latency"
    ENGINE_LATENCY = "engine_latency"
    SYNC = "sync"
    ROOM = "room"
    LAUNCH = "launch"


class Wait(StrEnum):
    """Why an engine stood still.

    ``data``: its next instruction needed another's result. ``room``: the place that it writes was
    still in use. ``order``: it may not issue so far ahead of earlier instructions, or its queue
    was not yet empty. ``launch``: nothing had begun. ``end``: it had nothing left to do.
    """

    DATA = "data"
    ROOM = "room"
    ORDER = "order"
    LAUNCH = "launch"
    END = "end"


@frozen(slots=True)
class IdleGap:
    """Idle time of one engine with one cause.

    Attributes:
        engine: which stood still (``dma``: no transfer was under way).
        wait: what kind of wait.
        on: engine of the instruction that it waited for; None if there is none.
        line: source line of that instruction; None if there is none.
        total_ms: sum over all such gaps.
        count: number of gaps.
        largest_ms: longest of them.
    """

    engine: str
    wait: Wait
    on: str | None
    line: int | None
    total_ms: float
    count: int
    largest_ms: float

    def reason(self) -> str:
        """Why the engine stood still, in words."""
        place = "" if self.line is None else f" of line {self.line}"
        if self.wait is Wait.DATA:
            return f"waited for data from {self.on}{place}"
        if self.wait is Wait.ROOM:
            return f"waited until {self.on}{place} freed a buffer"
        if self.wait is Wait.ORDER:
            return f"could not pass {self.on}{place}" if self.on else "waited for its queue"
        return "nothing had begun yet" if self.wait is Wait.LAUNCH else "had nothing left to do"


@frozen(slots=True)
class EngineUse:
    """What an engine achieved against what it could.

    Attributes:
        engine: name; ``dma`` for all DMA engines.
        unit: of ``achieved`` and ``attainable``: ``FLOP/s``, ``elements/cycle`` or ``B/s``.
        busy: share of the latency in which it was occupied.
        achieved: rate while it was busy; times ``busy`` it is the rate over the latency.
        attainable: highest rate with the data types in use; None if no source gives it.
        instructions: number of executed instructions or transfers.
        mean_bytes: average size of a descriptor (``dma`` only).
    """

    engine: str
    unit: str
    busy: float
    achieved: float
    attainable: float | None
    instructions: int
    mean_bytes: float | None = None


@frozen(slots=True)
class WhatIf:
    """Latency of the same instructions with one thing changed.

    Attributes:
        change: ``dma_free``, ``tensor_only``, ``vector_scalar_free``, ``load_hoisted``,
            ``no_spills``, ``unlimited_buffers`` or ``launch_free``.
        line: source line of the load that is hoisted.
        latency_ms: predicted latency.
        speedup: bound on what removing this one thing can gain.
    """

    change: str
    line: int | None
    latency_ms: float
    speedup: float

    def condition(self) -> str:
        """What was changed, in words that go on after "what if"."""
        words = _CHANGES.get(self.change, self.change)
        return f"on line {self.line} {words}" if self.line is not None else words


_CHANGES = {
    "dma_free": "DMA took no time",
    "tensor_only": "Tensor ran at its peak and waited for nothing",
    "vector_scalar_free": "Vector and Scalar took no time",
    "load_hoisted": "nothing were loaded again",
    "no_spills": "spills and re-loads took no time",
    "unlimited_buffers": "there were room for any number of buffers",
    "launch_free": "launching took no time",
}


@frozen(slots=True)
class Uncertainty:
    """An interval that holds the hardware's latency with probability ``level``.

    ``extrapolated``: the kernel is unlike those that the interval was calibrated on.
    """

    low_ms: float
    high_ms: float
    level: float = 0.8
    extrapolated: bool = False


@frozen(slots=True)
class Issued:
    """Counts after dialect lowering and before anything the compiler does.

    Attributes:
        instructions: number of issued instructions by id.
        elements: elements (partitions x free) that engines process, by instruction id.
        hbm_read_bytes, hbm_write_bytes: payload of all loads and stores.
        dma_descriptors: contiguous pieces of all transfers.
        matmul_flops: 2 x multiply-accumulates of true products.
        transpose_flops: of products that only move data.
        engine_ns: engine time by engine, from the cost table; dma is the time of the transfers
            if all engines were always busy.
    """

    instructions: Mapping[str, int] = field(factory=dict)
    elements: Mapping[str, int] = field(factory=dict)
    hbm_read_bytes: int = 0
    hbm_write_bytes: int = 0
    dma_descriptors: int = 0
    matmul_flops: int = 0
    transpose_flops: int = 0
    engine_ns: Mapping[str, float] = field(factory=dict)

    @property
    def total_instructions(self) -> int:
        return sum(self.instructions.values())


COUNTER_NAMES = (
    "hbm_read_bytes",
    "hbm_write_bytes",
    "sbuf_read_bytes",
    "sbuf_write_bytes",
    "psum_read_bytes",
    "psum_write_bytes",
    "spill_save_bytes",
    "spill_reload_bytes",
    "hardware_flops",
    "transpose_flops",
    "mm_arithmetic_intensity",
    "peak_flops_bandwidth_ratio",
    "hfu_estimated_percent",
    "tensor_engine_active_time_percent",
    "vector_engine_active_time_percent",
    "scalar_engine_active_time_percent",
    "gpsimd_engine_active_time_percent",
    "total_time",
    "total_exec_time",
    "total_active_time",
    "total_active_time_percent",
    "neuroncore_cycle_count",
    "mfu_inst_estimated_percent",
    "mfu_inst_max_achievable_estimated_percent",
    "mbu_estimated_percent",
    "inputs_and_weights_size_bytes",
    "inputs_outputs_weights_size_bytes",
    "dma_active_time",
    "dma_active_time_percent",
    "dma_packet_time",
    "dma_transfer_time",
    "dma_transfer_count",
    "dma_transfer_total_bytes",
    "dma_transfer_average_bytes",
    "tensor_engine_active_time",
    "vector_engine_active_time",
    "scalar_engine_active_time",
    "gpsimd_engine_active_time",
    "tensor_engine_instruction_count",
    "vector_engine_instruction_count",
    "scalar_engine_instruction_count",
    "gpsimd_engine_instruction_count",
    "activate_instruction_count",
    "psum_read_sbuf_write_count",
)
"""neuron-profile's summary names: those of the command line's contract first, in its order, then
further ones that can be known without hardware. Times in seconds, shares as fractions."""


@frozen(slots=True)
class LineProfile:
    """What one source line costs.

    Attributes:
        line: from 1.
        engine: engine that its instructions run on (``dma`` for transfers).
        instructions: how many it issued.
        busy_ms: time its instructions occupied the engine; None if one has an unknown cost.
        bytes: HBM traffic in bytes.
        critical_ms: its share of the critical path; None if some instruction of the kernel has
            an unknown cost, or where there is no critical path.
    """

    line: int
    engine: str
    instructions: int
    busy_ms: float | None
    bytes: int = 0
    critical_ms: float | None = None


@frozen(slots=True)
class LineIssued:
    """What one source line issues over the whole kernel, before anything the compiler does.

    Attributes:
        line: from 1.
        issued: totals.
        routes: payload of its transfers in bytes by route, such as ``hbm->sbuf``.
        descriptor_bytes: size of its smallest DMA descriptor; None if it moves nothing.
    """

    line: int
    issued: Issued
    routes: Mapping[str, int] = field(factory=dict)
    descriptor_bytes: int | None = None


@frozen(slots=True)
class Profile:
    """Performance of one kernel with one set of arguments on one target.

    Attributes:
        kernel: qualified name of the function.
        target: target name.
        backend: ``simulator``, ``static`` or a host's name.
        provenance: whether the figures are estimated, simulated or measured.
        latency_ms: device time of one run; None over an unknown instruction.
        uncertainty: interval around it.
        bound: what limits it.
        percent_of_peak: attainable time by the yardstick over latency, in percent.
        percent_of_peak_basis: ``nkibench`` (its formula) or ``compulsory`` (each tensor once).
        correct: outputs equal the reference's; None if not checked.
        max_relative_error: largest relative L2 error over outputs and seeds.
        reference: what outputs were compared with (``file``, ``baseline``), or None.
        unknown_instructions: instructions whose cost no source gives.
        issued: counts before the compiler.
        counters: neuron-profile's summary names (see :data:`COUNTER_NAMES`).
        engine_busy_ms: occupied time by engine, ``dma`` included.
        lines: cost by source line, most expensive first.
        bounded_shares: share of the latency that each :class:`Resource` bounded; they add up to
            1. None where it is not known.
        idle: idle time of every engine by cause, largest first; None where it is not known.
        engines: achieved against attainable rate by engine; None where it is not known.
        what_ifs: latencies with one thing changed; None if they were not asked for.
        stream: hash of the issued instructions, their operands' places and order; None where
            they are not known. Kernels that differ only in how they are written share it.
        issued_lines: counts before the compiler by source line; None where nobody counted them.
        outputs: data type and shape of each output, such as ``bf16[128,512]``; None where nobody
            looked.
        launch: how many programs ran on how many cores; None where nobody looked.
        intermediates: floating-point types of results that engines computed and read again, by
            who reads them: ``tensor`` (the Tensor Engine) and ``others``; None where nobody
            looked.
        notes: remarks for people.
        cached: taken from the result cache; everything else is as if it had been computed.
    """

    kernel: str
    target: str
    backend: str
    provenance: Provenance
    latency_ms: float | None
    uncertainty: Uncertainty | None = None
    bound: Bound | None = None
    percent_of_peak: float | None = None
    percent_of_peak_basis: str | None = None
    correct: bool | None = None
    max_relative_error: float | None = None
    reference: str | None = None
    unknown_instructions: tuple[str, ...] = ()
    issued: Issued = Issued()
    counters: Mapping[str, float | None] = field(factory=dict)
    engine_busy_ms: Mapping[str, float] = field(factory=dict)
    lines: tuple[LineProfile, ...] = ()
    bounded_shares: Mapping[str, float] | None = None
    idle: tuple[IdleGap, ...] | None = None
    engines: tuple[EngineUse, ...] | None = None
    what_ifs: tuple[WhatIf, ...] | None = None
    stream: str | None = None
    issued_lines: tuple[LineIssued, ...] | None = None
    outputs: tuple[str, ...] | None = None
    launch: str | None = None
    intermediates: Mapping[str, tuple[str, ...]] | None = None
    notes: tuple[str, ...] = ()
    cached: bool = False

    def to_json(self) -> dict[str, Any]:
        """The object that ``accelopt profile --json`` prints."""
        data = attrs.asdict(self, recurse=True, value_serializer=_plain)
        data["counters"] = {name: self.counters.get(name) for name in COUNTER_NAMES}
        return {"schema_version": SCHEMA_VERSION, **data}


def _plain(instance: Any, attribute: Any, value: Any) -> Any:
    if isinstance(value, StrEnum):
        return value.value
    return value
