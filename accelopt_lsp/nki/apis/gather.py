"""``nki.isa`` calls that move elements between positions and partitions on chip."""

from __future__ import annotations

from accelopt_lsp.nki.dialects import instruction

APIS = (
    instruction(
        "local_gather",
        "Gathers with one list of indices for every 16 partitions.",
        legacy="(src_buffer, index, num_elem_per_idx=1, num_valid_indices=None, *, mask=None)",
        current="(dst, src_buffer, index, num_elem_per_idx=1, num_valid_indices=None, name=None)",
    ),
    instruction(
        "nc_n_gather",
        "Gathers within each partition.",
        legacy=None,
        current="(dst, data, indices, name=None)",
    ),
    instruction(
        "nc_stream_shuffle",
        "Moves data between the partitions of each quadrant.",
        legacy="(src, dst, shuffle_mask, *, dtype=None, mask=None)",
        current="(dst, src, shuffle_mask, name=None)",
    ),
)
