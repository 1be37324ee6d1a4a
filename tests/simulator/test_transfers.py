"""DMAs that gather, scatter, skip, transpose and add: kernels against NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import dedent, indent
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from accelopt_lsp.profiler.simulator import kernels as running
from accelopt_lsp.profiler.simulator.errors import KernelRejected
from accelopt_lsp.profiler.simulator.launch import convert_input
from accelopt_lsp.profiler.simulator.replay import Recording, replay
from accelopt_lsp.profiler.simulator.session import Session
from tests.simulator.helpers import Runner

CURRENT = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, index):
    out = nl.ndarray({shape}, dtype=x.dtype, buffer=nl.shared_hbm)
    idx = nl.load(index)
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
RANDOM = np.random.default_rng(3)
BF16 = ml_dtypes.bfloat16


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    return RANDOM.standard_normal(shape).astype(dtype)


def picks(high: int, *shape: int, dtype: Any = np.int32) -> Any:
    return RANDOM.integers(0, high, shape).astype(dtype)


def column(values: Any) -> Any:
    return np.asarray(values).reshape(-1, 1)


TABLE, WIDE = numbers(512, 128, dtype=BF16), picks(512, 128, 2, dtype=np.uint32)
CUBES, CUBE_ROWS = numbers(200, 1, 3, 64, dtype=BF16), picks(200, 128, 1, dtype=np.uint32)
SHORT, AROUND = numbers(40, 32), np.arange(-3, 61, dtype=np.int32).reshape(64, 1)
INSIDE = (AROUND[:, 0] >= 0) & (AROUND[:, 0] < 40)
TILE16, COLUMNS = numbers(128, 30), picks(30, 128, 1, dtype=np.uint16)
ODD = picks(2**31 - 1, 16, 8)


def skipped(rows: int) -> Any:
    wanted = np.full((64, 32), -1, dtype=np.float32)
    wanted[INSIDE] = SHORT[AROUND[INSIDE, 0]]
    return wanted[:rows]


def indirect(tile: Any, index: Any, count: int) -> Any:
    """Offset i of a group of 16 partitions is ``index[i % 16, i // 16]``."""
    rows = [
        [tile[p, index[p // 16 * 16 + i % 16, i // 16]] for i in range(count)] for p in range(128)
    ]
    return np.array(rows, dtype=tile.dtype)


CASES: dict[str, tuple[str, str, str, Any, Any, Any]] = {
    "gather and transpose with indices in two columns": (
        "trn2",
        CURRENT,
        """
        tile = nl.ndarray((128, 256), dtype=x.dtype, buffer=nl.sbuf)
        rows = x.ap(pattern=[[128, 256], [1, 128]], vector_offset=idx, indirect_dim=0)
        nisa.dma_transpose(dst=tile, src=rows, axes=(1, 0))
        nisa.dma_copy(dst=out, src=tile)
        """,
        TABLE,
        WIDE,
        TABLE[WIDE.T.reshape(-1)].T,
    ),
    "gather and transpose of four dimensions": (
        "trn2",
        CURRENT,
        """
        tile = nl.ndarray((64, 1, 3, 128), dtype=x.dtype, buffer=nl.sbuf)
        rows = x.ap([[192, 128], [192, 1], [64, 3], [1, 64]], vector_offset=idx)
        nisa.dma_transpose(dst=tile, src=rows)
        nisa.dma_copy(dst=out, src=tile)
        """,
        CUBES,
        CUBE_ROWS,
        CUBES[CUBE_ROWS[:, 0]].transpose(3, 1, 2, 0),
    ),
    "transpose of four dimensions": (
        "trn2",
        CURRENT,
        """
        tile = nl.ndarray((64, 1, 3, 100), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_transpose(dst=tile, src=x[100:200])
        nisa.dma_copy(dst=out, src=tile)
        """,
        CUBES,
        CUBE_ROWS,
        CUBES[100:200].transpose(3, 1, 2, 0),
    ),
    "rows outside are skipped where shapes differ": (
        "trn2",
        CURRENT,
        """
        tile = nl.ndarray((64, 1, 32), dtype=x.dtype, buffer=nl.sbuf)
        nisa.memset(dst=tile, value=-1.0)
        rows = x.vector_select(0, idx)
        nisa.dma_copy(dst=tile, src=rows, oob_mode=nisa.oob_mode.skip)
        nisa.dma_copy(dst=out, src=tile)
        """,
        SHORT,
        AROUND,
        skipped(64),
    ),
    "a block outside is skipped": (
        "trn2",
        CURRENT,
        """
        tile = nl.ndarray((2, 32), dtype=x.dtype, buffer=nl.sbuf)
        nisa.memset(dst=tile, value=-1.0)
        block = x.ap([[32, 2], [1, 32]], scalar_offset=idx[63:64, 0:1], indirect_dim=0)
        nisa.dma_copy(dst=tile, src=block, oob_mode=nisa.oob_mode.skip)
        nisa.dma_copy(dst=out, src=tile)
        """,
        SHORT,
        AROUND,
        np.full((2, 32), -1, dtype=np.float32),
    ),
    "columns gathered by the engine": (
        "trn3",
        CURRENT,
        """
        tile = nl.load(x)
        part = nl.ndarray((128, 9), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=part, src=tile.indirect(idx, 9), engine=nisa.engine.vector)
        nisa.dma_copy(dst=out, src=part)
        """,
        TILE16,
        COLUMNS,
        indirect(TILE16, COLUMNS, 9),
    ),
    "integers moved as pairs of bfloat16": (
        "trn2",
        CURRENT,
        """
        tile = nl.ndarray((16, 16), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile.view(nl.int32), src=x)
        moved = nl.ndarray((16, 16), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.tensor_copy(dst=moved, src=tile)
        nisa.dma_copy(dst=out, src=moved.view(nl.int32))
        """,
        ODD,
        ODD,
        ODD,
    ),
    "rows gathered from a tensor viewed as another type": (
        "trn2",
        CURRENT,
        """
        tile = nl.ndarray((64, 64), dtype=nl.bfloat16, buffer=nl.sbuf)
        rows = x.ap([[64, 64], [1, 64]], vector_offset=idx, dtype=nl.bfloat16)
        nisa.memset(dst=tile, value=-1.0)
        nisa.dma_copy(dst=tile, src=rows, oob_mode=nisa.oob_mode.skip)
        nisa.dma_copy(dst=out.view(nl.bfloat16)[3:43], src=tile[3:43])
        nisa.dma_copy(dst=out[0:3], src=x[0:3])
        nisa.dma_copy(dst=out[43:64], src=x[0:21])
        """,
        SHORT,
        AROUND,
        np.concatenate([SHORT[:3], SHORT, SHORT[:21]]),
    ),
    "legacy sum of narrow numbers into rows named twice": (
        "trn1",
        LEGACY,
        """
        ix = nl.arange(128)[None, :]
        tile = nl.load(x[0:128, 0:128])
        zeros = nl.zeros((128, 128), dtype=x.dtype)
        nl.store(out, value=zeros)
        rows = nl.ndarray((nl.par_dim(128), 1), dtype=np.int32, buffer=nl.sbuf)
        rows[...] = nl.copy(idx[:, 0:1] % 7, dtype=np.int32)
        nl.atomic_rmw(out[rows, ix], value=tile, op=np.add)
        """,
        numbers(128, 128, dtype=np.float16),
        picks(512, 128, 1),
        None,
    ),
}


def case(name: str) -> tuple[str, str, Any, Any, Any]:
    """Source, target, both inputs and the result of a case."""
    target, template, body, x, index, wanted = CASES[name]
    if wanted is None:
        wanted = np.zeros((128, 128), dtype=np.float32)
        np.add.at(wanted, index[:, 0] % 7, x.astype(np.float32))
        wanted = wanted.astype(x.dtype)
    text = template.replace("{shape}", str(wanted.shape))
    return text.replace("{body}", indent(dedent(body), "    ")), target, x, index, wanted


@pytest.mark.usefixtures("replays")
@pytest.mark.parametrize("name", CASES)
def test_transfers_are_computed_later_as_directly(name: str, run_text: Runner) -> None:
    """Traced without values first, then computed twice from what was noted down."""
    text, target, x, index, wanted = case(name)
    with recorded() as sessions:
        outcome = run_text(text, x, index, target=target, full=False)
    (session,) = sessions
    assert session.recording
    notes = Recording.of(session.recording, [*session.inputs, *outcome.tensors])
    for _ in range(2):
        values = [convert_input(v).values for v in (x, index)]
        replay(session, notes, zip(session.inputs, values, strict=True))
        found = running.outputs_of(outcome)[0].reshape(wanted.shape)
        assert np.array_equal(found.astype(np.float32), wanted.astype(np.float32))


@contextmanager
def recorded() -> Iterator[list[Session]]:
    """Sessions that are made meanwhile note their instructions down."""
    made: list[Session] = []
    begin = running.execute

    def execute(kernel: Any, args: Any, kwargs: Any, session: Session, *rest: Any) -> Any:
        session.recording = []
        made.append(session)
        return begin(kernel, args, kwargs, session, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "execute", execute)
        yield made


@pytest.mark.parametrize("name", CASES)
def test_transfers(name: str, run_text: Runner) -> None:
    text, target, x, index, wanted = case(name)
    outcome = run_text(text, x, index, target=target)
    found = outcome.outputs[0].reshape(wanted.shape)
    assert np.array_equal(found.astype(np.float32), wanted.astype(np.float32))


def test_narrow_integers_that_were_never_written_are_found(run_text: Runner) -> None:
    body = """
    tile = nl.ndarray((4, 8), dtype=nl.int8, buffer=nl.sbuf)
    nisa.memset(dst=tile[:, 0:5], value=0)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1)
    total = nl.ndarray((4, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)
    """
    text = CURRENT.replace("{shape}", "(4, 8)").replace("{body}", indent(dedent(body), "    "))
    with pytest.raises(KernelRejected, match="reads parts of tile .*never written") as error:
        run_text(text, ODD, ODD)
    assert error.value.code == "R099"


def test_rows_that_were_never_written_are_found_by_a_gather(run_text: Runner) -> None:
    body = """
    part = nl.ndarray((32, 8), dtype=nl.int8, buffer=nl.private_hbm)
    ones = nl.ndarray((16, 8), dtype=nl.int8, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1)
    nisa.dma_copy(dst=part[0:16], src=ones)
    nisa.dma_copy(dst=ones, src=part.vector_select(0, idx))
    nisa.tensor_scalar(dst=ones, data=ones, op0=nl.add, operand0=1)
    """
    text = CURRENT.replace("{shape}", "(4, 8)").replace("{body}", indent(dedent(body), "    "))
    with pytest.raises(KernelRejected, match="never written"):
        run_text(text, ODD, column(np.arange(1, 17, dtype=np.int32)))


MASKED = """import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray((64, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.zeros((64, 64), dtype=x.dtype))
    i, j = nl.mgrid[0:64, 0:64]
    tile = nl.load(x)
    held = nl.ndarray((nl.par_dim(64), 64), dtype=nl.float32, buffer=nl.{memory})
    held[...] = nl.copy(tile)
    nl.store(out[i, j], value={value}, mask=(i >= j))
    return out
"""


@pytest.mark.parametrize("memory", ["sbuf", "psum"])
@pytest.mark.parametrize("value", ["held", "2.0", "held * 2.0"])
def test_stores_under_a_mask_over_both_axes(memory: str, value: str, run_text: Runner) -> None:
    """Stores of numbers and out of PSUM go through another tile, which is written in full."""
    x = numbers(64, 64)
    text = MASKED.replace("{memory}", memory).replace("{value}", value)
    wanted = {"held": x, "2.0": np.full_like(x, 2), "held * 2.0": x * 2}[value]
    found = run_text(text, x).outputs[0].reshape(64, 64)
    assert np.array_equal(found, np.tril(wanted))
