"""What searches and gathers compute, against loops in plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelopt_lsp.profiler.simulator.errors import KernelRejected
from accelopt_lsp.profiler.simulator.numerics import NUMERICS
from accelopt_lsp.profiler.simulator.numerics.base import REMARKS, WHERE
from tests.simulator.helpers import Runner

ABSENT = 0xFFFFFFFF
SMALL = st.integers(-3, 3)


def run(op: str, dst: tuple[int, int], attrs: dict[str, Any] | None = None, **inputs: Any) -> Any:
    return NUMERICS[op](inputs, {"shapes": {"dst": dst}, **(attrs or {})})


def rows(values: Any, dtype: Any = np.float32) -> Any:
    return np.array(values, dtype=dtype)


@given(st.lists(st.lists(SMALL, min_size=11, max_size=11), min_size=1, max_size=3))
def test_max8(values: list[list[int]]) -> None:
    found = run("max8", (len(values), 8), src=rows(values))["dst"]
    assert found.tolist() == [sorted(row, reverse=True)[:8] for row in values]


def test_max8_of_long_rows_and_several_axes() -> None:
    src = np.random.default_rng(1).standard_normal((4, 5, 100), dtype=np.float32)
    found = run("max8", (4, 8), src=src)["dst"]
    assert found.tolist() == [sorted(row.reshape(-1).tolist(), reverse=True)[:8] for row in src]


def matches(row: list[int], wanted: list[int], order: Any) -> list[int]:
    """Position of each wanted value; each occurrence serves one of them, in the given order."""
    taken: set[int] = set()
    found = [ABSENT] * len(wanted)
    for j in order:
        for i, value in enumerate(row):
            if value == wanted[j] and i not in taken:
                taken.add(i)
                found[j] = i
                break
    return found


@given(
    st.lists(SMALL, min_size=9, max_size=14),
    st.lists(st.integers(-4, 4), min_size=8, max_size=8),
    st.sampled_from([np.float32, np.int32]),
)
def test_positions_and_replacements(row: list[int], wanted: list[int], dtype: Any) -> None:
    inputs = {"data": rows([row], dtype), "vals": rows([wanted], dtype)}
    ascending = run("nc_find_index8", (1, 8), **inputs)["dst"][0]
    assert ascending.tolist() == matches(row, wanted, range(8))
    found = run("nc_match_replace8", (1, len(row)), {"imm": np.float32(9)}, **inputs)
    descending = matches(row, wanted, reversed(range(8)))
    assert found["dst_idx"][0].tolist() == descending
    replaced = [9 if i in descending else value for i, value in enumerate(row)]
    assert found["dst"][0].tolist() == replaced


def test_documented_duplicates_of_match_replace() -> None:
    data = rows([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8]])
    vals = rows([[3, 8, 8, 8, 8, 8, 8, 8]])
    found = run("nc_match_replace8", (1, 11), {"imm": np.float32(0)}, data=data, vals=vals)
    assert found["dst_idx"][0].tolist() == [2, 10, 9, 8, 7, 6, 5, 4]
    indices = run("nc_find_index8", (1, 8), data=data, vals=vals)["dst"]
    assert indices[0].tolist() == [2, 4, 5, 6, 7, 8, 9, 10]


def test_wide_integers_are_told_apart() -> None:
    """2^24 and 2^24 + 1 are one number in float32."""
    data = rows([[2**24, 2**24 + 1, *range(8)]], np.uint32)
    vals = rows([[2**24 + 1] * 8], np.uint32)
    found = run("nc_find_index8", (1, 8), data=data, vals=vals)["dst"][0]
    assert found.tolist() == [1] + [ABSENT] * 7


@pytest.mark.parametrize(("n", "k"), [(42, 8), (8, 8), (48, 1), (33, 20)])
def test_topk(n: int, k: int) -> None:
    src = np.random.default_rng(n).permutation(96).reshape(32, 3).astype(np.float32)
    found = run("topk", (32, k), {"n": n}, src=src)
    for p in range(32):
        group = src[p // 16 * 16 : p // 16 * 16 + 16]
        snake = [float(group[e % 16, e // 16]) for e in range(n)]
        best = sorted(range(n), key=lambda e: snake[e])[-k:]
        assert found["idx_dst"][p].tolist() == best
        assert found["dst"][p].tolist() == [snake[e] for e in best]


def test_nonzero_with_count_of_the_documentation() -> None:
    src = np.zeros((33, 8), dtype=np.int32)
    src[0] = [0, 1, 1, 0, 0, 1, 0, 0]
    src[1] = 7
    src[32] = -1
    attrs = {"index_offset": 16, "padding_val": -1}
    found = run("nonzero_with_count", (33, 9), attrs, src=src)
    assert found["dst"][0].tolist() == [17, 18, 21, -1, -1, -1, -1, -1, 3]
    assert found["dst"][16].tolist() == [-1] * 8 + [0]
    assert found["dst"][32].tolist() == [*range(16, 24), 8]
    written = found[WHERE]["dst"]
    assert np.flatnonzero(written.all(axis=1)).tolist() == [0, 16, 32]
    assert written.sum() == 3 * 9


def bounds(ids: list[int]) -> list[list[int]]:
    n = len(ids)
    starts, ends = [], []
    for i, own in enumerate(ids):
        start, end = i, i + 1
        while start > 0 and ids[start - 1] == own:
            start -= 1
        while end < n and ids[end] == own:
            end += 1
        starts.append(n if own == 0 else start)
        ends.append(-1 if own == 0 else end)
    return [starts, ends]


@given(st.lists(st.integers(0, 2), min_size=1, max_size=20))
def test_sequence_bounds(ids: list[int]) -> None:
    found = run("sequence_bounds", (1, 2 * len(ids)), segment_ids=rows([ids], np.int32))
    assert found["dst"].tolist() == bounds(ids)


def test_sequence_bounds_of_the_documentation() -> None:
    found = run("sequence_bounds", (1, 18), segment_ids=rows([[0, 1, 1, 2, 2, 2, 0, 3, 3]]))
    assert found["dst"].tolist() == [[9, 1, 1, 3, 3, 3, 9, 7, 7], [-1, 3, 3, 6, 6, 6, -1, 9, 9]]


@pytest.mark.parametrize(("run_length", "count"), [(1, 48), (4, 37), (2, 16)])
def test_local_gather(run_length: int, count: int) -> None:
    generator = np.random.default_rng(count)
    src = generator.standard_normal((32, 40), dtype=np.float32)
    index = generator.integers(0, 36, (32, 3), dtype=np.uint16)
    attrs = {"num_elem_per_idx": run_length, "num_valid_indices": count}
    found = run("local_gather", (32, count * run_length), attrs, src_buffer=src, index=index)
    for p in range(32):
        own = index[p // 16 * 16 : p // 16 * 16 + 16]
        places = [int(own[j % 16, j // 16]) for j in range(count)]
        expected = [src[p, i + e] for i in places for e in range(run_length)]
        assert found["dst"][p].tolist() == [float(v) for v in expected]


def test_local_gather_beyond_its_tile_is_said() -> None:
    src = np.arange(16 * 4, dtype=np.float32).reshape(16, 4)
    index = np.full((16, 1), 9, dtype=np.uint16)
    attrs = {"num_elem_per_idx": 1, "num_valid_indices": 16}
    REMARKS.clear()
    found = run("local_gather", (16, 16), attrs, src_buffer=src, index=index)["dst"]
    assert (found == src[:, 3:]).all()
    assert "undefined" in REMARKS.pop()


def test_n_gather() -> None:
    data = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)
    indices = rows([[11, 0, 5], [1, 1, 10]], np.uint32)
    found = run("nc_n_gather", (2, 3), data=data, indices=indices)["dst"]
    assert found.tolist() == [[11, 0, 5], [13, 13, 22]]
    with pytest.raises(KernelRejected, match="index 12 is out of bounds") as caught:
        run("nc_n_gather", (2, 1), data=data, indices=rows([[12], [0]], np.uint32))
    assert caught.value.code == "R028"


def test_stream_shuffle_within_quadrants() -> None:
    src = np.arange(96, dtype=np.float32).reshape(96, 1)
    mask = tuple([(i - 1) % 32 for i in range(31)] + [255])
    found = run("nc_stream_shuffle", (96, 1), {"shuffle_mask": mask}, src=src)
    for p in range(96):
        if p % 32 == 31:
            assert not found[WHERE]["dst"][p].any()
        else:
            assert found["dst"][p, 0] == p // 32 * 32 + (p % 32 - 1) % 32


TEXT = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel({parameters}):
    out = nl.ndarray({shape}, dtype={dtype}, buffer=nl.shared_hbm)
{body}
    return out
"""


def text(parameters: str, shape: str, dtype: str, body: str) -> str:
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return TEXT.format(parameters=parameters, shape=shape, dtype=dtype, body=lines)


def test_in_place_replacement_and_positions(run_text: Runner) -> None:
    body = """
data = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
nisa.dma_copy(dst=data, src=x)
best = nl.ndarray((128, 8), dtype=x.dtype, buffer=nl.sbuf)
where = nl.ndarray((128, 8), dtype=nl.uint32, buffer=nl.sbuf)
for turn in range(2):
    nisa.max8(dst=best, src=data)
    nisa.nc_match_replace8(
        dst=data, dst_idx=where, data=data, vals=best, imm=float("-inf")
    )
    nisa.dma_copy(dst=out[:, nl.ds(turn * 8, 8)], src=where)
"""
    x = np.random.default_rng(0).permutation(128 * 64).reshape(128, 64).astype(np.float32)
    found = run_text(text("x", "(128, 16)", "nl.uint32", body), x, target="trn2").as_returned()
    assert np.array_equal(found, np.argsort(-x, axis=1)[:, :16])


def test_count_of_another_partition_arrives_by_a_shuffle(run_text: Runner) -> None:
    """Partitions that nonzero_with_count left unwritten may be shuffled and are never computed."""
    body = """
data = nl.ndarray((32, 8), dtype=nl.float32, buffer=nl.sbuf)
nisa.dma_copy(dst=data[0:1, :], src=x[0:1, :])
nisa.dma_copy(dst=data[16:17, :], src=x[1:2, :])
found = nl.ndarray((32, 9), dtype=nl.int32, buffer=nl.sbuf)
nisa.nonzero_with_count(dst=found, src=data, padding_val=-5)
nisa.nc_stream_shuffle(dst=found, src=found, shuffle_mask=[16] + [255] * 31)
nisa.dma_copy(dst=out, src=found[0:1, :])
"""
    x = rows([[1] * 8, [0, 3, 0, 0, 0, 0, 0, -2]])
    found = run_text(text("x", "(1, 9)", "nl.int32", body), x, target="trn2").as_returned()
    assert found.tolist() == [[1, 7, -5, -5, -5, -5, -5, -5, 2]]


def test_cores_without_data_may_count(run_text: Runner) -> None:
    """Only partition 0 was filled; what core 1 makes of partition 16 is dropped."""
    body = """
data = nl.ndarray((32, 8), dtype=nl.float32, buffer=nl.sbuf)
nisa.dma_copy(dst=data[0:1, :], src=x)
found = nl.ndarray((32, 9), dtype=nl.int32, buffer=nl.sbuf)
nisa.nonzero_with_count(dst=found, src=data)
nisa.dma_copy(dst=out, src=found[0:1, :])
"""
    x = rows([[0, 3, 0, 0, 0, 0, 0, -2]])
    found = run_text(text("x", "(1, 9)", "nl.int32", body), x, target="trn2").as_returned()
    assert found.tolist() == [[1, 7, -1, -1, -1, -1, -1, -1, 2]]
