"""``nki.isa`` calls that choose between values, and patterns of integers."""

from __future__ import annotations

from accelopt_lsp.nki.dialects import instruction

APIS = (
    instruction(
        "affine_select",
        "Keeps elements where an affine expression of their position meets a comparison with 0.",
        legacy="(pred, on_true_tile, on_false_value, *, mask=None, dtype=None)",
        current="(dst, pattern, channel_multiplier, on_true_tile, on_false_value, "
        "cmp_op='equal', offset=0, name=None)",
    ),
    instruction(
        "range_select",
        "Keeps elements whose position lies between two bounds; may take the maximum.",
        legacy="(*, on_true_tile, comp_op0, comp_op1, bound0, bound1, reduce_cmd='idle', "
        "reduce_res=None, reduce_op='maximum', range_start=0, "
        "on_false_value=-3.4028234663852886e38, mask=None, dtype=None)",
        current="(dst, on_true_tile, comp_op0, comp_op1, bound0, bound1, "
        "reduce_cmd='reset_reduce', reduce_res=None, reduce_op='maximum', range_start=0, "
        "on_false_value=-3.4028234663852886e38, name=None)",
    ),
    instruction(
        "select_reduce",
        "Chooses between a tile and a scalar by a predicate; may take the maximum.",
        legacy="(*, dst, predicate, on_true, on_false, reduce_res=None, reduce_cmd='idle', "
        "reduce_op='maximum', reverse_pred=False, mask=None, dtype=None)",
        current="(dst, predicate, on_true, on_false, reduce_res=None, reduce_cmd='idle', "
        "reduce_op='maximum', reverse_pred=False, name=None)",
    ),
    instruction(
        "tensor_copy_predicated",
        "Copies elements where a predicate holds and leaves the others as they are.",
        legacy="(*, src, dst, predicate, reverse_pred=False, mask=None, dtype=None)",
        current="(dst, src, predicate, reverse_pred=False, name=None)",
    ),
    instruction(
        "iota",
        "Fills a tile with an affine pattern of integers.",
        legacy="(expr, dtype, *, mask=None)",
        current="(dst, pattern, offset=0, channel_multiplier=0, name=None)",
    ),
)
