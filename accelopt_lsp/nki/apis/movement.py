"""``nki.isa`` calls of the DMA engines."""

from __future__ import annotations

from accelopt_lsp.nki.dialects import instruction

APIS = (
    instruction(
        "dma_copy",
        "Moves data between HBM and SBUF.",
        legacy="(*, dst, src, mask=None, dst_rmw_op=None, oob_mode='error', dge_mode='unknown')",
        current="(dst, src, priority=None, oob_mode='error', dge_mode='unknown', "
        "engine='unknown', name=None)",
    ),
    instruction(
        "dma_transpose",
        "Moves data between HBM and SBUF, transposing on the way.",
        legacy="(src, *, axes=None, mask=None, dtype=None, dge_mode='unknown')",
        current="(dst, src, axes=None, priority=None, dge_mode='unknown', oob_mode='error', "
        "name=None)",
    ),
    instruction(
        "dma_compute",
        "Adds tensors up on the way between memories.",
        legacy=None,
        current="(dst, srcs, reduce_op, scales=None, unique_indices=True, oob_mode='error', "
        "name=None)",
    ),
)
