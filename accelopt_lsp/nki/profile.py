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
)
"""neuron-profile's summary names, in the order of the command line's contract."""


@frozen(slots=True)
class LineProfile:
    """What one source line costs.

    Attributes:
        line: from 1.
        engine: engine that its instructions run on (``dma`` for transfers).
        instructions: how many it issued.
        busy_ms: time its instructions occupied the engine.
        bytes: HBM traffic in bytes.
        critical_ms: its share of the critical path.
    """

    line: int
    engine: str
    instructions: int
    busy_ms: float
    bytes: int = 0
    critical_ms: float = 0.0


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
        notes: remarks for people.
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
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The object that ``accelopt profile --json`` prints."""
        data = attrs.asdict(self, recurse=True, value_serializer=_plain)
        data["counters"] = {name: self.counters.get(name) for name in COUNTER_NAMES}
        return {"schema_version": SCHEMA_VERSION, **data}


def _plain(instance: Any, attribute: Any, value: Any) -> Any:
    if isinstance(value, StrEnum):
        return value.value
    return value
