"""Calls of selections and patterns."""

from __future__ import annotations

from math import prod
from typing import Any

from accelopt_lsp.nki.dtypes import get_dtype
from accelopt_lsp.nki.instruction_calls.base import (
    default_copy_engine,
    numbers,
    operand_or_number,
    optional_tiles,
    reads_registers,
)
from accelopt_lsp.nki.lowering import Builder, LoweringError, lowers
from accelopt_lsp.nki.operands import Buffer, Condition, NestedPattern, OperandType, Pattern

Steps = tuple[tuple[int, int], ...]
"""``[step, num]`` of each free axis."""


def steps_of(pattern: Any) -> Steps:
    """The ``pattern=`` of a call.

    Raises:
        LoweringError: it is no list of [step, num] pairs.
    """
    wrong = LoweringError(f"pattern must be a list of [step, num], got {pattern!r}")
    if not isinstance(pattern, tuple | list):
        raise wrong
    for pair in pattern:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise wrong
    return tuple((step, int(num)) for step, num in pattern)


def along(term: Pattern, shape: tuple[int, ...]) -> tuple[int, Steps]:
    """An affine index over a tile: its change from one partition to the next, and its free axes.

    The index is broadcast to the tile as NumPy does; where its free axes are cut otherwise than
    the tile's, both walk through the same elements.

    Raises:
        LoweringError: the index does not cover the tile.
    """
    lead = len(shape) - len(term.shape)
    sizes, strides = term.shape, term.strides
    if lead >= 0:
        sizes, strides = (1,) * lead + sizes, (0,) * lead + strides
    fits = len(sizes) == len(shape) and all(a in (1, b) for a, b in zip(sizes, shape, strict=True))
    if fits:
        steps = tuple(
            (0 if own == 1 else stride, size)
            for own, stride, size in zip(sizes[1:], strides[1:], shape[1:], strict=True)
        )
        return (0 if sizes[0] == 1 else strides[0]), steps
    if sizes[0] != shape[0] or prod(sizes[1:]) != prod(shape[1:]):
        raise LoweringError(
            f"the index expression has shape {list(term.shape)}, the tile {list(shape)}", "R027"
        )
    return strides[0], tuple(zip(strides[1:], sizes[1:], strict=True))


@lowers("nisa.affine_select")
def _affine_select(b: Builder) -> None:
    """Legacy kernels select in PSUM, which GpSimd cannot reach: a copy goes before it."""
    tile = b.tile("on_true_tile")
    dst = b.destination(tile.shape, b.dtype(tile.dtype))
    source = "on_true_tile"
    if b.legacy and tile.buffer is Buffer.PSUM:
        source = b.temporary(tile.shape, tile.dtype)
        b.emit("tensor_copy", default_copy_engine(b, tile), {}, dst=source, src="on_true_tile")
    if "pred" in b.values:
        attrs = _compared(b.values["pred"], tile)
    else:
        attrs = {
            "pattern": steps_of(b.values["pattern"]),
            "channel_multiplier": b.values["channel_multiplier"],
            "offset": b.values.get("offset") or 0,
            "cmp_op": b.values.get("cmp_op") or "equal",
        }
    attrs["on_false_value"] = _number(b, "on_false_value")
    b.emit("affine_select", None, attrs, dst=dst, on_true_tile=source)


def _compared(predicate: Any, tile: OperandType) -> dict[str, Any]:
    """A legacy predicate as a pattern that is compared with 0.

    Raises:
        LoweringError: it is no single affine comparison.
    """
    terms = predicate.terms if isinstance(predicate, Condition) else ()
    comparison = "greater_equal"
    if len(terms) == 2 and terms[0].negated() == terms[1]:
        comparison, terms = "equal", terms[:1]
    if len(terms) != 1:
        raise LoweringError(
            "pred must be one affine comparison of indices, without & or |; use several "
            "instructions",
            "R057",
        )
    multiplier, steps = along(terms[0], tile.shape)
    return {
        "pattern": steps,
        "channel_multiplier": multiplier,
        "offset": terms[0].offset,
        "cmp_op": comparison,
    }


def _number(b: Builder, name: str) -> Any:
    value = operand_or_number(b, name)
    if value is None or isinstance(value, str):
        raise LoweringError(f"{name} must be a number")
    return value


@lowers("nisa.iota")
def _iota(b: Builder) -> None:
    if "expr" in b.values:
        expression = b.values["expr"]
        if not isinstance(expression, Pattern | NestedPattern):
            raise LoweringError(
                "expr must be an expression of nl.arange that at most four nested steps make, got "
                f"{expression!r}",
                "R033",
            )
        if b.values.get("dtype") is None:
            raise LoweringError("dtype is missing")
        if len(expression.shape) < 2:
            raise LoweringError(
                "expr needs a partition and a free axis, as in nl.arange(512)[None, :]", "R001"
            )
        dst = b.returns(expression.shape, b.dtype(get_dtype("int32")))
        offset = expression.offset
        if isinstance(expression, NestedPattern):
            multiplier, steps = expression.multiplier, expression.steps
        else:
            multiplier, steps = along(expression, expression.shape)
    else:
        b.tile("dst")
        dst = "dst"
        steps = steps_of(b.values["pattern"])
        multiplier = b.values.get("channel_multiplier") or 0
        offset = b.values.get("offset") or 0
    attrs = {"pattern": steps, "offset": offset, "channel_multiplier": multiplier}
    b.emit("iota", None, attrs, dst=dst)


@lowers("nisa.range_select")
def _range_select(b: Builder) -> None:
    tile = b.tile("on_true_tile")
    dst = b.destination(tile.shape, b.dtype(tile.dtype))
    attrs = {
        "comp_op0": b.values["comp_op0"],
        "comp_op1": b.values["comp_op1"],
        "reduce_op": b.values.get("reduce_op") or "maximum",
        "range_start": b.values.get("range_start") or 0,
        "on_false_value": _number(b, "on_false_value"),
        **reads_registers(b, "idle" if b.legacy else "reset_reduce"),
    }
    b.tile("bound0"), b.tile("bound1")
    operands = optional_tiles(b, "bound0", "bound1", "reduce_res")
    b.emit("range_select", None, attrs, dst=dst, on_true_tile="on_true_tile", **operands)


@lowers("nisa.select_reduce")
def _select_reduce(b: Builder) -> None:
    b.tile("dst"), b.tile("predicate"), b.tile("on_true")
    attrs = {
        "reduce_op": b.values.get("reduce_op") or "maximum",
        "reverse_pred": bool(b.values.get("reverse_pred")),
        **numbers(b, "on_false"),
        **reads_registers(b, "idle"),
    }
    operands = optional_tiles(b, "on_false", "reduce_res")
    if "on_false" not in operands and "on_false" not in attrs:
        raise LoweringError("on_false must be a number or a [P, 1] tile")
    b.emit(
        "select_reduce",
        None,
        attrs,
        dst="dst",
        predicate="predicate",
        on_true="on_true",
        **operands,
    )


@lowers("nisa.tensor_copy_predicated")
def _tensor_copy_predicated(b: Builder) -> None:
    b.tile("dst"), b.tile("predicate")
    attrs = {"reverse_pred": bool(b.values.get("reverse_pred")), **numbers(b, "src")}
    operands = optional_tiles(b, "src")
    if not operands and "src" not in attrs:
        raise LoweringError("src must be a tile or a number")
    b.emit(
        "tensor_copy_predicated",
        None,
        attrs,
        dst="dst",
        predicate="predicate",
        kept="dst",
        **operands,
    )
