"""Calls of DMA instructions."""

from __future__ import annotations

from typing import Any

from accelopt_lsp.nki.instruction_calls.base import name_of
from accelopt_lsp.nki.instructions.movement import MAX_SOURCES, TRANSPOSED
from accelopt_lsp.nki.instructions.violations import Violation
from accelopt_lsp.nki.lowering import Builder, LoweringError, lowers


def _transfer(b: Builder) -> dict[str, Any]:
    """How a transfer's descriptors are made, where the call says so."""
    attrs: dict[str, Any] = {}
    for name in ("dge_mode", "oob_mode"):
        given = name_of(b.values.get(name), "unknown")
        if given not in ("unknown", "error"):
            attrs[name] = given
    if b.values.get("priority") is not None:
        attrs["priority"] = b.values["priority"]
    return attrs


@lowers("nisa.dma_copy")
def _dma_copy(b: Builder) -> None:
    b.tile("dst"), b.tile("src")
    attrs = _transfer(b)
    trigger = name_of(b.values.get("engine"), "unknown").removesuffix("_engine")
    if trigger != "unknown":
        attrs["trigger"] = trigger
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
    rank = len(src.shape)
    axes = tuple(b.values.get("axes") or TRANSPOSED.get(rank, ()))
    if sorted(axes) != list(range(rank)):
        raise LoweringError(f"axes {axes} do not permute the {rank} dimensions of src", "R065")
    dst = b.destination(tuple(src.shape[a] for a in axes), b.dtype(src.dtype))
    b.emit("dma_transpose", None, {"axes": axes, **_transfer(b)}, dst=dst, src="src")


@lowers("nisa.dma_compute")
def _dma_compute(b: Builder) -> None:
    b.tile("dst")
    srcs = b.values["srcs"]
    if not isinstance(srcs, tuple) or not srcs:
        raise LoweringError(f"srcs must be a list of tensors, got {srcs!r}")
    scales, op = b.values.get("scales"), b.values["reduce_op"]
    if isinstance(op, tuple):
        # NKI 0.2 had the scales before the operator.
        scales, op = op, scales
    if len(srcs) > MAX_SOURCES:
        b.violations.append(
            Violation(
                "R089",
                f"dma_compute: {len(srcs)} sources, at most {MAX_SOURCES} are possible; add them "
                "up in several steps",
            )
        )
    attrs = {
        "reduce_op": op,
        "scales": scales,
        "unique_indices": bool(b.values.get("unique_indices", True)),
        "oob_mode": name_of(b.values.get("oob_mode"), "error"),
    }
    operands = {f"src{i}": f"srcs.{i}" for i in range(min(len(srcs), MAX_SOURCES))}
    for slot in operands.values():
        b.tile(slot)
    b.emit("dma_compute", None, attrs, dst="dst", **operands)
