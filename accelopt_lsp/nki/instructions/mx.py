"""Instructions on microscaling formats: packed values, and one scale for every 32 of them."""

from __future__ import annotations

from collections.abc import Iterator

from accelopt_lsp.nki.instructions.base import (
    PSUM_ONLY,
    SBUF_ONLY,
    Attributes,
    Check,
    Instruction,
    Operand,
    Operands,
)
from accelopt_lsp.nki.instructions.checks import all_of, expect_free, types_of
from accelopt_lsp.nki.instructions.violations import Violation
from accelopt_lsp.nki.operands import Engine, OperandType
from accelopt_lsp.nki.targets import Target

GROUP_PARTITIONS = 8
"""A scale belongs to 8 partitions of 4 values each."""
PACKED = frozenset({"float8_e5m2_x4", "float8_e4m3fn_x4", "float4_e2m1fn_x4"})
_QUANTIZED = PACKED - {"float4_e2m1fn_x4"}
_SCALES = frozenset({"float8_e8m0fnu", "uint8"})
_OFFSETS = (0, 4, 8, 12)
"""Partitions of a quadrant at which scales may begin (mxfp-matmul, section on packing)."""


def scale_rows(partitions: int) -> int:
    """Partitions that the scales of so many partitions of data reach over.

    Four stand in each quadrant of 32 partitions.
    """
    groups = partitions // GROUP_PARTITIONS
    return (groups - 1) // 4 * 32 + (groups - 1) % 4 + 1


def _scales(
    instruction: str, role: str, given: OperandType, data: OperandType, columns: int
) -> Iterator[Violation]:
    wanted = scale_rows(data.partitions)
    if given.partitions < wanted:
        yield Violation(
            "R073",
            f"{instruction}: {role} has {given.partitions} partitions; the scales of "
            f"{data.partitions} partitions reach over {wanted}, four in each quadrant of 32",
            role,
        )
    if given.free < columns:
        yield Violation(
            "R073",
            f"{instruction}: {role} has {given.free} elements a partition, {columns} are needed",
            role,
        )
    if given.start_partition % 32 not in _OFFSETS:
        yield Violation(
            "R100",
            f"{instruction}: {role} starts at partition {given.start_partition}; scales start at "
            "partition 0, 4, 8 or 12 of a quadrant",
            role,
        )


def _contraction(instruction: str, role: str, given: OperandType) -> Iterator[Violation]:
    if given.partitions % 32:
        yield Violation(
            "R073",
            f"{instruction}: {role} has {given.partitions} partitions; they must be a multiple of "
            "32, so pad them",
            role,
        )


def _matmul(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    stationary, moving, dst = operands["stationary"], operands["moving"], operands["dst"]
    if stationary.partitions != moving.partitions:
        yield Violation(
            "R024",
            f"nc_matmul_mx: stationary has {stationary.partitions} partitions (contraction), "
            f"moving has {moving.partitions}",
            "moving",
        )
    yield from _contraction("nc_matmul_mx", "stationary", stationary)
    limit = target.integer("stationary_free_max")
    if stationary.free % 2 or stationary.free > limit:
        yield Violation(
            "R073",
            f"nc_matmul_mx: stationary has {stationary.free} elements a partition; it must be an "
            f"even number up to {limit}",
            "stationary",
        )
    limit = target.integer("psum_partition_bytes") // dst.dtype.nbytes
    if moving.free > limit:
        yield Violation(
            "R026",
            f"nc_matmul_mx: moving has {moving.free} elements a partition, at most {limit} fit "
            f"PSUM as {dst.dtype}",
            "moving",
        )
    if (dst.partitions, dst.free) != (stationary.free, moving.free):
        yield Violation(
            "R027",
            f"nc_matmul_mx: dst is {list(dst.shape)}, stationary.T @ moving is "
            f"[{stationary.free}, {moving.free}]",
            "dst",
        )
    for role, data in (("stationary_scale", stationary), ("moving_scale", moving)):
        yield from _scales("nc_matmul_mx", role, operands[role], data, data.free)
    yield from _tiling(stationary, attrs)


def _tiling(stationary: OperandType, attrs: Attributes) -> Iterator[Violation]:
    position, size = attrs.get("tile_position"), attrs.get("tile_size")
    if position is None and size is None:
        return
    if position is None or size is None or len(position) != 2 or len(size) != 2:
        yield Violation(
            "R101", "nc_matmul_mx: tile_position and tile_size are given together, as pairs"
        )
        return
    (row, column), (rows, columns) = position, size
    if not all(isinstance(n, int) for n in (row, column, rows, columns)):
        return
    if columns != 128 or column != 0 or rows not in (32, 64, 128):
        yield Violation(
            "R073",
            f"nc_matmul_mx: tile_size {size} at {position}; only rows are tiled, by 32, 64 or "
            "128, with all 128 columns from column 0",
        )
    elif row % rows or not 0 <= row < 128:
        yield Violation(
            "R101",
            f"nc_matmul_mx: tile_position starts at row {row}; it must be a multiple of the "
            f"tile's {rows} rows, below 128",
        )
    elif stationary.partitions > rows:
        yield Violation(
            "R026",
            f"nc_matmul_mx: stationary has {stationary.partitions} partitions, more than the "
            f"{rows} rows of tile_size",
            "stationary",
        )


def _quantize(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    src, dst = operands["src"], operands["dst"]
    yield from _contraction("quantize_mx", "src", src)
    if dst.partitions != src.partitions:
        yield Violation(
            "R024",
            f"quantize_mx: dst has {dst.partitions} partitions, src has {src.partitions}",
            "dst",
        )
    if src.free % 4:
        yield Violation(
            "R073",
            f"quantize_mx: src has {src.free} elements a partition; they must be a multiple of 4",
            "src",
        )
    else:
        yield from expect_free("quantize_mx", "dst", dst, src.free // 4)
    yield from _scales("quantize_mx", "dst_scale", operands["dst_scale"], src, dst.free)


def _scale_types(instruction: str, *roles: str) -> Check:
    return all_of(
        *(types_of(instruction, r, "float8_e8m0fnu or uint8", names=_SCALES) for r in roles)
    )


_PACKED_TYPES = "float8_e5m2_x4, float8_e4m3fn_x4 or float4_e2m1fn_x4"

INSTRUCTIONS = (
    Instruction(
        "nc_matmul_mx",
        "Matrix product of two tiles in a microscaling format; packed values are unpacked and "
        "scaled on the way.",
        "dst[M,N] (+)= sum_kq (scale * stationary)[k,q,M] * (scale * moving)[k,q,N]",
        (
            Operand("dst", PSUM_ONLY, written=True),
            Operand("stationary", SBUF_ONLY),
            Operand("moving", SBUF_ONLY),
            Operand("stationary_scale", SBUF_ONLY, anywhere=True),
            Operand("moving_scale", SBUF_ONLY, anywhere=True),
        ),
        (Engine.TENSOR,),
        ("accumulate", "tile_position", "tile_size"),
        (
            "from trn3 on",
            "contraction on a multiple of 32 partitions, four values in each element",
            "stationary free size even, at most 128; moving at most 4096 (bfloat16 dst: 8192)",
            "scales of 32 values (8 partitions x 4), four partitions in each quadrant of 32",
            "dst float32 or bfloat16",
        ),
        since_generation=4,
        check=all_of(
            _matmul,
            types_of("nc_matmul_mx", "stationary", _PACKED_TYPES, names=PACKED),
            types_of("nc_matmul_mx", "moving", _PACKED_TYPES, names=PACKED),
            _scale_types("nc_matmul_mx", "stationary_scale", "moving_scale"),
            types_of(
                "nc_matmul_mx",
                "dst",
                "float32 or bfloat16",
                names=frozenset({"float32", "bfloat16"}),
            ),
        ),
    ),
    Instruction(
        "quantize_mx",
        "Divides every 32 values (8 partitions x 4) by a power of two, which is their scale, and "
        "packs the quotients as 8-bit floats.",
        "X = 2^(floor(log2(max|src|)) - Emax); dst = saturate(src / X); dst_scale = X",
        (
            Operand("dst", SBUF_ONLY, written=True),
            Operand("src", SBUF_ONLY),
            Operand("dst_scale", SBUF_ONLY, written=True, anywhere=True),
            Operand("kept", optional=True, anywhere=True),
        ),
        (Engine.VECTOR,),
        (),
        (
            "from trn3 on",
            "src float16 or bfloat16, dst float8_e5m2_x4 or float8_e4m3fn_x4",
            "a multiple of 32 partitions and of 4 elements a partition",
            "scales stand on four partitions in each quadrant of 32",
        ),
        since_generation=4,
        check=all_of(
            _quantize,
            types_of(
                "quantize_mx",
                "src",
                "float16 or bfloat16",
                names=frozenset({"float16", "bfloat16"}),
            ),
            types_of("quantize_mx", "dst", "float8_e5m2_x4 or float8_e4m3fn_x4", names=_QUANTIZED),
            _scale_types("quantize_mx", "dst_scale"),
        ),
    ),
)
