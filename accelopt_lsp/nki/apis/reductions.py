"""``nki.isa`` calls that reduce or scan."""

from __future__ import annotations

from accelopt_lsp.nki.dialects import instruction

APIS = (
    instruction(
        "tensor_scalar_reduce",
        "Combines a tile with a scalar and reduces the result along the free axis.",
        legacy="(*, data, op0, operand0, reduce_op, reduce_res, reverse0=False, dtype=None, "
        "mask=None)",
        current="(dst, data, op0, operand0, reduce_op, reduce_res, reverse0=False, "
        "reduce_cmd='reset_reduce', reduce_init=None, reduce_res_negate=False, name=None)",
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
)
