"""What static analysis knows about a kernel's work, line by line and loop by loop."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from accelopt_lsp.nki.operands import Buffer, OperandType
from accelopt_lsp.nki.profile import Issued


@frozen(slots=True)
class LoopWork:
    """One loop of a kernel.

    Attributes:
        line: of the ``for``.
        variable: loop variable.
        trips: iterations each time it is entered; None if unknown.
        total_trips: iterations over the whole kernel.
    """

    line: int
    variable: str
    trips: int | None
    total_trips: int | None


@frozen(slots=True)
class LineWork:
    """All instructions that one source line issues over the whole kernel.

    Attributes:
        line: from 1.
        count: times the line runs.
        issued: totals over these.
        engine: engine with the most time on this line.
        engine_ns: its time in total.
        shape: result of one execution, where there is one.
        descriptor_bytes: size of one DMA descriptor, for transfers.
        reload_factor: times each HBM byte that this line reads is read; None if unknown.
    """

    line: int
    count: int
    issued: Issued
    engine: str
    engine_ns: float
    shape: OperandType | None = None
    descriptor_bytes: int | None = None
    reload_factor: float | None = None


@frozen(slots=True)
class AllocationWork:
    """One on-chip tensor.

    Attributes:
        line: where it is created.
        name: variable that holds it.
        buffer: SBUF or PSUM.
        shape: logical shape, block dimensions included.
        partition_bytes: bytes per partition of all its blocks.
    """

    line: int
    name: str
    buffer: Buffer
    shape: tuple[int, ...]
    dtype: str
    partition_bytes: int


@frozen(slots=True)
class Workload:
    """Everything counted in one kernel.

    Attributes:
        lines, loops, allocations: by place.
        issued: totals; equal to the traced counts where ``unknowns`` is empty.
        compulsory_read_bytes, compulsory_write_bytes: each input and output once.
        sbuf_peak_bytes, psum_peak_bytes: live bytes per partition at the fullest moment.
        unknowns: (line, reason) for everything that analysis could not count.
    """

    lines: tuple[LineWork, ...] = ()
    loops: tuple[LoopWork, ...] = ()
    allocations: tuple[AllocationWork, ...] = ()
    issued: Issued = Issued()
    compulsory_read_bytes: int | None = None
    compulsory_write_bytes: int | None = None
    sbuf_peak_bytes: int | None = None
    psum_peak_bytes: int | None = None
    unknowns: tuple[tuple[int, str], ...] = ()
    unknown_instructions: Mapping[str, int] = field(factory=dict)

    @property
    def complete(self) -> bool:
        """Nothing was left uncounted."""
        return not self.unknowns
