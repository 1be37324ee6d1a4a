"""Reductions, scans and statistics, mostly along the free axis."""

from __future__ import annotations

from collections.abc import Iterator

from accelopt_lsp.nki.dtypes import Kind
from accelopt_lsp.nki.instructions.base import (
    DATA,
    DST,
    SBUF_ONLY,
    Attributes,
    Instruction,
    Operand,
    Operands,
)
from accelopt_lsp.nki.instructions.checks import (
    all_of,
    expect_free,
    float32_vectors,
    free_size,
    one_of,
    operator_types,
    two_psum_inputs,
)
from accelopt_lsp.nki.instructions.operators import (
    ACCUMULATIONS,
    BITVEC_OPERATORS,
    PARTITION_REDUCTIONS,
    REDUCTION_OPERATORS,
)
from accelopt_lsp.nki.instructions.violations import Violation
from accelopt_lsp.nki.operands import Engine
from accelopt_lsp.nki.targets import Target

MAX_FREE_AXES = 4
"""Free axes of an access pattern that a reduction walks (nisa.tensor_reduce, SDK 2.26)."""


def _reduce(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    data, dst = operands["data"], operands.get("dst")
    axes = attrs.get("axis", ())
    rank = len(data.shape)
    if any(a == 0 for a in axes):
        yield Violation("R068", "tensor_reduce cannot reduce the partition axis 0", "data")
        return
    if sorted(axes) != list(range(rank - len(axes), rank)):
        yield Violation(
            "R068",
            f"tensor_reduce axes {list(axes)} must be consecutive and end at the last axis "
            f"{rank - 1}",
            "data",
        )
        return
    if rank - 1 > MAX_FREE_AXES:
        yield Violation(
            "R013",
            f"tensor_reduce: data has {rank - 1} free axes, at most {MAX_FREE_AXES} are possible; "
            "reshape it",
            "data",
        )
    if attrs.get("negate") and attrs.get("op") in BITVEC_OPERATORS:
        yield Violation(
            "R097", f"tensor_reduce: negate goes with arithmetic operators, not with {attrs['op']}"
        )
    kept = 1
    for size in data.shape[1 : rank - len(axes)]:
        kept *= size
    if dst is not None and (dst.partitions, dst.free) != (data.partitions, kept):
        yield Violation(
            "R027",
            f"tensor_reduce: dst is {list(dst.shape)}, the result is [{data.partitions}, {kept}]",
            "dst",
        )


def _scalar_reduce(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    command = attrs.get("reduce_cmd")
    given = "reduce_init" in operands or attrs.get("reduce_init") is not None
    if attrs.get("reverse0"):
        yield Violation(
            "R101",
            "tensor_scalar_reduce: reverse0 is not supported; take tensor_scalar with reverse0 and "
            "tensor_reduce",
        )
    if command == "load_reduce" and not given:
        yield Violation("R101", "tensor_scalar_reduce: load_reduce needs reduce_init")
    if command in ("reset_reduce", "reduce") and given and attrs.get("reduce_init") != 0:
        yield Violation(
            "R101",
            f"tensor_scalar_reduce: reduce_init goes with load_reduce only, not with {command}",
        )


def _cumulative(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    for role in ("src", "dst"):
        given = operands.get(role)
        if given is not None and given.dtype.nbytes == 4 and given.dtype.kind is not Kind.FLOAT:
            yield Violation(
                "R097",
                f"tensor_scalar_cumulative: {role} must not be {given.dtype}; use float32, or an "
                "integer type of 8 or 16 bits",
                role,
            )
    loads = "imm1" in operands or attrs.get("imm1") is not None
    if attrs.get("reduce_cmd") == "load_reduce" and not loads:
        yield Violation("R101", "tensor_scalar_cumulative: load_reduce needs imm1")


def _partition_reduce(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    data, dst = operands["data"], operands.get("dst")
    if dst is not None and (dst.partitions, dst.free) != (1, data.free):
        yield Violation(
            "R027",
            f"tensor_partition_reduce: dst is {list(dst.shape)}, the result is [1, {data.free}]",
            "dst",
        )
    op = attrs.get("op")
    if op in BITVEC_OPERATORS and data.dtype.kind is Kind.FLOAT:
        yield Violation(
            "R097",
            f"tensor_partition_reduce: {op} needs an integer type, data is {data.dtype}",
            "data",
        )


def _bn_stats(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    data, dst = operands["data"], operands.get("dst")
    limit = 512
    if data.free > limit:
        yield Violation(
            "R026",
            f"bn_stats: data has {data.free} elements a partition, at most {limit} are possible; "
            "take the statistics of pieces and merge them with bn_aggr",
            "data",
        )
    yield from expect_free("bn_stats", "dst", dst, 6)
    yield from _equal_partitions("bn_stats", operands)


def _bn_aggr(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    data = operands["data"]
    if data.free % 3:
        yield Violation(
            "R027",
            f"bn_aggr: data has {data.free} elements a partition, it must be triples of count, "
            "mean and variance * count",
            "data",
        )
    yield from expect_free("bn_aggr", "dst", operands.get("dst"), 2)
    yield from _equal_partitions("bn_aggr", operands)


def _equal_partitions(instruction: str, operands: Operands) -> Iterator[Violation]:
    data, dst = operands["data"], operands.get("dst")
    if dst is not None and dst.partitions != data.partitions:
        yield Violation(
            "R024",
            f"{instruction}: data has {data.partitions} partitions, dst has {dst.partitions}",
            "dst",
        )


INSTRUCTIONS = (
    Instruction(
        "tensor_scalar_reduce",
        "Combines a tile with a scalar and reduces the result along the free axis.",
        "dst = data op0 operand0; reduce_res = reduce_op_free(dst)",
        (
            DST,
            DATA,
            Operand("operand0", vector=True, optional=True),
            Operand("reduce_init", vector=True, optional=True),
            Operand("reduce_res", vector=True, written=True, optional=True),
        ),
        (Engine.VECTOR,),
        (
            "op0",
            "operand0",
            "reverse0",
            "reduce_op",
            "reduce_cmd",
            "reduce_init",
            "reduce_res_negate",
        ),
        (
            "arithmetic operators only; reduce_op: add, multiply, maximum, minimum (legacy also "
            "subtract)",
            "reduce_init goes with load_reduce, and only with it",
        ),
        elementwise=True,
        check=all_of(
            operator_types("tensor_scalar_reduce", "op0", bitvec=False),
            one_of("tensor_scalar_reduce", "reduce_op", ACCUMULATIONS),
            one_of(
                "tensor_scalar_reduce",
                "reduce_cmd",
                frozenset({"reset_reduce", "reduce", "load_reduce"}),
            ),
            float32_vectors("tensor_scalar_reduce", "reduce_init"),
            free_size("tensor_scalar_reduce", "data", "dst"),
            _scalar_reduce,
        ),
    ),
    Instruction(
        "tensor_scalar_cumulative",
        "Combines a tile with a scalar and accumulates along the free axis, keeping every "
        "intermediate value.",
        "reg = (src[i] op0 imm0) op1 reg; dst[i] = reg",
        (
            DST,
            Operand("src"),
            Operand("imm0", vector=True, optional=True),
            Operand("imm1", vector=True, optional=True),
        ),
        (Engine.VECTOR,),
        ("op0", "op1", "imm0", "imm1", "reduce_cmd"),
        (
            "op0 arithmetic; op1 add, subtract, multiply, maximum or minimum",
            "no 32-bit integers",
            "imm0 and imm1 are float32",
        ),
        elementwise=True,
        check=all_of(
            operator_types("tensor_scalar_cumulative", "op0", bitvec=False),
            one_of("tensor_scalar_cumulative", "op1", ACCUMULATIONS),
            one_of(
                "tensor_scalar_cumulative",
                "reduce_cmd",
                frozenset({"reset_reduce", "reduce", "load_reduce"}),
            ),
            float32_vectors("tensor_scalar_cumulative", "imm0", "imm1"),
            free_size("tensor_scalar_cumulative", "src", "dst"),
            _cumulative,
        ),
    ),
    Instruction(
        "tensor_tensor_scan",
        "Scan along the free axis: each element depends on the one before it.",
        "r[0] = (data0[0] op0 initial) op1 data1[0]; r[i] = (data0[i] op0 r[i-1]) op1 data1[i]",
        (
            DST,
            Operand("data0"),
            Operand("data1"),
            Operand("initial", vector=True, optional=True),
        ),
        (Engine.VECTOR,),
        ("op0", "op1", "initial", "reverse0", "reverse1"),
        ("data0 and data1 not both in PSUM", "arithmetic operators only"),
        elementwise=True,
        check=all_of(
            two_psum_inputs("data0", "data1"),
            operator_types("tensor_tensor_scan", "op0", "op1", bitvec=False),
            free_size("tensor_tensor_scan", "data0", "data1", "dst"),
        ),
    ),
    Instruction(
        "tensor_reduce",
        "Reduces along the last free axes.",
        "dst = [-] reduce(op, data, last axes)",
        (DST, DATA),
        (Engine.VECTOR,),
        ("op", "axis", "negate", "keepdims"),
        (
            "axes are consecutive, end at the last one, and leave out axis 0",
            "at most 4 free axes",
            "bitvec operators need integer types and take no negate",
        ),
        check=all_of(
            one_of("tensor_reduce", "op", REDUCTION_OPERATORS),
            operator_types("tensor_reduce", "op"),
            free_size("tensor_reduce", "data"),
            _reduce,
        ),
    ),
    Instruction(
        "tensor_partition_reduce",
        "Reduces over partitions on the GpSimd engine.",
        "dst[0, :] = reduce(op, data, partitions)",
        (Operand("dst", SBUF_ONLY, written=True), Operand("data", SBUF_ONLY)),
        (Engine.GPSIMD,),
        ("op",),
        ("op: add, average, maximum, bitwise_or, bitwise_and", "SBUF only"),
        check=all_of(
            one_of("tensor_partition_reduce", "op", PARTITION_REDUCTIONS), _partition_reduce
        ),
    ),
    Instruction(
        "bn_stats",
        "Count, mean and variance * count of the even and of the odd elements of each partition.",
        "dst = (n, mean, n * var) of data[0::2], then of data[1::2]",
        (DST, DATA),
        (Engine.VECTOR,),
        (),
        ("at most 512 elements a partition", "dst has 6 elements a partition"),
        check=_bn_stats,
    ),
    Instruction(
        "bn_aggr",
        "Merges statistics of bn_stats into mean and variance.",
        "dst = (mean, var) of all (n, mean, n * var) in data",
        (DST, DATA),
        (Engine.VECTOR,),
        (),
        ("elements a partition are a multiple of 3", "dst has 2 elements a partition"),
        check=_bn_aggr,
    ),
)
