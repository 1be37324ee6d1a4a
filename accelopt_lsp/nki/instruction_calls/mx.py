"""Calls on microscaling formats."""

from __future__ import annotations

from typing import Any

from accelopt_lsp.nki.lowering import Builder, lowers

_SCALED = ("stationary", "moving", "stationary_scale", "moving_scale")


@lowers("nisa.nc_matmul_mx")
def _nc_matmul_mx(b: Builder) -> None:
    for name in ("dst", *_SCALED):
        b.tile(name)
    attrs: dict[str, Any] = {"accumulate": b.values.get("accumulate")}
    for name in ("tile_position", "tile_size"):
        if b.values.get(name):
            attrs[name] = tuple(b.values[name])
    attrs["stationary"] = b.types["stationary"].dtype.name
    attrs["moving"] = b.types["moving"].dtype.name
    b.emit("nc_matmul_mx", None, attrs, dst="dst", **{name: name for name in _SCALED})


@lowers("nisa.quantize_mx")
def _quantize_mx(b: Builder) -> None:
    """Scales are written between others that stay, which is a dependence."""
    dst = b.tile("dst")
    b.tile("src")
    scale = b.tile("dst_scale")
    b.emit(
        "quantize_mx",
        None,
        {"format": dst.dtype.name, "scales": scale.dtype.name},
        dst="dst",
        src="src",
        dst_scale="dst_scale",
        kept="dst_scale",
    )
