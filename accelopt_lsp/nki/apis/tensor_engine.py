"""``nki.isa`` calls of the Tensor Engine."""

from __future__ import annotations

from accelopt_lsp.nki.dialects import instruction

APIS = (
    instruction(
        "nc_matmul",
        "Matrix product of a stationary and a moving tile into PSUM.",
        legacy="(stationary, moving, *, is_stationary_onezero=False, is_moving_onezero=False, "
        "is_transpose=False, tile_position=(), tile_size=(), perf_mode=None, mask=None)",
        current="(dst, stationary, moving, is_stationary_onezero=False, is_moving_onezero=False, "
        "is_transpose=False, accumulate=None, tile_position=(), tile_size=(), "
        "perf_mode='none', name=None)",
    ),
    instruction(
        "nc_transpose",
        "Transposes a tile on the Tensor Engine, or on the Vector Engine up to 32 x 32.",
        legacy="(data, *, mask=None, dtype=None, engine='unknown')",
        current="(dst, data, engine='unknown', name=None)",
    ),
)
