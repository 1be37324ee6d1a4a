"""Kernels whose addresses are known at run time only, and what they give."""

from __future__ import annotations

from typing import Any

import numpy as np

CURRENT = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, index):
    out = nl.ndarray({shape}, dtype=x.dtype, buffer=nl.shared_hbm)
    idx = nl.ndarray(index.shape, dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=idx, src=index)
{body}
    return out
"""

LEGACY = """import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x, index):
    out = nl.ndarray({shape}, dtype=x.dtype, buffer=nl.shared_hbm)
    idx = nl.load(index)
{body}
    return out
"""

ROWS = np.array([[3], [0], [7], [3]], dtype=np.int32)
ONE = np.array([[2]], dtype=np.int32)
X = np.arange(8 * 6, dtype=np.float32).reshape(8, 6)
CUBE = np.arange(3 * 4 * 5, dtype=np.float32).reshape(3, 4, 5)


CASES: dict[str, tuple[str, str, Any, Any, Any]] = {
    "gather with ap": (
        CURRENT,
        """
        tile = nl.ndarray((4, 6), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x.ap([[6, 4], [1, 6]], vector_offset=idx, indirect_dim=0))
        nisa.dma_copy(dst=out, src=tile)
        """,
        X,
        ROWS,
        X[ROWS[:, 0]],
    ),
    "gather columns with ap and an offset": (
        CURRENT,
        """
        tile = nl.ndarray((4, 2), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x.ap([[6, 4], [2, 2]], offset=1, vector_offset=idx))
        nisa.dma_copy(dst=out, src=tile)
        """,
        X,
        ROWS,
        X[ROWS[:, 0], 1:5:2],
    ),
    "gather with vector_select": (
        CURRENT,
        """
        tile = nl.ndarray((4, 6), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x.vector_select(0, idx))
        nisa.dma_copy(dst=out, src=tile)
        """,
        X,
        ROWS,
        X[ROWS[:, 0]],
    ),
    "gather rows of several dimensions, sliced and reordered": (
        CURRENT,
        """
        tile = nl.ndarray((4, 2, 3), dtype=x.dtype, buffer=nl.sbuf)
        rows = x.vector_select(0, idx)[:, 1:4, 0:4:2].permute((0, 2, 1))
        nisa.dma_copy(dst=tile, src=rows)
        nisa.dma_copy(dst=out, src=tile)
        """,
        np.concatenate([CUBE] * 3),
        ROWS,
        np.concatenate([CUBE] * 3)[ROWS[:, 0]][:, 1:4, 0:4:2].transpose(0, 2, 1),
    ),
    "gather rows that are flattened": (
        CURRENT,
        """
        tile = nl.ndarray((4, 20), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x.vector_select(0, idx).flatten_dims(1, 2))
        nisa.dma_copy(dst=out, src=tile)
        """,
        np.concatenate([CUBE] * 3),
        ROWS,
        np.concatenate([CUBE] * 3)[ROWS[:, 0]].reshape(4, 20),
    ),
    "scatter": (
        CURRENT,
        """
        tile = nl.ndarray((4, 6), dtype=x.dtype, buffer=nl.sbuf)
        whole = nl.ndarray((8, 6), dtype=x.dtype, buffer=nl.sbuf)
        nisa.memset(whole, -1.0)
        nisa.dma_copy(dst=out, src=whole)
        nisa.dma_copy(dst=tile, src=x[0:4])
        nisa.dma_copy(dst=out.ap([[6, 4], [1, 6]], vector_offset=idx), src=tile)
        """,
        X,
        np.array([[5], [0], [7], [2]], dtype=np.int32),
        np.stack([X[1], -np.ones(6), X[3], -np.ones(6), -np.ones(6), X[0], -np.ones(6), X[2]]),
    ),
    "one block by a number in SBUF": (
        CURRENT,
        """
        tile = nl.ndarray((4, 5), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x.select(0, idx))
        nisa.dma_copy(dst=out, src=tile)
        """,
        CUBE,
        ONE,
        CUBE[2],
    ),
    "one block by ap and scalar_offset": (
        CURRENT,
        """
        tile = nl.ndarray((4, 5), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x.ap([[5, 4], [1, 5]], scalar_offset=idx, indirect_dim=0))
        nisa.dma_copy(dst=out, src=tile)
        """,
        CUBE,
        ONE,
        CUBE[2],
    ),
    "a column of a tile by a number in SBUF": (
        CURRENT,
        """
        tile = nl.ndarray((8, 6), dtype=x.dtype, buffer=nl.sbuf)
        part = nl.ndarray((8, 2), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.tensor_copy(dst=part, src=tile.ap([[6, 8], [1, 2]], scalar_offset=idx,
                                               indirect_dim=1))
        nisa.dma_copy(dst=out, src=part)
        """,
        X,
        ONE,
        X[:, 2:4],
    ),
    "a register": (
        CURRENT,
        """
        tile = nl.ndarray((8, 6), dtype=x.dtype, buffer=nl.sbuf)
        part = nl.ndarray((8, 3), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        place = nisa.register_alloc()
        nisa.register_load(place, idx)
        nisa.tensor_copy(dst=part, src=tile[:, nl.ds(place, 3)])
        nisa.dma_copy(dst=out, src=part)
        """,
        X,
        ONE,
        X[:, 2:5],
    ),
    "a register as an index": (
        CURRENT,
        """
        tile = nl.ndarray((1, 6), dtype=x.dtype, buffer=nl.sbuf)
        place = nisa.register_alloc()
        nisa.register_load(place, idx)
        nisa.dma_copy(dst=tile, src=x[place].reshape((1, 6)))
        nisa.dma_copy(dst=out, src=tile)
        """,
        X,
        ONE,
        X[2:3],
    ),
    "rows outside are skipped": (
        CURRENT,
        """
        tile = nl.ndarray((4, 6), dtype=x.dtype, buffer=nl.sbuf)
        nisa.memset(tile, -1.0)
        nisa.dma_copy(dst=tile, src=x.vector_select(0, idx), oob_mode=nisa.oob_mode.skip)
        nisa.dma_copy(dst=out, src=tile)
        """,
        X,
        np.array([[1], [9], [-1], [7]], dtype=np.int32),
        np.stack([X[1], -np.ones(6), -np.ones(6), X[7]]),
    ),
    "other types": (
        CURRENT,
        """
        tile = nl.ndarray((4, 6), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile.view(nl.int32), src=x.view(nl.int32).vector_select(0, idx))
        nisa.dma_copy(dst=out, src=tile)
        """,
        X,
        ROWS,
        X[ROWS[:, 0]],
    ),
    "legacy rows": (
        LEGACY,
        """
        i_p = nl.arange(4)[:, None]
        i_f = nl.arange(6)[None, :]
        nl.store(out, nl.load(x[idx[i_p, 0], i_f]))
        """,
        X,
        ROWS,
        X[ROWS[:, 0]],
    ),
    "legacy rows under a mask": (
        LEGACY,
        """
        i_p = nl.arange(8)[:, None]
        i_f = nl.arange(6)[None, :]
        tile = nl.full((8, 6), -1, dtype=x.dtype)
        wide = nl.ndarray((8, 1), dtype=idx.dtype)
        wide[0:4, 0:1] = nl.copy(idx)
        tile[i_p, i_f] = nl.load(x[wide[i_p, 0], i_f], mask=(i_p < 3) & (i_f < 5))
        nl.store(out, tile)
        """,
        X,
        ROWS,
        np.pad(X[ROWS[:3, 0], :5], ((0, 5), (0, 1)), constant_values=-1),
    ),
    "legacy block of a tensor": (
        LEGACY,
        """
        i_p = nl.arange(4)[:, None]
        i_f = nl.arange(5)[None, :]
        nl.store(out, nl.load(x[idx[0, 0], i_p, i_f]))
        """,
        CUBE,
        ONE,
        CUBE[2],
    ),
    "legacy rows of a block": (
        LEGACY,
        """
        i_p = nl.arange(4)[:, None]
        i_f = nl.arange(5)[None, :]
        nl.store(out, nl.load(x[1, idx[i_p, 0], i_f]))
        """,
        CUBE,
        np.array([[3], [0], [0], [2]], dtype=np.int32),
        CUBE[1][[3, 0, 0, 2]],
    ),
    "legacy index plus static index": (
        LEGACY,
        """
        i_p = nl.arange(4)[:, None]
        i_f = nl.arange(6)[None, :]
        nl.store(out, nl.load(x[idx[0, 0] + i_p, i_f]))
        """,
        X,
        ONE,
        X[2:6],
    ),
    "legacy scatter": (
        LEGACY,
        """
        i_p = nl.arange(4)[:, None]
        i_f = nl.arange(6)[None, :]
        nl.store(out, nl.full((8, 6), -1, dtype=x.dtype))
        nl.store(out[idx[i_p, 0], i_f], nl.load(x[0:4]))
        """,
        X,
        np.array([[5], [0], [7], [2]], dtype=np.int32),
        np.stack([X[1], -np.ones(6), X[3], -np.ones(6), -np.ones(6), X[0], -np.ones(6), X[2]]),
    ),
    "legacy sum into rows named twice": (
        LEGACY,
        """
        i_p = nl.arange(4)[:, None]
        i_f = nl.arange(6)[None, :]
        nl.store(out, nl.load(x))
        nl.atomic_rmw(out[idx[i_p, 0], i_f], value=nl.full((4, 6), 1, dtype=x.dtype), op=np.add)
        """,
        X,
        ROWS,
        X + np.bincount(ROWS[:, 0], minlength=8)[:, None],
    ),
    "legacy copy from a run-time place": (
        LEGACY,
        """
        i_p = nl.arange(8)[:, None]
        i_f = nl.arange(2)[None, :]
        tile = nl.load(x)
        nl.store(out, nisa.tensor_copy_dynamic_src(tile[i_p, idx[0, 0] + i_f]))
        """,
        X,
        ONE,
        X[:, 2:4],
    ),
    "legacy copy to a run-time place": (
        LEGACY,
        """
        i_p = nl.arange(8)[:, None]
        i_f = nl.arange(2)[None, :]
        tile = nl.full((8, 6), -1, dtype=x.dtype)
        nisa.tensor_copy_dynamic_dst(dst=tile[i_p, idx[0, 0] + i_f], src=nl.load(x[0:8, 0:2]))
        nl.store(out, tile)
        """,
        X,
        ONE,
        np.pad(X[:, :2], ((0, 0), (2, 2)), constant_values=-1),
    ),
    "indices that are not affine": (
        LEGACY,
        """
        i_p = nl.arange(8)[:, None]
        i_f = nl.arange(6)[None, :]
        tile = nl.load(x)
        spread = nl.ndarray((8, 12), dtype=x.dtype)
        i_w = nl.arange(12)[None, :]
        spread[i_p, i_w] = nl.copy(tile[i_p, i_w // 4 + i_w % 3])
        nl.store(out, spread)
        """,
        X,
        ONE,
        X[:, np.arange(12) // 4 + np.arange(12) % 3],
    ),
    "rows that are not affine": (
        LEGACY,
        """
        i_p = nl.arange(8)[:, None]
        i_f = nl.arange(6)[None, :]
        nl.store(out, nl.load(x[i_p // 3, i_f]))
        """,
        X,
        ONE,
        X[np.arange(8) // 3],
    ),
    "quotient and remainder that are affine together": (
        LEGACY,
        """
        i_p = nl.arange(8)[:, None]
        i_f = nl.arange(6)[None, :]
        nl.store(out, nl.load(x[i_p // 2 * 2 + i_p % 2, i_f]))
        """,
        X,
        ONE,
        X,
    ),
    "a mask over both axes": (
        LEGACY,
        """
        i_p = nl.arange(8)[:, None]
        i_f = nl.arange(6)[None, :]
        tile = nl.full((8, 6), -1, dtype=x.dtype)
        tile[i_p, i_f] = nl.load(x[i_p + i_f, i_f], mask=i_p + i_f < 8)
        nl.store(out, tile)
        """,
        X,
        ONE,
        np.array([[X[p + f, f] if p + f < 8 else -1 for f in range(6)] for p in range(8)]),
    ),
    "a mask over both axes of a store": (
        LEGACY,
        """
        i_p = nl.arange(8)[:, None]
        i_f = nl.arange(6)[None, :]
        nl.store(out, nl.full((8, 6), -1, dtype=x.dtype))
        nl.store(out[i_p + i_f, i_f], nl.load(x), mask=i_p + i_f < 8)
        """,
        X,
        ONE,
        np.array([[X[p - f, f] if p >= f else -1 for f in range(6)] for p in range(8)]),
    ),
    "a mask that never holds": (
        LEGACY,
        """
        i_p = nl.arange(8)[:, None]
        i_f = nl.arange(6)[None, :]
        tile = nl.load(x)
        tile[i_p, i_f] = nl.multiply(tile[i_p, i_f], 2, mask=i_p > 8)
        nl.store(out[i_p + 100, i_f], tile, mask=i_p + 100 < 8)
        nl.store(out, tile)
        """,
        X,
        ONE,
        X,
    ),
    "a masked operand": (
        LEGACY,
        """
        i_p = nl.arange(8)[:, None]
        i_f = nl.arange(6)[None, :]
        tile = nl.load(x)
        doubled = nl.multiply(tile[i_f <= 3], 2)
        result = nl.full((8, 6), -1, dtype=x.dtype)
        result[i_p, i_f] = nl.copy(doubled[i_p, i_f], mask=i_f <= 3)
        nl.store(out, result)
        """,
        X,
        ONE,
        np.pad(X[:, :4] * 2, ((0, 0), (0, 2)), constant_values=-1),
    ),
    "a mask over free axes of operand and result": (
        LEGACY,
        """
        i_p = nl.arange(8)[:, None, None]
        i_f = nl.arange(4)[None, :, None]
        i_k = nl.arange(2)[None, None, :]
        tile = nl.load(x)
        result = nl.full((8, 6), -1, dtype=x.dtype)
        result[i_p, 2 * i_f + i_k] = nl.multiply(
            tile[i_p, 2 * i_f + i_k], 2, mask=2 * i_f + i_k < 5)
        nl.store(out, result)
        """,
        X,
        ONE,
        np.pad(X[:, :5] * 2, ((0, 0), (0, 1)), constant_values=-1),
    ),
    "a mask over free axes of a fresh tile": (
        LEGACY,
        """
        i_p = nl.arange(8)[:, None, None]
        i_f = nl.arange(4)[None, :, None]
        i_k = nl.arange(2)[None, None, :]
        tile = nl.load(x)
        doubled = nl.multiply(tile[i_p, 2 * i_f + i_k], 2, mask=2 * i_f + i_k < 5)
        nl.store(out, nl.full((8, 6), -1, dtype=x.dtype))
        nl.store(out[i_p, 2 * i_f + i_k], doubled, mask=2 * i_f + i_k < 5)
        """,
        X,
        ONE,
        np.pad(X[:, :5] * 2, ((0, 0), (0, 1)), constant_values=-1),
    ),
    "a masked sum": (
        LEGACY,
        """
        i_p = nl.arange(8)[:, None]
        i_f = nl.arange(10)[None, :]
        tile = nl.load(x[i_p, i_f], mask=i_f < 6)
        nl.store(out, nl.sum(tile[i_p, i_f], axis=1, keepdims=True, mask=i_f < 6))
        """,
        X,
        ONE,
        X.sum(axis=1, keepdims=True),
    ),
    "a masked product": (
        LEGACY,
        """
        i_p = nl.arange(8)[:, None]
        i_f = nl.arange(6)[None, :]
        tile = nl.load(x)
        both = nl.matmul(tile[i_f <= 3], tile[i_f <= 2], transpose_x=True)
        result = nl.full((6, 6), -1, dtype=x.dtype)
        i_q = nl.arange(6)[:, None]
        result[i_q, i_f] = nl.copy(both[i_q, i_f], mask=(i_q <= 3) & (i_f <= 2))
        nl.store(out, result)
        """,
        X,
        ONE,
        np.pad((X.T @ X)[:4, :3], ((0, 2), (0, 3)), constant_values=-1),
    ),
    "in place under a mask": (
        LEGACY,
        """
        i_p = nl.arange(8)[:, None]
        i_f = nl.arange(6)[None, :]
        tile = nl.load(x)
        tile[i_p, i_f] = nl.add(tile[i_p, i_f], tile[i_p, i_f], mask=i_f >= i_p)
        nl.store(out, tile)
        """,
        X,
        ONE,
        np.where(np.arange(6) >= np.arange(8)[:, None], 2 * X, X),
    ),
    "a transfer under a mask": (
        LEGACY,
        """
        i_p = nl.arange(8)[:, None]
        i_f = nl.arange(6)[None, :]
        tile = nl.full((8, 6), -1, dtype=x.dtype)
        nisa.dma_copy(dst=tile[i_p, i_f], src=x[i_p + 3, i_f], mask=i_p + 3 < 8)
        nl.store(out, tile)
        """,
        X,
        ONE,
        np.pad(X[3:], ((0, 3), (0, 0)), constant_values=-1),
    ),
    "static lists as destinations": (
        LEGACY,
        """
        i_p = nl.arange(8)[:, None]
        i_f = nl.arange(6)[None, :]
        tile = nl.load(x)
        result = nl.ndarray((8, 6), dtype=x.dtype)
        result[i_p, (i_f + 2) % 6] = nl.copy(tile[i_p, i_f])
        nl.store(out, result)
        """,
        X,
        ONE,
        np.roll(X, 2, axis=1),
    ),
    "an index tile of a block dimension": (
        LEGACY,
        """
        i_p = nl.arange(4)[:, None]
        i_f = nl.arange(5)[None, :]
        for block in nl.affine_range(3):
            nl.store(out[block, i_p, i_f], nl.load(x[idx[0, block], i_p, i_f]))
        """,
        CUBE,
        np.array([[2, 0, 1]], dtype=np.int32),
        CUBE[[2, 0, 1]],
    ),
    "a column of an index tile": (
        LEGACY,
        """
        i_p = nl.arange(4)[:, None]
        i_f = nl.arange(6)[None, :]
        for column in nl.affine_range(2):
            nl.store(out[column, i_p, i_f], nl.load(x[idx[i_p, column], i_f]))
        """,
        X,
        np.array([[3, 1], [0, 1], [7, 2], [3, 0]], dtype=np.int32),
        X[np.array([[3, 0, 7, 3], [1, 1, 2, 0]])],
    ),
    "rows by slices of the index tile": (
        CURRENT,
        """
        for column in range(2):
            tile = nl.ndarray((4, 6), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x.ap(
                [[6, 4], [1, 6]], vector_offset=idx.ap([[2, 4], [1, 1]], offset=column)))
            nisa.dma_copy(dst=out[column], src=tile)
        """,
        X,
        np.array([[3, 1], [0, 1], [7, 2], [3, 0]], dtype=np.int32),
        X[np.array([[3, 0, 7, 3], [1, 1, 2, 0]])],
    ),
    "rows in a hardware loop": (
        CURRENT,
        """
        def body(row):
            tile = nl.ndarray((1, 6), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[nl.ds(row, 1), :])
            nisa.dma_copy(dst=out[nl.ds(row, 1), :], src=tile)

        nl.fori_loop(0, 8, body)
        """,
        X,
        ONE,
        X,
    ),
    "products added up at a run-time place": (
        CURRENT,
        """
        tile = nl.ndarray((8, 6), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        bank = nl.ndarray((6, 12), dtype=nl.float32, buffer=nl.psum)
        place = nisa.register_alloc()
        nisa.register_load(place, idx)
        for _ in range(3):
            nisa.nc_matmul(dst=bank[:, nl.ds(place, 6)], stationary=tile, moving=tile)
        result = nl.ndarray((6, 6), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=bank[:, nl.ds(place, 6)])
        nisa.dma_copy(dst=out, src=result)
        """,
        X,
        ONE,
        3 * (X.T @ X),
    ),
    "a sum in place at a run-time place": (
        CURRENT,
        """
        tile = nl.ndarray((8, 6), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        place = nisa.register_alloc()
        nisa.register_load(place, idx)
        part = tile[:, nl.ds(place, 2)]
        nisa.tensor_tensor(dst=part, data1=part, data2=tile[:, 0:2], op=nl.add)
        nisa.dma_copy(dst=out, src=tile)
        """,
        X,
        ONE,
        np.concatenate([X[:, :2], X[:, 2:4] + X[:, :2], X[:, 4:]], axis=1),
    ),
}
