"""Calls of DMA instructions."""

from __future__ import annotations

from accelopt_lsp.nki.lowering import Builder, LoweringError, lowers


@lowers("nisa.dma_copy")
def _dma_copy(b: Builder) -> None:
    b.tile("dst"), b.tile("src")
    attrs = {}
    if str(b.values.get("oob_mode")).rpartition(".")[2] == "skip":
        attrs["oob_mode"] = "skip"
    operands = {"dst": "dst", "src": "src"}
    operator = b.values.get("dst_rmw_op")
    if operator is not None:
        if operator != "add":
            raise LoweringError(f"dst_rmw_op can only be add, got {operator}")
        operands["before"] = "dst"
    b.emit("dma_copy", None, attrs, **operands)


@lowers("nisa.dma_transpose")
def _dma_transpose(b: Builder) -> None:
    src = b.tile("src")
    axes = b.values.get("axes") or tuple(reversed(range(len(src.shape))))
    shape = tuple(src.shape[a] for a in axes)
    dst = b.destination(shape, b.dtype(src.dtype))
    b.emit("dma_transpose", None, {"axes": tuple(axes)}, dst=dst, src="src")
