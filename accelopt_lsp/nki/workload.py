"""What static analysis knows about a kernel's work, line by line and loop by loop."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from attrs import field, frozen

from accelopt_lsp.nki.operands import Buffer, OperandType
from accelopt_lsp.nki.profile import Issued, Provenance


@frozen(slots=True)
class Traffic:
    """What DMAs move.

    Attributes:
        routes: payload in bytes by route, such as ``hbm->sbuf``; of a transfer that casts, the
            side with more bytes.
        descriptors: number of contiguous pieces by their size in bytes.
    """

    routes: Mapping[str, int] = field(factory=dict)
    descriptors: Mapping[int, int] = field(factory=dict)


@frozen(slots=True)
class Holder:
    """What takes on-chip memory at the fullest moment.

    Attributes:
        name: variable that holds it; empty for results without a name.
        line: where it is created.
        partition_bytes: bytes per partition of all of it that is alive.
    """

    name: str
    line: int
    partition_bytes: int


class Waiting(StrEnum):
    """What makes an iteration of a loop wait for the one before.

    ``reuse``: it writes a tile that the iteration before still uses, and needs nothing of what
    that holds. ``carried``: it needs what the iteration before computed. ``product``: products
    add up in PSUM, which the Tensor Engine does without a pause.
    """

    REUSE = "reuse"
    CARRIED = "carried"
    PRODUCT = "product"


@frozen(slots=True)
class Dependence:
    """One tile through which the iterations of a loop depend on each other.

    Attributes:
        loop_line, variable: the loop.
        waiting: what kind of wait.
        tensor: name of the tile.
        line: where the tile is created.
        buffer: its memory.
        write_line, read_line: first write and first read of it in the loop.
        writers, readers: engines that do so in the loop; ``dma`` for transfers.
        movable: nothing outside the loop uses the tile, so that it can be made inside.
        lost_ns: time that engines cannot overlap on its account, at most.
    """

    loop_line: int
    variable: str
    waiting: Waiting
    tensor: str
    line: int
    buffer: Buffer
    write_line: int
    read_line: int
    writers: tuple[str, ...]
    readers: tuple[str, ...]
    movable: bool
    lost_ns: float


@frozen(slots=True)
class TensorTraffic:
    """How often the bytes of one HBM tensor move.

    Attributes:
        name: parameter or variable.
        size_bytes: of the whole tensor.
        read_bytes, written_bytes: payload of all its loads and stores.
        distinct_read_bytes, distinct_written_bytes: of these, each byte once; None where
            accesses overlap in a way that is not counted exactly.
        lines: where it is loaded.
        shape, dtype: of the whole tensor.
    """

    name: str
    size_bytes: int
    read_bytes: int
    written_bytes: int
    distinct_read_bytes: int | None
    distinct_written_bytes: int | None
    lines: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()
    dtype: str = ""


@frozen(slots=True)
class RepeatedLoad:
    """A load that brings the same bytes again, and what the kernel would take without that.

    Attributes:
        line: of the load.
        tensor, tile: what is loaded, and what it is loaded into; empty without a name.
        factor: how often each byte is loaded.
        loops: loops over which it repeats: (line, variable, trips).
        before_ns, after_ns: estimated latency of the kernel as it is, and at least if the load
            brought every byte once.
    """

    line: int
    tensor: str
    tile: str
    factor: float
    loops: tuple[tuple[int, str, int], ...]
    before_ns: float
    after_ns: float


@frozen(slots=True)
class LoopWork:
    """One loop of a kernel.

    Attributes:
        line: of the ``for``.
        variable: loop variable.
        trips: iterations each time it is entered; None if unknown.
        total_trips: iterations over the whole kernel.
        end_line: its last line.
        written: the number of iterations as it is written, where it is not known.
        provenance: where ``trips`` and ``total_trips`` come from.
        issued: what its body issues over the whole kernel.
        traffic: of the transfers in its body.
        flops: FLOPs of the products in its body by data type.
    """

    line: int
    variable: str
    trips: int | None
    total_trips: int | None
    end_line: int = 0
    issued: Issued = Issued()
    traffic: Traffic = Traffic()
    flops: Mapping[str, int] = field(factory=dict)
    written: str = ""
    provenance: Provenance = Provenance.ESTIMATED


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
        reload_loops: loops over which it reads the same bytes again: (line, variable, trips).
        traffic: of its transfers.
        engine_bytes: bytes between the on-chip memories and the engines, such as
            ``psum->vector`` and ``vector->sbuf``, over all partitions.
        flops: FLOPs of its products by data type of the operands.
        sbuf_live_bytes, psum_live_bytes: live bytes per partition while it runs, at most.
        provenance: whether its counts were read off the source or traced.
        derivation: how its engine time comes about, the dearest instruction first.
        column: from 1, in code points, of the one call that issues all of it; None where
            several do, or where nobody knows.
    """

    line: int
    count: int
    issued: Issued
    engine: str
    engine_ns: float
    shape: OperandType | None = None
    descriptor_bytes: int | None = None
    reload_factor: float | None = None
    reload_loops: tuple[tuple[int, str, int], ...] = ()
    traffic: Traffic = Traffic()
    engine_bytes: Mapping[str, int] = field(factory=dict)
    flops: Mapping[str, int] = field(factory=dict)
    sbuf_live_bytes: int | None = None
    psum_live_bytes: int | None = None
    provenance: Provenance = Provenance.ESTIMATED
    derivation: tuple[str, ...] = ()
    column: int | None = None


@frozen(slots=True)
class AllocationWork:
    """One on-chip tensor.

    Attributes:
        line: where it is created.
        name: variable that holds it.
        buffer: SBUF or PSUM.
        shape: logical shape, block dimensions included.
        partition_bytes: bytes per partition of all its blocks.
        live_bytes: bytes per partition of all copies of it that live at once; None if nothing
            uses it.
        banks: PSUM banks that one of it takes; 0 in SBUF.
    """

    line: int
    name: str
    buffer: Buffer
    shape: tuple[int, ...]
    dtype: str
    partition_bytes: int
    live_bytes: int | None = None
    banks: int = 0


@frozen(slots=True)
class NamedView:
    """A name for a tensor that another name holds already, or for a part of one.

    Attributes:
        line: where it is given.
        tensor: name of the tensor.
        buffer: its memory.
        shape, dtype: as seen through this name.
    """

    line: int
    name: str
    tensor: str
    buffer: Buffer
    shape: tuple[int, ...]
    dtype: str


@frozen(slots=True)
class Workload:
    """Everything counted in one kernel.

    Attributes:
        lines, loops, allocations: by place.
        calls: by call, on lines where several issue instructions.
        issued: totals; equal to the traced counts where ``unknowns`` is empty.
        compulsory_read_bytes, compulsory_write_bytes: each input and output once.
        sbuf_peak_bytes, psum_peak_bytes: live bytes per partition at the fullest moment.
        sbuf_peak_line, psum_peak_line: line at which that is.
        sbuf_holders, psum_holders: what is alive then, the largest first.
        psum_peak_banks: PSUM banks in use where most are.
        traffic: of all transfers.
        flops: FLOPs of all products by data type.
        tensors: HBM tensors, by name.
        dependences: tiles through which iterations wait for each other, the dearest first.
        ceilings_ns: time that each resource needs at least: engines, ``dma`` (bandwidth), queues
            that trigger transfers, and ports that engines share.
        unknowns: (line, reason) for everything that analysis could not count.
        uncounted: lines in loops whose iterations are not known: figures of one execution.
        resolved: unknowns that a trace has filled in.
        provenance: whether the totals were read off the source or traced.
    """

    lines: tuple[LineWork, ...] = ()
    loops: tuple[LoopWork, ...] = ()
    allocations: tuple[AllocationWork, ...] = ()
    issued: Issued = Issued()
    compulsory_read_bytes: int | None = None
    compulsory_write_bytes: int | None = None
    sbuf_peak_bytes: int | None = None
    psum_peak_bytes: int | None = None
    sbuf_peak_line: int | None = None
    psum_peak_line: int | None = None
    sbuf_holders: tuple[Holder, ...] = ()
    psum_holders: tuple[Holder, ...] = ()
    psum_peak_banks: int | None = None
    traffic: Traffic = Traffic()
    flops: Mapping[str, int] = field(factory=dict)
    tensors: tuple[TensorTraffic, ...] = ()
    dependences: tuple[Dependence, ...] = ()
    ceilings_ns: Mapping[str, float] = field(factory=dict)
    unknowns: tuple[tuple[int, str], ...] = ()
    unknown_instructions: Mapping[str, int] = field(factory=dict)
    calls: tuple[LineWork, ...] = ()
    uncounted: tuple[LineWork, ...] = ()
    resolved: tuple[tuple[int, str], ...] = ()
    provenance: Provenance = Provenance.ESTIMATED

    @property
    def complete(self) -> bool:
        """Nothing was left uncounted."""
        return not self.unknowns
