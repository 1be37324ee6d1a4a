"""Instructions that find values and their positions."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from accelopt_lsp.nki.instructions.base import (
    DATA,
    DST,
    KEPT,
    SBUF_ONLY,
    Attributes,
    Check,
    Instruction,
    Operand,
    Operands,
)
from accelopt_lsp.nki.instructions.checks import (
    all_of,
    expect_free,
    free_between,
    same_partitions,
    types_of,
)
from accelopt_lsp.nki.instructions.violations import Violation
from accelopt_lsp.nki.operands import Engine
from accelopt_lsp.nki.targets import Target

SEARCH_MAX = 16384
"""Elements a partition that max8 and its relatives look through."""
_INDICES = frozenset({"uint16", "uint32"})
_NUMBERS = frozenset({"float32", "int32"})


def eight(instruction: str, *roles: str) -> Check:
    def check(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
        for role in roles:
            yield from expect_free(instruction, role, operands.get(role), 8)

    return check


def _match_replace(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    data, dst = operands["data"], operands["dst"]
    yield from expect_free("nc_match_replace8", "dst", dst, data.free)


def _topk(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    n, k = attrs["n"], operands["dst"].free
    src = operands["src"]
    if not 8 <= n < 65536:
        yield Violation("R026", f"topk: n must be from 8 to 65535, got {n}")
    if not 1 <= k < 32768 or k > n:
        yield Violation(
            "R026", f"topk: val_dst has k={k} elements a partition; 1 <= k < 32768 and k <= n={n}"
        )
    if src.free < ceil(n / 16):
        yield Violation(
            "R026",
            f"topk: n={n} elements in 16 partitions need {ceil(n / 16)} columns, src has "
            f"{src.free}",
            "src",
        )
    if src.partitions % 16:
        yield Violation(
            "R026", f"topk: {src.partitions} partitions; they must be a multiple of 16", "src"
        )
    yield from expect_free("topk", "idx_dst", operands["idx_dst"], k)


def _nonzero(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    src = operands["src"]
    yield from expect_free("nonzero_with_count", "dst", operands["dst"], src.free + 1)
    for name in ("index_offset", "padding_val"):
        value = attrs.get(name, 0)
        if isinstance(value, int) and not -(2**31) <= value < 2**31:
            yield Violation("R101", f"nonzero_with_count: {name}={value} is no 32-bit integer")


def _bounds(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    ids, dst = operands["segment_ids"], operands["dst"]
    for role, given in (("segment_ids", ids), ("dst", dst)):
        if given.partitions != 1:
            yield Violation(
                "R026",
                f"sequence_bounds: {role} has {given.partitions} partitions, it must have 1",
                role,
            )
    yield from expect_free("sequence_bounds", "dst", dst, 2 * ids.free)


def _numbers(instruction: str, role: str) -> Check:
    return types_of(instruction, role, "float32 or int32", names=_NUMBERS)


INSTRUCTIONS = (
    Instruction(
        "max8",
        "The 8 largest values of each partition, in descending order.",
        "dst[p] = sort(src[p])[:-9:-1]",
        (DST, Operand("src")),
        (Engine.VECTOR,),
        (),
        (
            "8 to 16384 elements a partition",
            "src of up to 3 dimensions (legacy: 5), dst [P, 8]",
        ),
        check=all_of(
            free_between("max8", "src", 8, SEARCH_MAX),
            eight("max8", "dst"),
            same_partitions("max8", "dst", "src"),
        ),
    ),
    Instruction(
        "nc_find_index8",
        "Position of the first occurrence of each of 8 values in its partition; equal values "
        "take occurrences in ascending order, absent ones all bits set.",
        "dst[p, j] = min{i : data[p, i] = vals[p, j], i not taken by an earlier equal value}",
        (DST, DATA, Operand("vals", vector=True)),
        (Engine.VECTOR,),
        (),
        (
            "8 to 16384 elements a partition",
            "vals and dst have 8 elements a partition",
            "dst of uint16 or uint32",
        ),
        check=all_of(
            free_between("nc_find_index8", "data", 8, SEARCH_MAX),
            eight("nc_find_index8", "vals", "dst"),
            same_partitions("nc_find_index8", "dst", "data", "vals"),
            types_of("nc_find_index8", "dst", "uint16 or uint32", names=_INDICES),
        ),
    ),
    Instruction(
        "nc_match_replace8",
        "Replaces the first occurrence of each of 8 values by a number and may tell where they "
        "were; of equal values the last takes the first occurrence.",
        "for j in 7..0: i = min{i : data[p, i] = vals[p, j], i not taken}; dst[p, i] = imm; "
        "dst_idx[p, j] = i",
        (
            DST,
            DATA,
            Operand("vals", vector=True),
            Operand("dst_idx", written=True, optional=True),
        ),
        (Engine.VECTOR,),
        ("imm",),
        (
            "up to 16384 elements a partition",
            "vals and dst_idx have 8 elements a partition",
            "dst_idx of uint16 or uint32",
        ),
        check=all_of(
            free_between("nc_match_replace8", "data", 1, SEARCH_MAX),
            eight("nc_match_replace8", "vals", "dst_idx"),
            same_partitions("nc_match_replace8", "dst", "data", "vals", "dst_idx"),
            _match_replace,
            types_of("nc_match_replace8", "dst_idx", "uint16 or uint32", names=_INDICES),
        ),
    ),
    Instruction(
        "topk",
        "The k largest of n values that snake through 16 partitions, in ascending order, with "
        "their positions.",
        "snake[e] = src[e % 16, e // 16]; dst = sort(snake[:n])[-k:]; idx_dst = its positions",
        (
            Operand("dst", SBUF_ONLY, written=True),
            Operand("idx_dst", SBUF_ONLY, written=True),
            Operand("src", SBUF_ONLY),
        ),
        (Engine.GPSIMD,),
        ("n",),
        (
            "src and val_dst bfloat16, idx_dst uint32",
            "8 <= n < 65536, 1 <= k < 32768, k <= n",
            "partitions a multiple of 16, at least n/16 columns",
        ),
        check=all_of(
            _topk,
            same_partitions("topk", "dst", "idx_dst", "src"),
            types_of("topk", "src", "bfloat16", names=frozenset({"bfloat16"})),
            types_of("topk", "dst", "bfloat16", names=frozenset({"bfloat16"})),
            types_of("topk", "idx_dst", "uint32", names=frozenset({"uint32"})),
        ),
    ),
    Instruction(
        "nonzero_with_count",
        "Positions of the elements that are not zero, then padding, then how many there are; "
        "only partitions 0, 16, ..., 112 take part.",
        "dst[p] = [*(nonzero(src[p]) + index_offset), padding_val, ..., count]",
        (Operand("dst", SBUF_ONLY, written=True), Operand("src", SBUF_ONLY), KEPT),
        (Engine.GPSIMD,),
        ("index_offset", "padding_val"),
        (
            "from trn2 on",
            "src float32 or int32, dst int32 with one element a partition more",
        ),
        since_generation=3,
        check=all_of(
            _nonzero,
            same_partitions("nonzero_with_count", "dst", "src"),
            _numbers("nonzero_with_count", "src"),
            types_of("nonzero_with_count", "dst", "int32", names=frozenset({"int32"})),
        ),
    ),
    Instruction(
        "sequence_bounds",
        "Where the segment of each element begins and ends; padding (id 0) gets (n, -1).",
        "dst[0, 0, i], dst[0, 1, i] = start and end of the run of equal ids around i",
        (Operand("dst", SBUF_ONLY, written=True), Operand("segment_ids", SBUF_ONLY)),
        (Engine.GPSIMD,),
        (),
        ("one partition", "float32 or int32"),
        check=all_of(
            _bounds,
            _numbers("sequence_bounds", "segment_ids"),
            _numbers("sequence_bounds", "dst"),
        ),
    ),
)
