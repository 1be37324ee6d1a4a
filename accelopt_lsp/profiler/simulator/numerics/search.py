"""Numerics of searches."""

from __future__ import annotations

import numpy as np

from accelopt_lsp.profiler.simulator.elements import Array, unwritten
from accelopt_lsp.profiler.simulator.numerics.base import (
    PARTS,
    WHERE,
    Attributes,
    Inputs,
    Results,
    computes,
)
from accelopt_lsp.profiler.simulator.numerics.operators import as_float

ABSENT = np.int64(0xFFFFFFFF)
"""Position of a value that is not there: all bits set, in 16 bits as well once it is clipped."""
LANES = 16
"""Partitions of one core of GpSimd."""


@computes("max8")
def _max8(inputs: Inputs, attrs: Attributes) -> Results:
    src = as_float(inputs["src"])
    rows = src.reshape(src.shape[0], -1)
    if rows.shape[1] > 64:
        rows = np.partition(rows, rows.shape[1] - 8, axis=1)[:, -8:]
    return {"dst": np.sort(rows, axis=1)[:, :-9:-1]}


def find8(data: Array, vals: Array, *, backwards: bool) -> Array:
    """Position of each of 8 values in its row, -1 for none.

    Equal values take occurrences in ascending order, the first value the first one; the last
    value the first one if ``backwards``. Integers are compared as such, all else in float32.

    Args:
        data: ``[P, F]``.
        vals: ``[P, 8]``.
    """
    if not (data.dtype.kind in "iu" and vals.dtype.kind in "iu"):
        data, vals = as_float(data), as_float(vals)
    found = np.full(vals.shape, -1, dtype=np.int64)
    same = vals[:, :, None] == vals[:, None, :]
    count = vals.shape[1]
    order = np.arange(count)
    before = order[None, :] > order[:, None] if backwards else order[None, :] < order[:, None]
    rank = (same & before).sum(axis=2)
    for j in range(count):
        hits = data == vals[:, j : j + 1]
        at = np.where(hits.any(axis=1), hits.argmax(axis=1), -1)
        late = np.flatnonzero(rank[:, j])
        if late.size:
            passed = hits[late].cumsum(axis=1)
            wanted = passed == rank[late, j, None] + 1
            at[late] = np.where(wanted.any(axis=1), wanted.argmax(axis=1), -1)
        found[:, j] = at
    return found


def _flat(values: Array) -> Array:
    return values.reshape(values.shape[0], -1)


@computes("nc_find_index8")
def _find_index8(inputs: Inputs, attrs: Attributes) -> Results:
    found = find8(_flat(inputs["data"]), _flat(inputs["vals"]), backwards=False)
    return {"dst": np.where(found < 0, ABSENT, found)}


@computes("nc_match_replace8")
def _match_replace8(inputs: Inputs, attrs: Attributes) -> Results:
    data = inputs["data"]
    rows = _flat(data)
    found = find8(rows, _flat(inputs["vals"]), backwards=True)
    replaced = as_float(rows).copy()
    row, column = np.nonzero(found >= 0)
    replaced[row, found[row, column]] = np.float32(attrs["imm"])
    return {
        "dst": replaced.reshape(data.shape),
        "dst_idx": np.where(found < 0, ABSENT, found),
    }


@computes("topk")
def _topk(inputs: Inputs, attrs: Attributes) -> Results:
    """All 16 partitions of a core get the same; of equal values the first are taken."""
    n, k = attrs["n"], attrs["shapes"]["dst"][1]
    src = _flat(as_float(inputs["src"]))
    rows, columns = src.shape
    snakes = src.reshape(rows // LANES, LANES, columns).transpose(0, 2, 1)
    snakes = snakes.reshape(rows // LANES, -1)[:, :n]
    largest = np.argsort(-snakes, axis=1, kind="stable")[:, :k][:, ::-1]
    values = np.take_along_axis(snakes, largest, axis=1)
    return {
        "dst": np.repeat(values, LANES, axis=0),
        "idx_dst": np.repeat(largest, LANES, axis=0),
    }


@computes("nonzero_with_count")
def _nonzero_with_count(inputs: Inputs, attrs: Attributes) -> Results:
    src = _flat(inputs["src"])
    rows, size = src.shape
    result = np.full((rows, size + 1), attrs["padding_val"], dtype=np.int32)
    for p in range(0, rows, LANES):
        positions = np.flatnonzero(src[p])
        result[p, : positions.size] = positions + attrs["index_offset"]
        result[p, size] = positions.size
    written = np.zeros((rows, size + 1), dtype=bool)
    written[::LANES] = ~unwritten(src[::LANES]).all(axis=1, keepdims=True)
    return {"dst": result, WHERE: {"dst": written}}


@computes("sequence_bounds")
def _sequence_bounds(inputs: Inputs, attrs: Attributes) -> Results:
    ids = inputs["segment_ids"].reshape(-1)
    n = ids.size
    begins = np.concatenate([[True], ids[1:] != ids[:-1]])
    starts = np.maximum.accumulate(np.where(begins, np.arange(n), 0))
    edges = np.append(np.flatnonzero(begins), n)
    ends = edges[np.cumsum(begins)]
    padding = ids == 0
    return {"dst": np.stack([np.where(padding, n, starts), np.where(padding, -1, ends)])}


def _searched(values: Array, attrs: Attributes) -> Array:
    """A core reads its first partition; one that nothing was written to gives nothing."""
    lanes = values[::LANES].reshape(-(-values.shape[0] // LANES), -1)
    found: Array = lanes[~lanes.all(axis=1)]
    return found


PARTS["nonzero_with_count"] = _searched
PARTS["topk"] = lambda values, attrs: values.reshape(values.shape[0], -1)[:, : attrs["n"] // LANES]
