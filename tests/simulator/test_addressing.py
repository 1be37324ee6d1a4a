"""Addresses that are known at run time only, masks, and views that do not exist."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accelopt_lsp.nki.costs import instruction_cost
from accelopt_lsp.nki.dtypes import FLOAT32
from accelopt_lsp.nki.operands import Buffer, row_major_strides
from accelopt_lsp.nki.targets import get_target
from accelopt_lsp.profiler.simulator import kernels as running
from accelopt_lsp.profiler.simulator.errors import IndexOutside, KernelRejected
from accelopt_lsp.profiler.simulator.kernels import Outcome
from accelopt_lsp.profiler.simulator.launch import convert_input
from accelopt_lsp.profiler.simulator.library import OPERATOR_NAMES
from accelopt_lsp.profiler.simulator.memory import FULL, Memory
from accelopt_lsp.profiler.simulator.replay import Recording, replay
from accelopt_lsp.profiler.simulator.session import Session
from accelopt_lsp.profiler.simulator.source import Sources
from accelopt_lsp.profiler.simulator.tensors import Tensor
from tests.simulator.helpers import Runner

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


def written(template: str, shape: Any, body: str) -> str:
    text = indent(dedent(body), "    ")
    return template.replace("{shape}", str(list(shape))).replace("{body}", text)


def given_values(outcome: Outcome) -> np.ndarray[Any, Any]:
    return outcome.outputs[0].reshape(outcome.tensors[0].shape)


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


@pytest.mark.parametrize("name", CASES)
def test_addresses(name: str, run_text: Runner) -> None:
    template, body, x, index, expected = CASES[name]
    text = written(template, expected.shape, body)
    outcome = run_text(text, x, index, target="trn2")
    np.testing.assert_array_equal(given_values(outcome), expected)


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


@pytest.mark.parametrize("name", REJECTED)
def test_rejected(name: str, run_text: Runner) -> None:
    template, body, index, code, words = REJECTED[name]
    with pytest.raises(KernelRejected, match=words) as caught:
        run_text(written(template, (8, 6), body), X, index, target="trn2")
    assert caught.value.code == code


def test_the_first_element_outside_is_known(run_text: Runner) -> None:
    body = """
    i_p = nl.arange(4)[:, None]
    i_f = nl.arange(6)[None, :]
    nl.store(out, nl.load(x[idx[i_p, 0], i_f]))
    """
    with pytest.raises(IndexOutside) as caught:
        run_text(written(LEGACY, (4, 6), body), X, ROWS + 3)
    assert (caught.value.position, caught.value.size) == (60, 48)


def numbered(shape: tuple[int, ...], buffer: Buffer) -> Tensor:
    """A tensor whose elements are numbered."""
    rows, row = shape[0], int(np.prod(shape[1:]))
    memory = Memory(0, buffer, FLOAT32, rows, row, "t", 1)
    memory.array = np.arange(rows * row, dtype=np.float32)
    memory.state = FULL
    return Tensor(memory, shape, row_major_strides(shape), 0, FLOAT32, buffer)


REARRANGED = [
    ((2, 12), ("b", ("h", "w")), ("b", "w", "h"), {"h": 3}, (2, 4, 3)),
    ((2, 12), ("b", ("h", "w")), ("b", "h", "w"), {"w": 3}, (2, 4, 3)),
    ((2, 3, 4), ("p", "a", "b"), ("p", ("a", "b")), {}, (2, 12)),
    ((2, 3, 4, 5), ("p", "a", "b", "c"), ("p", "c", ("a", "b")), None, (2, 5, 12)),
    ((2, 24), ("p", ("a", "b", "c")), ("p", "c", "a", "b"), {"a": 2, "b": 3}, (2, 4, 2, 3)),
]


@pytest.mark.parametrize(("shape", "before", "after", "sizes", "wanted"), REARRANGED)
def test_rearranged(shape: Any, before: Any, after: Any, sizes: Any, wanted: Any) -> None:
    view = numbered(shape, Buffer.SBUF).rearrange(before, after, sizes)
    plain = np.arange(np.prod(shape)).reshape(shape)
    names: dict[str, int] = dict(sizes or {})
    split: list[int] = []
    for group, size in zip(before, shape, strict=True):
        group = group if isinstance(group, tuple) else (group,)
        known = int(np.prod([names[n] for n in group if n in names]))
        for name in group:
            names.setdefault(name, size // known)
            split.append(names[name])
    order = [n for g in before for n in (g if isinstance(g, tuple) else (g,))]
    flat = [n for g in after for n in (g if isinstance(g, tuple) else (g,))]
    plain = plain.reshape(split).transpose([order.index(n) for n in flat]).reshape(wanted)
    assert view.shape == wanted
    np.testing.assert_array_equal(view.array(), plain)


PARTITIONS = [
    lambda t: t.permute((1, 0)),
    lambda t: t.expand_dim(0),
    lambda t: t.reshape((3, 8)),
    lambda t: t.flatten_dims(0, 1),
    lambda t: t.reshape_dim(0, (2, 2)),
    lambda t: t.slice(0, 0, 4, 2),
    lambda t: t[0:1].squeeze_dim(0),
    lambda t: t[0:1].broadcast(0, 4),
    lambda t: t[:, 0:5].reshape((4, 6)),
    lambda t: t.slice(1, 4, 2),
    lambda t: t.select(1, 6),
    lambda t: t.reshape((4, 5)),
    lambda t: t.ap([[1, 4], [1, 6]]),
    lambda t: t.ap([[6, 4], [1, 7]]),
    lambda t: t.view("int8")[:, 1:8].view("float32"),
    lambda t: t[:, 0:6:2].view("int16"),
]


@pytest.mark.parametrize("number", range(len(PARTITIONS)))
def test_views_that_do_not_exist(number: int) -> None:
    with pytest.raises(KernelRejected):
        PARTITIONS[number](numbered((4, 6), Buffer.SBUF))


MASKS = ["{a} * i_p + {b} * i_f < {c}", "i_p + {a} <= i_f", "i_f > {b}", "i_p < {a}"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.data())
def test_random_masks_leave_out_what_they_should(run_text: Runner, data: Any) -> None:
    terms = [
        data.draw(st.sampled_from(MASKS)).format(
            a=data.draw(st.integers(0, 3)),
            b=data.draw(st.integers(0, 3)),
            c=data.draw(st.integers(-1, 30)),
        )
        for _ in range(data.draw(st.integers(1, 3)))
    ]
    shift_p, shift_f = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))
    mask = " & ".join(f"({t})" for t in [*terms, f"i_p + {shift_p} < 8", f"i_f + {shift_f} < 6"])
    body = f"""
    i_p = nl.arange(8)[:, None]
    i_f = nl.arange(6)[None, :]
    tile = nl.full((8, 6), -1, dtype=x.dtype)
    tile[i_p, i_f] = nl.load(x[i_p + {shift_p}, i_f + {shift_f}], mask={mask})
    tile[i_p, i_f] = nl.multiply(tile[i_p, i_f], 2, mask={mask})
    nl.store(out, nl.full((8, 6), -1, dtype=x.dtype))
    nl.store(out[i_p + {shift_p}, i_f + {shift_f}], tile[i_p, i_f], mask={mask})
    """
    i_p, i_f = np.ogrid[0:8, 0:6]
    holds = eval(mask, {}, {"i_p": i_p, "i_f": i_f})  # noqa: S307 - one of the terms above
    expected = np.full((8, 6), -1.0)
    for p, f in np.argwhere(np.broadcast_to(holds, (8, 6))):
        expected[p + shift_p, f + shift_f] = 2 * X[p + shift_p, f + shift_f]
    outcome = run_text(written(LEGACY, (8, 6), body), X, ONE)
    np.testing.assert_array_equal(given_values(outcome), expected)


@pytest.mark.parametrize("name", CASES)
def test_places_are_found_again_when_a_trace_is_computed(
    name: str, stand_ins: None, tmp_path: Path
) -> None:
    template, body, x, index, expected = CASES[name]
    text = written(template, expected.shape, body)
    path = tmp_path / "case.py"
    path.write_text(text)
    names: dict[str, Any] = {"__name__": "case"}
    exec(compile(text, str(path), "exec"), names)  # noqa: S102 - one of the texts above
    kernel = names["kernel"]
    session = Session(
        get_target("trn2"), kernel.dialect, Sources(str(path)), full=False, names=OPERATOR_NAMES
    )
    session.recording = []
    values = [convert_input(v) for v in (x, index)]
    outcome = running.execute(kernel, values, {}, session)
    notes = Recording.of(session.recording, [*session.inputs, *outcome.tensors])
    for factor in (1, 2):
        # A seed leaves nothing behind that the next one could see.
        pairs = [(session.inputs[0], x * factor), (session.inputs[1], index)]
        replay(session, notes, pairs)
    values = [convert_input(v) for v in (x * 2, index)]
    direct = Session(
        get_target("trn2"), kernel.dialect, Sources(str(path)), full=True, names=OPERATOR_NAMES
    )
    np.testing.assert_array_equal(
        running.outputs_of(outcome)[0], running.execute(kernel, values, {}, direct).outputs[0]
    )


def _issues(outcome: Outcome, op: str) -> list[Any]:
    trace = outcome.session.trace
    issues = [trace.templates[number].issue for number, _ in trace.records]
    return [issue for issue in issues if issue.op == op]


def _traced(name: str, run_text: Runner) -> Outcome:
    template, body, x, index, expected = CASES[name]
    text = written(template, expected.shape, body)
    return run_text(text, x, index, target="trn2", full=False)


def test_an_offset_read_by_the_instruction_costs_600_cycles(run_text: Runner) -> None:
    (copy,) = _issues(_traced("a column of a tile by a number in SBUF", run_text), "tensor_copy")
    target = get_target("trn2")
    cost = instruction_cost("tensor_copy", copy.engine, copy.work, target)
    still = instruction_cost("tensor_copy", copy.engine, evolve(copy.work, dynamic=False), target)
    assert cost is not None and still is not None
    clock = target["vector_clock"]
    assert cost.busy_ns - still.busy_ns == pytest.approx((600 - 64) / clock)
    assert ("src_index", "src.index") in copy.operands


@pytest.mark.parametrize("name", ["gather with ap", "gather with vector_select", "legacy rows"])
def test_a_gather_takes_a_descriptor_a_row(name: str, run_text: Runner) -> None:
    gather = next(i for i in _issues(_traced(name, run_text), "dma_copy") if len(i.operands) > 2)
    assert (gather.work.dma.descriptors, gather.work.dma.descriptor_bytes) == (4, 24)


def test_a_mask_that_never_holds_issues_nothing(run_text: Runner) -> None:
    outcome = _traced("a mask that never holds", run_text)
    assert not _issues(outcome, "tensor_scalar")
    # The index, x, and the store whose mask is left out.
    assert len(_issues(outcome, "dma_copy")) == 3
