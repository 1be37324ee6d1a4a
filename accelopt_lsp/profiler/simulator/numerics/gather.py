"""Numerics of gathers and shuffles."""

from __future__ import annotations

import numpy as np

from accelopt_lsp.nki.instructions.gather import CORE_PARTITIONS, QUADRANT, UNMODIFIED
from accelopt_lsp.profiler.simulator.errors import KernelRejected
from accelopt_lsp.profiler.simulator.numerics.base import (
    REMARKS,
    WHERE,
    Attributes,
    Inputs,
    Results,
    computes,
)


@computes("local_gather")
def _local_gather(inputs: Inputs, attrs: Attributes) -> Results:
    """Lists of indices run along partitions first; what leaves the tile is its last element."""
    src, index = inputs["src_buffer"], inputs["index"]
    rows = src.shape[0]
    cores = rows // CORE_PARTITIONS
    columns = src.reshape(cores, CORE_PARTITIONS, -1)
    count, run = attrs["num_valid_indices"], attrs["num_elem_per_idx"]
    lists = index.reshape(cores, CORE_PARTITIONS, -1).transpose(0, 2, 1).reshape(cores, -1)
    places = lists[:, :count, None].astype(np.int64) + np.arange(run)
    size = columns.shape[2]
    if places.size and places.max() >= size:
        REMARKS.append(
            f"local_gather: an index reaches element {places.max()} of {size}, which is undefined"
        )
        places = np.minimum(places, size - 1)
    gathered = np.take_along_axis(columns, places.reshape(cores, 1, -1), axis=2)
    return {"dst": gathered.reshape(rows, -1)}


@computes("nc_n_gather")
def _nc_n_gather(inputs: Inputs, attrs: Attributes) -> Results:
    data, indices = inputs["data"], inputs["indices"]
    rows = data.reshape(data.shape[0], -1)
    places = indices.reshape(indices.shape[0], -1).astype(np.int64)
    if places.size and places.max() >= rows.shape[1]:
        raise KernelRejected(
            f"nc_n_gather: index {places.max()} is out of bounds for {rows.shape[1]} elements a "
            "partition",
            "R028",
        )
    return {"dst": np.take_along_axis(rows, places, axis=1)}


@computes("nc_stream_shuffle")
def _nc_stream_shuffle(inputs: Inputs, attrs: Attributes) -> Results:
    """Entries beyond the source's partitions read what is not part of it: nothing is written."""
    src = inputs["src"]
    mask = np.asarray(attrs["shuffle_mask"], dtype=np.int64)
    rows = np.arange(attrs["shapes"]["dst"][0])
    entry = mask[rows % QUADRANT]
    source = rows // QUADRANT * QUADRANT + entry
    inside = (entry != UNMODIFIED) & (source < src.shape[0])
    beyond = (entry != UNMODIFIED) & ~inside
    if beyond.any():
        REMARKS.append(
            f"nc_stream_shuffle: partition {source[beyond][0]} is beyond src, which has "
            f"{src.shape[0]}; the simulator writes nothing there"
        )
    moved = src.reshape(src.shape[0], -1)[np.where(inside, source, 0)]
    written = np.broadcast_to(inside[:, None], moved.shape)
    return {"dst": moved, WHERE: {"dst": written}}
