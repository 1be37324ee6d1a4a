"""What one issued instruction has to do, in hardware terms: the input of every cost formula."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from math import ceil
from typing import Any

from attrs import evolve, frozen

from accelopt_lsp.nki.dtypes import BFLOAT16
from accelopt_lsp.nki.operands import Buffer, Engine, OperandType


class Route(StrEnum):
    """Where a DMA moves data."""

    LOAD = "hbm->sbuf"
    STORE = "sbuf->hbm"
    HBM_COPY = "hbm->hbm"
    SBUF_COPY = "sbuf->sbuf"


@frozen(slots=True)
class DmaWork:
    """One DMA transfer.

    Attributes:
        route: direction.
        read_bytes, write_bytes: payload on either side (they differ when the DMA casts).
        descriptors: contiguous pieces the transfer splits into.
        descriptor_bytes: size of one piece in bytes.
        engines: DMA engines that share the pieces; each serves 8 partitions.
        transpose: the DMA transposes on the way.
    """

    route: Route
    read_bytes: int
    write_bytes: int
    descriptors: int
    descriptor_bytes: int
    engines: int
    transpose: bool = False

    @property
    def hbm_read_bytes(self) -> int:
        return self.read_bytes if self.route in (Route.LOAD, Route.HBM_COPY) else 0

    @property
    def hbm_write_bytes(self) -> int:
        return self.write_bytes if self.route in (Route.STORE, Route.HBM_COPY) else 0


@frozen(slots=True)
class Work:
    """Work of one instruction.

    Attributes:
        partitions: active partitions.
        elements: elements per partition that stream through the engine.
        flops: 2 x multiply-accumulates on the Tensor Engine; 0 elsewhere.
        is_transpose: the Tensor Engine only moves data.
        columns, passes: Tensor Engine columns, and passes over them (4 for fp32).
        rows: rows of the contraction that pass at a time: 2 in double-row mode, 4 when packed.
        sbuf_inputs, psum_inputs: tile inputs by memory (vectors of one element not counted).
        dst: memory of the result.
        all_16bit: every tile operand has a 16-bit float type.
        contiguous: the innermost free dimension of every tile operand is contiguous.
        reduces: a reduction is read out of the engine's accumulators at the end.
        dma: the transfer, for DMA instructions.
        dynamic: an operand's address is known at run time only.
        element_bytes: size of one element that streams: the largest of all tile operands.
        parameter: a number besides sizes that the time depends on, as each formula says.
    """

    partitions: int
    elements: int
    flops: int = 0
    is_transpose: bool = False
    columns: int = 0
    passes: int = 0
    rows: int = 1
    sbuf_inputs: int = 0
    psum_inputs: int = 0
    dst: Buffer = Buffer.SBUF
    all_16bit: bool = False
    contiguous: bool = True
    reduces: bool = False
    dma: DmaWork | None = None
    dynamic: bool = False
    element_bytes: int = 0
    parameter: int = 0

    @property
    def stationary_columns(self) -> int:
        """Columns that the Tensor Engine loads before it multiplies (both rows of a pair)."""
        return self.flops // max(1, 2 * self.partitions * self.elements)


def matmul_passes(dtype_bytes: int) -> int:
    """Tensor Engine passes per column: fp32 takes four, 8- and 16-bit types one (nc_matmul)."""
    return 4 if dtype_bytes == 4 else 1


def matmul_work(
    stationary: OperandType, moving: OperandType, *, is_transpose: bool, double_row: bool = False
) -> Work:
    """Work of ``stationary[K, M].T @ moving[K, N]``: 2 K M N FLOPs.

    Columns a pass: max(min(64, M), N) (nisa.nc_matmul, SDK 2.26). In double-row mode two rows of
    the contraction pass at a time: ``[K, 2, M]`` with ``[K, 2, N]`` takes the time of one
    (trainium2_arch).
    """
    rows = 2 if double_row else 1
    columns, free = stationary.free // rows, moving.free // rows
    moving_columns = max(free, min(64, columns))
    return Work(
        partitions=stationary.partitions,
        elements=free,
        flops=2 * rows * stationary.partitions * columns * free,
        is_transpose=is_transpose,
        columns=moving_columns,
        passes=matmul_passes(max(stationary.dtype.nbytes, moving.dtype.nbytes)),
        rows=rows,
        sbuf_inputs=2,
        dst=Buffer.PSUM,
        all_16bit=stationary.dtype.is_16bit_float and moving.dtype.is_16bit_float,
    )


def packed_matmul_work(stationary: OperandType, moving: OperandType) -> Work:
    """Work of a product of packed tiles: 4 multiply-accumulates where others have one.

    It takes the time of a bfloat16 product of as many partitions (trainium3_arch).
    """
    return Work(
        partitions=stationary.partitions,
        elements=moving.free,
        flops=8 * stationary.partitions * stationary.free * moving.free,
        columns=max(moving.free, min(64, stationary.free)),
        passes=1,
        rows=4,
        sbuf_inputs=2,
        dst=Buffer.PSUM,
    )


def transpose_work(data: OperandType, engine: Engine) -> Work:
    """Work of transposing ``data[P, F]``: max(P, min(64, F)) columns on the Tensor Engine."""
    on_tensor = engine is Engine.TENSOR
    return Work(
        partitions=data.partitions,
        elements=data.free,
        flops=2 * data.partitions * data.partitions * data.free if on_tensor else 0,
        is_transpose=True,
        columns=max(data.partitions, min(64, data.free)) if on_tensor else 0,
        passes=matmul_passes(data.dtype.nbytes) if on_tensor else 0,
        sbuf_inputs=int(data.buffer is Buffer.SBUF),
        psum_inputs=int(data.buffer is Buffer.PSUM),
        dst=Buffer.PSUM if on_tensor else Buffer.SBUF,
        all_16bit=data.dtype.is_16bit_float,
    )


def elementwise_work(
    dst: OperandType, tiles: tuple[OperandType, ...], *, reduces: bool = False
) -> Work:
    """Work of a Vector, Scalar or GpSimd instruction that streams ``tiles`` into ``dst``."""
    streamed = max((t.free for t in tiles), default=dst.free)
    operands = (*tiles, dst)
    return Work(
        partitions=max((t.partitions for t in tiles), default=dst.partitions),
        elements=streamed,
        sbuf_inputs=sum(t.buffer is Buffer.SBUF for t in tiles),
        psum_inputs=sum(t.buffer is Buffer.PSUM for t in tiles),
        dst=dst.buffer,
        all_16bit=all(t.dtype.is_16bit_float for t in operands),
        contiguous=all(_innermost_contiguous(t) for t in operands),
        reduces=reduces,
        dynamic=any(t.dynamic is not None and t.dynamic.kind.run_time for t in operands),
        element_bytes=max(t.dtype.nbytes for t in operands),
    )


FAST_OPERATORS = frozenset({"add", "subtract", "multiply"})
"""``tensor_tensor`` on bfloat16 takes one cycle an element with these (SDK 2.26)."""


def has_fast_form(
    op: str, attrs: Mapping[str, Any], dst: OperandType, tiles: tuple[OperandType, ...]
) -> bool:
    """Whether an instruction takes the half of its usual cycles on NeuronCore-v2.

    Some operators do on 16-bit floats, as the cost tables of ``nki.isa`` (SDK 2.26) list them:
    sums, differences and products of two bfloat16 tiles; ``(a - s) * b`` over an even number of
    bfloat16 elements; sums and maxima of bfloat16; zeros in bfloat16 or float16.
    """
    operands = (*tiles, dst)
    if op == "memset":
        return dst.dtype.is_16bit_float and attrs.get("value") == 0
    if not all(t.dtype is BFLOAT16 for t in operands):
        return False
    if op == "tensor_tensor":
        return attrs.get("op") in FAST_OPERATORS and all(map(_innermost_contiguous, operands))
    if op == "scalar_tensor_tensor":
        return (
            attrs.get("op0") == "subtract"
            and attrs.get("op1") == "multiply"
            and tiles[0].free % 2 == 0
        )
    if op == "tensor_reduce":
        return attrs.get("op") in ("add", "maximum")
    return False


def _innermost_contiguous(tile: OperandType) -> bool:
    for size, stride in zip(reversed(tile.shape[1:]), reversed(tile.layout[1:]), strict=True):
        if size > 1:
            return stride == 1
    return True


def dma_work(dst: OperandType, src: OperandType, *, transpose: bool = False) -> Work:
    """Work of a transfer: it splits where either side stops being contiguous.

    On chip every partition is a piece of its own; an element-wise transpose moves single
    elements. An engine serves 8 partitions, so small tiles leave engines idle.
    """
    route = {
        (Buffer.HBM, Buffer.SBUF): Route.LOAD,
        (Buffer.SBUF, Buffer.HBM): Route.STORE,
        (Buffer.HBM, Buffer.HBM): Route.HBM_COPY,
    }.get((src.buffer, dst.buffer), Route.SBUF_COPY)
    run = 1 if transpose else max(1, min(src.contiguous_run(), dst.contiguous_run()))
    elements = max(src.elements, 1)
    tile = dst if dst.buffer.on_chip else src
    rows = tile.partitions if tile.buffer.on_chip else ceil(elements / run)
    return Work(
        partitions=min(rows, 128),
        elements=ceil(elements / max(tile.partitions, 1)),
        dst=dst.buffer,
        dma=DmaWork(
            route=route,
            read_bytes=elements * src.dtype.nbytes,
            write_bytes=elements * dst.dtype.nbytes,
            descriptors=ceil(elements / run),
            descriptor_bytes=run * max(src.dtype.nbytes, dst.dtype.nbytes),
            engines=max(1, min(16, ceil(rows / 8))),
            transpose=transpose,
        ),
    )


def dma_compute_work(dst: OperandType, srcs: tuple[OperandType, ...]) -> Work:
    """Work of a transfer that adds its sources up: bytes of all of them are read.

    Where some sources are in HBM, those are what is read there.
    """
    outside = tuple(s for s in srcs if s.buffer is Buffer.HBM)
    first = (outside or srcs)[0]
    work = dma_work(dst, first)
    assert work.dma is not None
    read = sum(s.nbytes for s in outside or srcs)
    pieces = sum(max(1, s.elements // max(1, s.contiguous_run())) for s in srcs)
    return evolve(
        work,
        dma=evolve(work.dma, read_bytes=read, descriptors=max(pieces, work.dma.descriptors)),
    )
