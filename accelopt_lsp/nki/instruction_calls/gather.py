"""Calls that move elements between positions and partitions on chip."""

from __future__ import annotations

from accelopt_lsp.nki.instructions.gather import CORE_PARTITIONS, QUADRANT, UNMODIFIED
from accelopt_lsp.nki.lowering import Builder, LoweringError, lowers


@lowers("nisa.local_gather")
def _local_gather(b: Builder) -> None:
    """Every list of 16 partitions counts in full where ``num_valid_indices`` is not given.

    A destination with one element for each index takes one, whatever ``num_elem_per_idx`` says
    (release notes of NKI 0.6, known issues).
    """
    src, index = b.tile("src_buffer"), b.tile("index")
    given = b.values.get("num_valid_indices")
    count = CORE_PARTITIONS * index.free if given is None else int(given)
    run = int(b.values.get("num_elem_per_idx") or 1)
    known = b.types.get("dst")
    if known is not None and known.free == count:
        run = 1
    shape = (src.partitions, count, run) if run > 1 else (src.partitions, count)
    dst = b.destination(shape, src.dtype)
    attrs = {"num_elem_per_idx": run, "num_valid_indices": count}
    b.emit("local_gather", None, attrs, dst=dst, src_buffer="src_buffer", index="index")


@lowers("nisa.nc_n_gather")
def _nc_n_gather(b: Builder) -> None:
    b.tile("dst"), b.tile("data"), b.tile("indices")
    b.emit("nc_n_gather", None, {}, dst="dst", data="data", indices="indices")


@lowers("nisa.nc_stream_shuffle")
def _nc_stream_shuffle(b: Builder) -> None:
    """What partitions with an entry of 255 hold stays, which is a dependence."""
    b.tile("dst"), b.tile("src")
    mask = b.values["shuffle_mask"]
    if not isinstance(mask, tuple | list):
        raise LoweringError(f"shuffle_mask must be a list of {QUADRANT} integers, got {mask!r}")
    operands = {"dst": "dst", "src": "src"}
    if UNMODIFIED in mask:
        operands["kept"] = "dst"
    b.emit("nc_stream_shuffle", None, {"shuffle_mask": tuple(mask)}, **operands)
