"""``nki.isa`` calls on microscaling formats (NeuronCore-v4)."""

from __future__ import annotations

from accelopt_lsp.nki.dialects import instruction

APIS = (
    instruction(
        "nc_matmul_mx",
        "Matrix product of two tiles in a microscaling format, into PSUM.",
        legacy=None,
        current="(dst, stationary, moving, stationary_scale, moving_scale, tile_position=None, "
        "tile_size=None, accumulate=None, name=None)",
    ),
    instruction(
        "quantize_mx",
        "Turns a tile into packed 8-bit floats and one scale for every 32 of them.",
        legacy=None,
        current="(dst, src, dst_scale, name=None)",
    ),
)
