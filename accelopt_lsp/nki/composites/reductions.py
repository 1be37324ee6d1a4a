"""Reductions of ``nki.language``."""

from __future__ import annotations

from math import ceil, prod

from accelopt_lsp.nki.composites.spread import columns_of, flat_tile, short_name
from accelopt_lsp.nki.dtypes import FLOAT32
from accelopt_lsp.nki.instruction_calls.base import (
    default_copy_engine,
    emit_reduce,
    emit_tensor_scalar,
    reduce_axes,
    reduced_shape,
)
from accelopt_lsp.nki.lowering import Builder, LoweringError, lowers

_REDUCTIONS = {
    "sum": "add",
    "max": "maximum",
    "min": "minimum",
    "prod": "multiply",
    "all": "logical_and",
}
_STATS = 6
"""Values that bn_stats leaves for one group: count, mean and variance of evens and of odds."""


@lowers(*(f"nl.{n}" for n in _REDUCTIONS), "nl.mean")
def _reduction(b: Builder) -> None:
    name = short_name(b)
    x = b.tile("x")
    axes = reduce_axes(b.values["axis"], len(x.shape))
    shape = reduced_shape(x.shape, axes, bool(b.values.get("keepdims")))
    dtype = b.dtype(x.dtype)
    if name != "mean":
        emit_reduce(b, b.returns(shape, dtype), "x", _REDUCTIONS[name], axes)
        return
    total = b.temporary(shape, FLOAT32)
    emit_reduce(b, total, "x", "add", axes)
    count = x.elements // max(b.types[total].elements, 1)
    emit_tensor_scalar(b, b.returns(shape, dtype), total, "multiply", 1.0 / count)


@lowers("nl.var")
def _var(b: Builder) -> None:
    """bn_stats of up to 512 elements each, merged by bn_aggr, whose second value is kept.

    Inferred: it is what these two instructions are for. The current dialect keeps the reduced
    axes whatever ``keepdims`` says.
    """
    x = b.tile("x")
    rank = len(x.shape)
    axes = reduce_axes(b.values["axis"], rank)
    if axes != tuple(range(rank - len(axes), rank)) or 0 in axes:
        raise LoweringError(f"nl.var reduces the last free axes, not {list(axes)}", "R068")
    group = prod(x.shape[a] for a in axes)
    groups = x.free // group
    flat = flat_tile(b, "x")
    limit = int(b.target.get("bn_stats_free_max") or 512)
    chunks = ceil(group / limit)
    shape = reduced_shape(x.shape, axes, not b.legacy)
    dst = b.returns(shape, b.dtype(x.dtype))
    for number in range(groups):
        stats = b.temporary((x.partitions, _STATS * chunks), FLOAT32)
        for chunk in range(chunks):
            start = number * group + chunk * limit
            stop = min(start + limit, (number + 1) * group)
            data = columns_of(b, flat, start, stop)
            out = columns_of(b, stats, _STATS * chunk, _STATS * (chunk + 1))
            b.emit("bn_stats", None, {}, dst=out, data=data)
        merged = b.temporary((x.partitions, 2), FLOAT32)
        b.emit("bn_aggr", None, {}, dst=merged, data=stats)
        variance = columns_of(b, merged, 1, 2)
        target = dst if groups == 1 else columns_of(b, dst, number, number + 1)
        engine = default_copy_engine(b, b.types[variance])
        b.emit("tensor_copy", engine, {}, dst=target, src=variance)


@lowers("nl.all_reduce")
def _all_reduce(b: Builder) -> None:
    """Over a single program: a copy."""
    x = b.tile("x")
    dst = b.returns(x.shape, b.dtype(x.dtype))
    b.emit("tensor_copy", default_copy_engine(b, x), {}, dst=dst, src="x")
