"""Calls that find values and their positions."""

from __future__ import annotations

from accelopt_lsp.nki.dtypes import get_dtype
from accelopt_lsp.nki.instruction_calls.base import numbers, optional_tiles
from accelopt_lsp.nki.instructions.violations import Violation
from accelopt_lsp.nki.lowering import Builder, LoweringError, lowers


def _check_rank(b: Builder, *names: str) -> None:
    """Operands of up to 3 dimensions, in the legacy dialect 5; size 1 does not count."""
    most = 5 if b.legacy else 3
    for name in names:
        shape = b.types[name].shape
        rank = 1 + sum(n != 1 for n in shape[1:])
        if rank > most:
            b.violations.append(
                Violation(
                    "R013",
                    f"{b.api}: {name} has {rank} dimensions (shape {list(shape)}), at most {most} "
                    "are possible; merge free dimensions with reshape",
                    name,
                )
            )


@lowers("nisa.max8")
def _max8(b: Builder) -> None:
    src = b.tile("src")
    _check_rank(b, "src")
    dst = b.destination((src.partitions, 8), b.dtype(src.dtype))
    b.emit("max8", None, {}, dst=dst, src="src")


@lowers("nisa.nc_find_index8")
def _find_index8(b: Builder) -> None:
    data = b.tile("data")
    b.tile("vals")
    _check_rank(b, "data", "vals")
    dst = b.destination((data.partitions, 8), b.dtype(get_dtype("uint32")))
    b.emit("nc_find_index8", None, {}, dst=dst, data="data", vals="vals")


@lowers("nisa.nc_match_replace8")
def _match_replace8(b: Builder) -> None:
    data = b.tile("data")
    b.tile("vals")
    attrs = numbers(b, "imm")
    if "imm" not in attrs:
        raise LoweringError("imm must be a number")
    dst = b.destination(data.shape, b.dtype(data.dtype))
    operands = optional_tiles(b, "dst_idx")
    b.emit("nc_match_replace8", None, attrs, dst=dst, data="data", vals="vals", **operands)


@lowers("nisa.topk")
def _topk(b: Builder) -> None:
    b.tile("val_dst"), b.tile("idx_dst"), b.tile("src")
    b.emit("topk", None, {"n": int(b.values["n"])}, dst="val_dst", idx_dst="idx_dst", src="src")


@lowers("nisa.nonzero_with_count")
def _nonzero_with_count(b: Builder) -> None:
    b.tile("dst"), b.tile("src")
    attrs = {name: b.values[name] for name in ("index_offset", "padding_val")}
    b.emit("nonzero_with_count", None, attrs, dst="dst", src="src", kept="dst")


@lowers("nisa.sequence_bounds")
def _sequence_bounds(b: Builder) -> None:
    ids = b.tile("segment_ids")
    shape = (ids.partitions, 2, *ids.shape[1:])
    dst = b.destination(shape, b.dtype(ids.dtype))
    b.emit("sequence_bounds", None, {}, dst=dst, segment_ids="segment_ids")
