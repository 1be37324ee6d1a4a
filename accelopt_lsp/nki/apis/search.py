"""``nki.isa`` calls that find values and their positions."""

from __future__ import annotations

from accelopt_lsp.nki.dialects import instruction

APIS = (
    instruction(
        "max8",
        "The 8 largest values of each partition, in descending order.",
        legacy="(*, src, mask=None, dtype=None)",
        current="(dst, src, name=None)",
    ),
    instruction(
        "nc_find_index8",
        "Positions of 8 values in each partition.",
        legacy="(*, data, vals, mask=None, dtype=None)",
        current="(dst, data, vals, name=None)",
    ),
    instruction(
        "nc_match_replace8",
        "Replaces the first occurrence of each of 8 values; may tell the positions.",
        legacy="(*, data, vals, imm, dst_idx=None, mask=None, dtype=None)",
        current="(dst, data, vals, imm, dst_idx=None, name=None)",
    ),
    instruction(
        "topk",
        "The k largest values of 16 partitions and their positions.",
        legacy=None,
        current="(val_dst, idx_dst, src, n, name=None)",
        since="0.6.0",
    ),
    instruction(
        "nonzero_with_count",
        "Positions of the elements that are not zero, and how many there are.",
        legacy=None,
        current="(dst, src, index_offset=0, padding_val=-1, name=None)",
        since="0.2.0",
    ),
    instruction(
        "sequence_bounds",
        "Where the segment of each element begins and ends.",
        legacy="(*, segment_ids, dtype=None)",
        current="(dst, segment_ids, name=None)",
    ),
)
