"""Instructions that treat every element alike."""

from __future__ import annotations

from collections.abc import Iterator

from accelopt_lsp.nki.dtypes import Kind
from accelopt_lsp.nki.instructions.base import (
    DATA,
    DST,
    Attributes,
    Instruction,
    Operand,
    Operands,
)
from accelopt_lsp.nki.instructions.checks import (
    all_of,
    float32_vectors,
    free_size,
    one_of,
    operator_types,
    two_psum_inputs,
    types_of,
)
from accelopt_lsp.nki.instructions.operators import (
    ACTIVATE_FORMS,
    ACTIVATION_FUNCTIONS,
    SCALAR_ENGINE_FORMS,
    UNARY_OPERATORS,
)
from accelopt_lsp.nki.instructions.violations import Violation
from accelopt_lsp.nki.operands import Engine, OperandType
from accelopt_lsp.nki.targets import Target


def _activation(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    scale, bias = operands.get("scale"), operands.get("bias")
    if scale is not None and scale.dtype.name not in ("float32", "tfloat32"):
        yield Violation(
            "R003",
            f"activation: scale must be float32, it is {scale.dtype}; cast it with tensor_copy",
            "scale",
        )
    if bias is not None and bias.dtype.name == "tfloat32":
        yield Violation("R002", "activation: bias must not be tfloat32; use float32", "bias")
    if (
        attrs.get("op") == "reciprocal"
        and target.generation < 3
        and (bias is not None or attrs.get("bias") not in (None, 0))
    ):
        yield Violation(
            "R002",
            f"activation: reciprocal takes no bias on NeuronCore-v{target.generation}; add it "
            "with tensor_scalar first",
            "bias",
        )


def _tensor_scalar(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    """Operators that the Scalar Engine of NeuronCore-v2 and v3 cannot run.

    On v2 the compiler turns a product, a sum, or both into an activation; unary operators are
    in the tables of the Scalar Engine.
    """
    if attrs.get("engine") != Engine.SCALAR or target.generation >= 4:
        return
    operators = tuple(attrs[n] for n in ("op0", "op1") if attrs.get(n) is not None)
    known = len(operators) == 1 and operators[0] in UNARY_OPERATORS - {"logical_not"}
    if operators not in SCALAR_ENGINE_FORMS and not known:
        yield Violation(
            "R102",
            f"tensor_scalar: the scalar engine of NeuronCore-v{target.generation} cannot run "
            f"{' then '.join(operators)} (only multiply, add, or multiply then add); use the "
            "vector engine",
        )


def _tensor_tensor(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    if attrs.get("op") == "power" and attrs.get("engine") == Engine.VECTOR:
        yield Violation("R102", "tensor_tensor: power runs on the gpsimd engine only")


def _activate2(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    form = (attrs.get("op0") or "bypass", attrs.get("op1") or "bypass")
    if form not in ACTIVATE_FORMS:
        allowed = ", ".join(f"({a}, {b})" for a, b in sorted(ACTIVATE_FORMS))
        yield Violation(
            "R097", f"activate2: (op0, op1) = ({', '.join(form)}) is not supported; use {allowed}"
        )
    first, second = operands.get("imm0"), operands.get("imm1")
    if first is not None and second is not None and first.dtype != second.dtype:
        yield Violation(
            "R097",
            f"activate2: imm0 is {first.dtype} and imm1 is {second.dtype}; both must have one type",
            "imm1",
        )
    for name in ("reverse0", "reverse1"):
        if attrs.get(name) and form[int(name[-1])] == "bypass":
            yield Violation("R101", f"activate2: {name} needs an operator op{name[-1]}")


def _exponential(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    for role in ("src", "dst"):
        given: OperandType | None = operands.get(role)
        if given is not None and len(given.shape) > 4:
            yield Violation(
                "R013",
                f"exponential: {role} has {len(given.shape)} dimensions, at most 4 are possible",
                role,
            )
    command = attrs.get("reduce_cmd")
    dst = operands.get("dst")
    if dst is not None and dst.dtype.name == "uint32":
        yield Violation("R097", "exponential: dst cannot be uint32; use int32 or a float", "dst")
    loads = "reduce_init" in operands or attrs.get("reduce_init") not in (None, 0)
    if loads and command != "load_reduce":
        yield Violation(
            "R101", f"exponential: reduce_init goes with load_reduce only, not with {command}"
        )


def _memset(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    dst, value = operands["dst"], attrs.get("value")
    if dst.dtype.name.endswith("_x4") and value != 0:
        yield Violation(
            "R067", f"memset: {dst.dtype} holds four packed values and takes 0 only, got {value}"
        )
    elif dst.dtype.kind in (Kind.SIGNED, Kind.UNSIGNED) and isinstance(value, int | float):
        bits = 8 * dst.dtype.nbytes
        low, high = (0, 2**bits - 1)
        if dst.dtype.kind is Kind.SIGNED:
            low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        if not low <= value <= high or value != int(value):
            yield Violation(
                "R067",
                f"memset: {value} is no value of {dst.dtype}, which has {low} to {high}; take "
                "another type",
                "dst",
            )


_EXP_FLOATS = frozenset(
    {"float8_e4m3", "float8_e5m2", "float16", "bfloat16", "float32", "tfloat32"}
)
_INTEGERS = (Kind.SIGNED, Kind.UNSIGNED)
_EXP_TYPES = "a float or integer type of 8 to 32 bits (float8_e4m3fn apart)"

INSTRUCTIONS = (
    Instruction(
        "activation",
        "Applies a function to scale * data + bias on the Scalar Engine; may sum along the "
        "free axis.",
        "dst = op(data * scale + bias); reduce_res = sum_free(dst)",
        (
            DST,
            DATA,
            Operand("bias", vector=True, optional=True, shape_code="R002"),
            Operand("scale", vector=True, optional=True, shape_code="R004"),
            Operand("reduce_res", vector=True, written=True, optional=True),
        ),
        (Engine.SCALAR,),
        ("op", "bias", "scale", "reduce_op", "reduce_cmd"),
        (
            "bias and scale are numbers or [P, 1]; a number as bias needs NeuronCore-v3",
            "scale is float32",
            "only add can reduce before trn3",
        ),
        elementwise=True,
        check=all_of(
            one_of("activation", "op", ACTIVATION_FUNCTIONS),
            free_size("activation", "data", "dst"),
            _activation,
        ),
    ),
    Instruction(
        "activate2",
        "Combines a tile with two scalars, applies a function, and may reduce, on the Scalar "
        "Engine of NeuronCore-v4.",
        "dst = op((data op0 imm0) op1 imm1); reduce_res = reduce_op_free(dst)",
        (
            DST,
            DATA,
            Operand("imm0", vector=True, optional=True),
            Operand("imm1", vector=True, optional=True),
            Operand("relu_param", vector=True, optional=True),
            Operand("reduce_res", vector=True, written=True, optional=True),
        ),
        (Engine.SCALAR,),
        (
            "op",
            "imm0",
            "imm1",
            "op0",
            "op1",
            "relu_param",
            "reverse0",
            "reverse1",
            "reduce_op",
            "reduce_cmd",
        ),
        (
            "NeuronCore-v4",
            "(op0, op1): multiply with add, subtract or bypass; add, subtract or bypass alone",
            "reduce_op: add, maximum, minimum, abs_max, abs_min",
        ),
        since_generation=4,
        elementwise=True,
        check=all_of(
            one_of("activate2", "op", ACTIVATION_FUNCTIONS),
            one_of(
                "activate2",
                "reduce_op",
                frozenset({"add", "maximum", "minimum", "abs_max", "abs_min"}),
            ),
            free_size("activate2", "data", "dst"),
            _activate2,
        ),
    ),
    Instruction(
        "tensor_tensor",
        "Combines two tiles element by element.",
        "dst = data1 op data2",
        (DST, Operand("data1"), Operand("data2")),
        (Engine.VECTOR, Engine.GPSIMD),
        ("op", "engine"),
        (
            "at most one input in PSUM",
            "bitvec operators need integer types and the Vector Engine",
            "power and 32-bit integer arithmetic run on GpSimd, which reaches no PSUM",
        ),
        elementwise=True,
        check=all_of(
            two_psum_inputs("data1", "data2"),
            operator_types("tensor_tensor", "op", operands=("dst", "data1", "data2")),
            free_size("tensor_tensor", "data1", "data2", "dst"),
            _tensor_tensor,
        ),
    ),
    Instruction(
        "tensor_scalar",
        "Combines a tile with up to two per-partition scalars or numbers.",
        "dst = (data op0 operand0) op1 operand1",
        (
            DST,
            DATA,
            Operand("operand0", vector=True, optional=True),
            Operand("operand1", vector=True, optional=True),
        ),
        (Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD),
        ("op0", "operand0", "reverse0", "op1", "operand1", "reverse1", "engine"),
        (
            "operands are numbers or [P, 1]",
            "op0 and op1 are both bitvec or both arithmetic",
            "bitvec operators need integer types and the Vector Engine",
            "Scalar Engine before trn3: multiply, add, or multiply then add",
        ),
        elementwise=True,
        check=all_of(
            operator_types("tensor_scalar", "op0", "op1"),
            free_size("tensor_scalar", "data", "dst"),
            _tensor_scalar,
        ),
    ),
    Instruction(
        "scalar_tensor_tensor",
        "Combines a tile with a scalar and then with a second tile, in one pass.",
        "dst = (data op0 operand0) op1 operand1",
        (
            DST,
            DATA,
            Operand("operand0", vector=True, optional=True),
            Operand("operand1"),
        ),
        (Engine.VECTOR,),
        ("op0", "operand0", "reverse0", "op1", "reverse1"),
        ("data and operand1 not both in PSUM", "arithmetic operators only"),
        elementwise=True,
        check=all_of(
            two_psum_inputs("data", "operand1"),
            operator_types("scalar_tensor_tensor", "op0", "op1", bitvec=False),
            free_size("scalar_tensor_tensor", "data", "dst"),
        ),
    ),
    Instruction(
        "exponential",
        "Exponential of a tile less a maximum, on the Vector Engine of NeuronCore-v4; may sum "
        "along the free axis.",
        "dst = exp(src - max_value); reduce_res = sum_free(dst)",
        (
            DST,
            Operand("src"),
            Operand("max_value", vector=True, optional=True),
            Operand("reduce_init", vector=True, optional=True),
            Operand("reduce_res", vector=True, written=True, optional=True),
        ),
        (Engine.VECTOR,),
        ("max_value", "reduce_cmd", "reduce_init"),
        ("NeuronCore-v4", "at most 4 dimensions", "reduce_init only with load_reduce"),
        since_generation=4,
        elementwise=True,
        check=all_of(
            one_of(
                "exponential",
                "reduce_cmd",
                frozenset({"idle", "reset_reduce", "reduce", "load_reduce"}),
            ),
            float32_vectors("exponential", "max_value", "reduce_init"),
            types_of("exponential", "dst", _EXP_TYPES, names=_EXP_FLOATS, kinds=_INTEGERS),
            types_of("exponential", "src", _EXP_TYPES, names=_EXP_FLOATS, kinds=_INTEGERS),
            types_of("exponential", "reduce_res", "a float type", kinds=(Kind.FLOAT,)),
            free_size("exponential", "src", "dst"),
            _exponential,
        ),
    ),
    Instruction(
        "tensor_copy",
        "Copies a tile on chip, casting to the type of dst.",
        "dst = cast(src)",
        (DST, Operand("src")),
        (Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD),
        ("engine",),
        (
            "GpSimd reaches no PSUM",
            "exact bit for bit between equal types, apart from the Scalar Engine of NeuronCore-v2; "
            "other casts pass through float32",
        ),
        elementwise=True,
        check=free_size("tensor_copy", "src", "dst"),
    ),
    Instruction(
        "reciprocal",
        "Reciprocal on the Vector Engine.",
        "dst = 1 / data",
        (DST, DATA),
        (Engine.VECTOR,),
        elementwise=True,
        check=free_size("reciprocal", "data", "dst"),
    ),
    Instruction(
        "memset",
        "Fills a tile with a constant.",
        "dst[:] = value",
        (DST,),
        (Engine.VECTOR, Engine.GPSIMD),
        ("value", "engine"),
        ("the value is one of the type of dst; packed types take 0 only",),
        check=_memset,
    ),
)
