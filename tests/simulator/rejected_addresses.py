"""Addresses that no kernel may use, and what must be said of them."""

from __future__ import annotations

import numpy as np

from tests.simulator.address_cases import CURRENT, LEGACY, ROWS

REJECTED = {
    "an index outside": (
        CURRENT,
        """
        tile = nl.ndarray((4, 6), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x.vector_select(0, idx))
        nisa.dma_copy(dst=out, src=tile)
        """,
        np.array([[1], [9], [0], [7]], dtype=np.int32),
        "R028",
        "is 9, which leaves a dimension of size 8",
    ),
    "two run-time indices": (
        CURRENT,
        """
        x.vector_select(0, idx).select(1, idx[0:1])
        """,
        ROWS,
        "R083",
        "one run-time index only",
    ),
    "slicing what is indexed": (
        CURRENT,
        """
        x.vector_select(0, idx)[0:2]
        """,
        ROWS,
        "R081",
        "cannot be sliced",
    ),
    "another type after indexing": (
        CURRENT,
        """
        x.vector_select(0, idx).view(nl.int32)
        """,
        ROWS,
        "R083",
        "cannot change its type",
    ),
    "an index that was never written": (
        CURRENT,
        """
        never = nl.ndarray((4, 1), dtype=nl.int32, buffer=nl.sbuf)
        tile = nl.ndarray((4, 6), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x.vector_select(0, never))
        """,
        ROWS,
        "R099",
        "never written",
    ),
    "both kinds of offset": (
        CURRENT,
        """
        x.ap([[6, 4], [1, 6]], vector_offset=idx, scalar_offset=idx)
        """,
        ROWS,
        "R083",
        "cannot be combined",
    ),
    "indices of a free dimension": (
        LEGACY,
        """
        i_p, i_f = nl.mgrid[0:4, 0:6]
        nl.load(x[idx[i_p, 0], i_f])
        """,
        ROWS,
        "R017",
        "nl.mgrid",
    ),
    "a transposing load of indexed rows": (
        LEGACY,
        """
        i_p = nl.arange(4)[:, None]
        i_f = nl.arange(6)[None, :]
        nl.load_transpose2d(x[idx[i_p, 0], i_f])
        """,
        ROWS,
        "R016",
        "takes no run-time indices",
    ),
    "several indices within a tile": (
        LEGACY,
        """
        i_p = nl.arange(4)[:, None]
        tile = nl.load(x)
        nl.copy(tile[i_p, idx[i_p, 0]])
        """,
        ROWS,
        "R011",
        "tensor_copy_dynamic_src",
    ),
}
