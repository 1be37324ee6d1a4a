"""Instructions that choose between values, and patterns of integers."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from accelopt_lsp.nki.dtypes import Kind
from accelopt_lsp.nki.instructions.base import (
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
    float32_vectors,
    one_of,
    two_psum_inputs,
    types_of,
)
from accelopt_lsp.nki.instructions.violations import Violation
from accelopt_lsp.nki.operands import Engine
from accelopt_lsp.nki.targets import Target

COMPARISONS = frozenset({"equal", "less", "less_equal", "greater", "greater_equal"})
LARGEST_FLOAT = (2 - 2**-23) * 2.0**127
EXACT_INTEGERS = 2**24
"""Integers below this are exact in float32, in which range_select compares positions."""


def _pattern(instruction: str) -> Check:
    """Limits of the access pattern of iota and affine_select."""

    def check(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
        pattern = attrs["pattern"]
        if len(pattern) > 4:
            yield Violation(
                "R013",
                f"{instruction}: pattern has {len(pattern)} dimensions, at most 4 are possible",
            )
        count, free = prod(num for _, num in pattern), operands["dst"].free
        if count != free:
            yield Violation(
                "R027",
                f"{instruction}: pattern {[list(p) for p in pattern]} makes {count} values a "
                f"partition, dst has {free} elements a partition",
                "dst",
            )

    return check


def _range_select(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    value = attrs.get("on_false_value")
    # Half an ulp: decimal spellings that round to the smallest float32 are as good.
    if not isinstance(value, int | float) or abs(value + LARGEST_FLOAT) >= 2.0**103:
        yield Violation(
            "R069",
            f"range_select: on_false_value must be the smallest float32, "
            f"{-LARGEST_FLOAT:.8g}, got {value}; leave it out",
        )
    tile, start = operands["on_true_tile"], attrs.get("range_start", 0)
    if isinstance(start, int) and start + tile.free > EXACT_INTEGERS:
        yield Violation(
            "R026",
            f"range_select: range_start {start} plus {tile.free} elements exceeds 2^24, where "
            "positions stop being exact in float32",
            "on_true_tile",
        )


def _maximum_only(instruction: str) -> Check:
    def check(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
        op = attrs.get("reduce_op", "maximum")
        if op != "maximum":
            yield Violation("R101", f"{instruction}: reduce_op must be maximum, got {op}")

    return check


def _not_wide(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    tile = operands["on_true"]
    if tile.dtype.name in ("tfloat32", "int32", "uint32"):
        yield Violation(
            "R097",
            f"select_reduce: on_true cannot be {tile.dtype}; use tensor_copy_predicated",
            "on_true",
        )


def _copy_predicated(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    predicate, src, dst = operands["predicate"], operands.get("src"), operands["dst"]
    if predicate.dtype.kind not in (Kind.UNSIGNED, Kind.BOOL):
        yield Violation(
            "R097",
            f"tensor_copy_predicated: predicate must be uint8, uint16 or uint32, it is "
            f"{predicate.dtype}",
            "predicate",
        )
    if src is not None and src.dtype != dst.dtype:
        yield Violation(
            "R097",
            f"tensor_copy_predicated: src is {src.dtype} and dst is {dst.dtype}; both must have "
            "one type, so cast src with tensor_copy first",
            "src",
        )


_FLOATS = (Kind.FLOAT,)

INSTRUCTIONS = (
    Instruction(
        "affine_select",
        "Keeps elements where an affine expression of their position meets a comparison with 0, "
        "and replaces the others by a constant.",
        "dst = where(cmp_op(offset + p*channel_multiplier + sum_i step_i*idx_i, 0), "
        "on_true_tile, on_false_value)",
        (Operand("dst", SBUF_ONLY, written=True), Operand("on_true_tile", SBUF_ONLY)),
        (Engine.GPSIMD,),
        ("pattern", "channel_multiplier", "offset", "cmp_op", "on_false_value"),
        (
            "SBUF only",
            "pattern of up to four [step, num], as many values as elements a partition",
            "legacy: pred is one affine comparison",
        ),
        elementwise=True,
        check=all_of(
            _pattern("affine_select"),
            one_of("affine_select", "cmp_op", COMPARISONS | {"not_equal"}),
        ),
    ),
    Instruction(
        "range_select",
        "Keeps elements whose position lies between two bounds, replaces the others by the "
        "smallest float32, and may take the maximum along the free axis.",
        "i = range_start + arange(F); m = comp_op0(i, bound0) & comp_op1(i, bound1); "
        "dst = where(m, on_true_tile, FP32_MIN); reduce_res = max_free(dst)",
        (
            DST,
            Operand("on_true_tile"),
            Operand("bound0", vector=True),
            Operand("bound1", vector=True),
            Operand("reduce_res", vector=True, written=True, optional=True),
        ),
        (Engine.VECTOR,),
        ("comp_op0", "comp_op1", "reduce_cmd", "reduce_op", "range_start", "on_false_value"),
        (
            "from trn2 on",
            "comparators: equal, less, less_equal, greater, greater_equal",
            "on_false_value must be the smallest float32",
            "range_start + position below 2^24",
            "keep reduce_res in float32 where dst is narrower: its masked rows become -inf",
        ),
        since_generation=3,
        elementwise=True,
        check=all_of(
            one_of("range_select", "comp_op0", COMPARISONS),
            one_of("range_select", "comp_op1", COMPARISONS),
            _maximum_only("range_select"),
            _range_select,
            types_of("range_select", "on_true_tile", "a float type", kinds=_FLOATS),
            float32_vectors("range_select", "bound0", "bound1"),
        ),
    ),
    Instruction(
        "select_reduce",
        "Chooses between a tile and a scalar by a predicate, and may take the maximum along the "
        "free axis.",
        "dst = where(predicate ^ reverse_pred, on_true, on_false); reduce_res = max_free(dst)",
        (
            DST,
            Operand("predicate"),
            Operand("on_true"),
            Operand("on_false", vector=True, optional=True),
            Operand("reduce_res", vector=True, written=True, optional=True),
        ),
        (Engine.VECTOR,),
        ("on_false", "reduce_cmd", "reduce_op", "reverse_pred"),
        (
            "at most one of predicate and on_true in PSUM",
            "predicate of 8- or 16-bit integers",
            "on_true of any type but tfloat32 and 32-bit integers",
            "reduce_op maximum only, reduce_res of a float type",
        ),
        elementwise=True,
        check=all_of(
            two_psum_inputs("on_true", "predicate"),
            types_of(
                "select_reduce",
                "predicate",
                "an 8- or 16-bit integer",
                kinds=(Kind.SIGNED, Kind.UNSIGNED, Kind.BOOL),
                bytes_below=4,
            ),
            _not_wide,
            types_of("select_reduce", "reduce_res", "a float type", kinds=_FLOATS),
            _maximum_only("select_reduce"),
        ),
    ),
    Instruction(
        "tensor_copy_predicated",
        "Copies elements of a tile, or a number, where a predicate holds; the others stay.",
        "dst = where(predicate ^ reverse_pred, src, dst)",
        (DST, Operand("src", optional=True), Operand("predicate"), KEPT),
        (Engine.VECTOR,),
        ("src", "reverse_pred"),
        (
            "at most one of src and predicate in PSUM",
            "predicate of unsigned integers",
            "src and dst of one type",
        ),
        elementwise=True,
        check=all_of(two_psum_inputs("src", "predicate"), _copy_predicated),
    ),
    Instruction(
        "iota",
        "Fills a tile with an affine pattern of 32-bit integers, cast to its type.",
        "dst[p, idx] = offset + p*channel_multiplier + sum_i step_i*idx_i",
        (Operand("dst", SBUF_ONLY, written=True),),
        (Engine.GPSIMD,),
        ("pattern", "offset", "channel_multiplier"),
        ("SBUF only", "pattern of up to four [step, num], as many values as elements a partition"),
        check=_pattern("iota"),
    ),
)
