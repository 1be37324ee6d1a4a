"""``nki.isa`` calls that treat every element alike."""

from __future__ import annotations

from accelopt_lsp.nki.dialects import Role, api, instruction

APIS = (
    api(
        "nisa.get_nc_version",
        Role.QUERY,
        "Generation of the target, comparable with nisa.nc_version.gen2 and so on.",
        legacy="()",
        current="()",
    ),
    api(
        "nisa.get_nc_sub_version",
        Role.QUERY,
        "Revision of the target's silicon within its generation: 0 or 1.",
        current="()",
        since="0.5.0",
    ),
    instruction(
        "activation",
        "Applies a function to scale * data + bias on the Scalar Engine.",
        legacy="(op, data, *, bias=None, scale=1.0, reduce_op=None, reduce_res=None, "
        "reduce_cmd='idle', mask=None, dtype=None)",
        current="(dst, op, data, bias=None, scale=1.0, reduce_op=None, reduce_res=None, "
        "reduce_cmd='idle', name=None)",
    ),
    api(
        "nisa.activation_reduce",
        Role.INSTRUCTION,
        "Activation that also sums its result along the free axis.",
        legacy="(op, data, *, reduce_op, reduce_res, bias=None, scale=1.0, mask=None, dtype=None)",
        current="(dst, op, data, reduce_op, reduce_res, bias=None, scale=1.0, name=None)",
        instruction="activation",
    ),
    instruction(
        "activate2",
        "Combines a tile with two scalars, applies a function, and may reduce (NeuronCore-v4).",
        legacy=None,
        current="(dst, op, data, imm0, imm1, op0, op1, relu_param=0.0, reverse0=False, "
        "reverse1=False, reduce_op=None, reduce_res=None, reduce_cmd='idle', name=None)",
        since="0.4.0",
    ),
    instruction(
        "exponential",
        "exp(src - max_value) on the Vector Engine; may sum along the free axis (NeuronCore-v4).",
        legacy=None,
        current="(dst, src, max_value=0.0, reduce_res=None, reduce_cmd='idle', reduce_init=0.0, "
        "name=None)",
        since="0.2.0",
    ),
    instruction(
        "tensor_tensor",
        "Combines two tiles element by element.",
        legacy="(data1, data2, op, *, dtype=None, mask=None, engine='unknown')",
        current="(dst, data1, data2, op, engine='unknown', name=None)",
    ),
    instruction(
        "tensor_scalar",
        "Combines a tile with one or two scalars or [P, 1] vectors.",
        legacy="(data, op0, operand0, reverse0=False, op1=None, operand1=None, reverse1=False, *, "
        "dtype=None, mask=None, engine='unknown')",
        current="(dst, data, op0, operand0, reverse0=False, op1=None, operand1=None, "
        "reverse1=False, engine='unknown', name=None)",
    ),
    instruction(
        "scalar_tensor_tensor",
        "Combines a tile with a scalar, then with a second tile.",
        legacy="(*, data, op0, operand0, op1, operand1, reverse0=False, reverse1=False, "
        "dtype=None, mask=None)",
        current="(dst, data, op0, operand0, op1, operand1, reverse0=False, reverse1=False, "
        "name=None)",
    ),
    instruction(
        "tensor_copy",
        "Copies a tile on chip, casting if needed.",
        legacy="(src, *, mask=None, dtype=None, engine='unknown')",
        current="(dst, src, engine='unknown', name=None)",
    ),
    api(
        "nisa.tensor_copy_dynamic_src",
        Role.INSTRUCTION,
        "Copies a tile from an offset that is read from SBUF.",
        legacy="(src, *, mask=None, dtype=None, engine='unknown')",
        current="(dst, src, engine='unknown', name=None)",
        instruction="tensor_copy",
        until="0.3.0",
    ),
    api(
        "nisa.tensor_copy_dynamic_dst",
        Role.INSTRUCTION,
        "Copies a tile to an offset that is read from SBUF.",
        legacy="(*, dst, src, mask=None, dtype=None, engine='unknown')",
        current="(dst, src, engine='unknown', name=None)",
        instruction="tensor_copy",
        until="0.3.0",
    ),
    instruction(
        "reciprocal",
        "Reciprocal on the Vector Engine.",
        legacy="(data, *, dtype=None, mask=None)",
        current="(dst, data, name=None)",
    ),
    instruction(
        "memset",
        "Fills a tile with a constant.",
        legacy="(shape, value, dtype, *, mask=None, engine='unknown')",
        current="(dst, value, engine='unknown', name=None)",
    ),
)
