"""Limits of tiles whose columns are gathered or scattered by ``indirect`` (NeuronCore-v4).

From the sections on tensor indirection of ``nki.isa`` (NKI 0.6): who may be indirect, on which
engines, and where indices start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from accelopt_lsp.nki.instructions.violations import Violation
from accelopt_lsp.nki.operands import Buffer, DynamicKind, Engine, OperandType
from accelopt_lsp.nki.targets import Target

QUADRANT = 32

ROLES: Mapping[str, tuple[str, ...]] = {
    "tensor_copy": ("dst", "src"),
    "tensor_copy_predicated": ("dst", "predicate", "kept"),
    "nc_matmul": ("dst", "stationary", "moving"),
    "nc_matmul_mx": ("dst", "stationary", "moving", "stationary_scale", "moving_scale"),
    "tensor_tensor": ("dst", "data1"),
    "tensor_scalar": ("dst", "data"),
    "tensor_reduce": ("dst", "data"),
    "tensor_scalar_cumulative": ("dst", "src"),
    "activation": ("dst", "data"),
    "activate2": ("dst", "data"),
    "exponential": ("dst", "src"),
    "tensor_scalar_reduce": ("dst", "data"),
}
"""Operands that may be indirect. The second one's partition is where a scattered ``dst`` has its
index."""

_TENSOR_ENGINE = frozenset({"float16", "bfloat16", "float8_e4m3", "float8_e5m2", "float8_e4m3fn"})


def is_indirect(given: OperandType) -> bool:
    return given.dynamic is not None and given.dynamic.kind is DynamicKind.GATHER


def indirection(
    instruction: str,
    operands: Mapping[str, OperandType],
    attrs: Mapping[str, Any],
    target: Target,
) -> Iterator[Violation]:
    """What is wrong with an instruction's indirect operands."""
    for role, given in operands.items():
        if is_indirect(given):
            yield from _operand(instruction, role, given, operands, attrs, target)


def _operand(
    instruction: str,
    role: str,
    given: OperandType,
    operands: Mapping[str, OperandType],
    attrs: Mapping[str, Any],
    target: Target,
) -> Iterator[Violation]:
    if target.generation < 4:
        yield Violation(
            "R095",
            f"{instruction}: {role} by .indirect() needs NeuronCore-v4; {target.name} is "
            f"NeuronCore-v{target.generation}",
            role,
        )
    roles = ROLES.get(instruction, ())
    if role not in roles:
        allowed = " and ".join(roles) or "no operand"
        yield Violation(
            "R087",
            f"{instruction}: {role} cannot be indirect ({allowed} can); gather it into a tile "
            "with tensor_copy first",
            role,
        )
        return
    engine = attrs.get("engine")
    if instruction == "tensor_copy" and engine is Engine.GPSIMD:
        yield Violation(
            "R087",
            f"tensor_copy: {role} is indirect, which the vector and the scalar engine can do, not "
            "gpsimd",
            role,
        )
    yield from _start(instruction, role, given, operands)
    if role == "dst" and engine is Engine.SCALAR and given.buffer is Buffer.PSUM:
        yield Violation(
            "R087",
            f"{instruction}: the Scalar Engine cannot scatter to PSUM; use another engine",
            role,
        )
    if instruction.startswith("nc_matmul"):
        yield from _product(instruction, role, given, attrs)


def _start(
    instruction: str, role: str, given: OperandType, operands: Mapping[str, OperandType]
) -> Iterator[Violation]:
    """Where the index of an operand must begin."""
    assert given.dynamic is not None
    index = given.dynamic.index
    if index is None:
        return
    if index.start_partition % QUADRANT:
        yield Violation(
            "R087",
            f"{instruction}: the index of {role} must start at a multiple of 32 partitions, it "
            f"starts at {index.start_partition}",
            role,
        )
        return
    partner, wanted = role, given.start_partition
    if role == "dst":
        partner = ROLES[instruction][1]
        source = operands.get(partner)
        if source is None:
            return
        wanted = source.start_partition
        if source.buffer is Buffer.PSUM:
            if not is_indirect(source) or source.dynamic is None or source.dynamic.index is None:
                return
            partner, wanted = f"the index of {partner}", source.dynamic.index.start_partition
    elif role == "kept":
        return
    if index.start_partition != wanted:
        yield Violation(
            "R087",
            f"{instruction}: {partner} starts at partition {wanted}, the index of {role} at "
            f"{index.start_partition}; both must start at the same",
            role,
        )


def _product(
    instruction: str, role: str, given: OperandType, attrs: Mapping[str, Any]
) -> Iterator[Violation]:
    """Matrix products: no tiling, no transpose of gathered columns, 8- and 16-bit floats."""
    position = attrs.get("tile_position")
    if position and tuple(position) != (0, 0):
        yield Violation(
            "R087",
            f"{instruction}: {role} is indirect, which does not go with tile_position {position}; "
            "leave it out",
            role,
        )
    if role == "moving" and attrs.get("is_transpose"):
        yield Violation("R087", f"{instruction}: moving cannot be indirect in a transpose", role)
    if instruction == "nc_matmul" and role != "dst" and given.dtype.name not in _TENSOR_ENGINE:
        yield Violation(
            "R087",
            f"{instruction}: {role} is indirect and {given.dtype}; only floats of 8 and 16 bits "
            "can be gathered",
            role,
        )
