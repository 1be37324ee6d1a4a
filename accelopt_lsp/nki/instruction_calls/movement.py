"""Calls of DMA instructions."""

from __future__ import annotations

from accelopt_lsp.nki.lowering import Builder, lowers


@lowers("nisa.dma_copy")
def _dma_copy(b: Builder) -> None:
    b.tile("dst"), b.tile("src")
    b.emit("dma_copy", None, {}, dst="dst", src="src")


@lowers("nisa.dma_transpose")
def _dma_transpose(b: Builder) -> None:
    src = b.tile("src")
    axes = b.values.get("axes") or tuple(reversed(range(len(src.shape))))
    shape = tuple(src.shape[a] for a in axes)
    dst = b.destination(shape, b.dtype(src.dtype))
    b.emit("dma_transpose", None, {"axes": tuple(axes)}, dst=dst, src="src")
