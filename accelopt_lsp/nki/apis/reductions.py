"""``nki.isa`` calls that reduce or scan."""

from __future__ import annotations

from accelopt_lsp.nki.dialects import instruction

APIS = (
    instruction(
        "tensor_scalar_reduce",
        "Combines a tile with a scalar and reduces the result along the free axis.",
        legacy="(*, data, op0, operand0, reduce_op, reduce_res, reverse0=False, dtype=None, "
        "mask=None)",
        current="(dst, data, op0, operand0, reduce_op, reduce_res=None, reverse0=False, "
        "reduce_cmd='reset_reduce', reduce_init=None, reduce_res_negate=False, name=None)",
    ),
    instruction(
        "tensor_scalar_cumulative",
        "Combines a tile with a scalar and accumulates along the free axis.",
        legacy="(*, src, dst, op0, op1, imm0, imm1=None, reduce_cmd='reset_reduce', mask=None)",
        current="(dst, src, op0, op1, imm0, imm1=None, reduce_cmd='reset_reduce', name=None)",
    ),
    instruction(
        "tensor_tensor_scan",
        "Scan along the free axis with two tiles.",
        legacy="(data0, data1, initial, op0, op1, reverse0=False, reverse1=False, *, dtype=None, "
        "mask=None)",
        current="(dst, data0, data1, initial, op0, op1, reverse0=False, reverse1=False, name=None)",
    ),
    instruction(
        "tensor_reduce",
        "Reduces a tile along its last free axes.",
        legacy="(op, data, axis, *, mask=None, dtype=None, negate=False, keepdims=False)",
        current="(dst, op, data, axis, negate=False, keepdims=False, name=None)",
    ),
    instruction(
        "tensor_partition_reduce",
        "Reduces a tile over its partitions on the GpSimd engine.",
        legacy="(op, data, *, mask=None, dtype=None)",
        current="(dst, op, data, name=None)",
    ),
    instruction(
        "bn_stats",
        "Count, mean and variance * count of the even and of the odd elements of each partition.",
        legacy="(data, *, mask=None, dtype=None)",
        current="(dst, data, name=None)",
    ),
    instruction(
        "bn_aggr",
        "Merges results of bn_stats into mean and variance.",
        legacy="(data, *, mask=None, dtype=None)",
        current="(dst, data, name=None)",
    ),
)
