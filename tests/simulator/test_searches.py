"""Searches and gathers against loops in plain Python that follow the documentation's text."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelopt_lsp.profiler.simulator.errors import KernelRejected
from accelopt_lsp.profiler.simulator.numerics import NUMERICS
from accelopt_lsp.profiler.simulator.numerics.base import REMARKS
from tests.simulator.helpers import Runner

ABSENT = 0xFFFFFFFF
SMALL = st.integers(-3, 3)

HEAD = """
import nki
import nki.isa as nisa
import nki.language as nl


def load(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return tile


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def kernel({parameters}):
"""


def text(body: str, parameters: str) -> str:
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return HEAD.format(parameters=parameters) + lines + "\n"


def small_integers(*shape: int, seed: int, high: int = 6) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, high, shape)


def run(op: str, dst: tuple[int, int], attrs: dict[str, Any] | None = None, **inputs: Any) -> Any:
    return NUMERICS[op](inputs, {"shapes": {"dst": dst}, **(attrs or {})})


def rows(values: Any, dtype: Any = np.float32) -> Any:
    return np.array(values, dtype=dtype)


@given(st.lists(st.lists(SMALL, min_size=11, max_size=11), min_size=1, max_size=3))
def test_max8(values: list[list[int]]) -> None:
    found = run("max8", (len(values), 8), src=rows(values))["dst"]
    assert found.tolist() == [sorted(row, reverse=True)[:8] for row in values]


def test_max8_sorts_downwards_and_keeps_duplicates(run_text: Runner) -> None:
    data = small_integers(128, 6, 50, seed=1, high=40).astype(np.float32)
    kernel = text(
        """
dst = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
nisa.max8(dst=dst, src=load(data))
return store(dst)
""",
        "data",
    )
    expected = [sorted(row.reshape(-1).tolist(), reverse=True)[:8] for row in data]
    assert run_text(kernel, data).as_returned().tolist() == expected


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


def test_wide_integers_are_told_apart() -> None:
    """2^24 and 2^24 + 1 are one number in float32."""
    data = rows([[2**24, 2**24 + 1, *range(8)]], np.uint32)
    vals = rows([[2**24 + 1] * 8], np.uint32)
    found = run("nc_find_index8", (1, 8), data=data, vals=vals)["dst"][0]
    assert found.tolist() == [1] + [ABSENT] * 7


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
def test_find_index8_takes_duplicates_in_ascending_order(run_text: Runner, dtype: type) -> None:
    data = small_integers(32, 40, seed=0, high=30).astype(np.float32)
    vals = small_integers(32, 8, seed=10, high=34).astype(np.float32)
    kernel = text(
        f"""
dst = nl.ndarray((32, 8), dtype=nl.{np.dtype(dtype).name}, buffer=nl.sbuf)
nisa.nc_find_index8(dst=dst, data=load(data), vals=load(vals))
return store(dst)
""",
        "data, vals",
    )
    absent = int(np.iinfo(dtype).max)
    expected = [
        [absent if i == ABSENT else i for i in matches(row, wanted, range(8))]
        for row, wanted in zip(data.tolist(), vals.tolist(), strict=True)
    ]
    assert run_text(kernel, data, vals).as_returned().tolist() == expected


REPLACE = """
dst = nl.ndarray(data.shape, dtype=data.dtype, buffer=nl.sbuf)
where = nl.ndarray((data.shape[0], 8), dtype=nl.uint32, buffer=nl.sbuf)
nisa.nc_match_replace8(dst=dst, data=load(data), vals=load(vals), imm=-1.0, dst_idx=where)
return store(dst), store(where)
"""


def test_match_replace8_pairs_duplicates_as_documented(run_text: Runner) -> None:
    data = np.array([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8]], dtype=np.float32)
    vals = np.array([[3, 8, 8, 8, 8, 8, 8, 8]], dtype=np.float32)
    found, places = run_text(text(REPLACE, "data, vals"), data, vals).as_returned()
    assert places.tolist() == [[2, 10, 9, 8, 7, 6, 5, 4]]
    assert found.tolist() == [[1, 2, -1, 4, *[-1] * 7]]


@pytest.mark.parametrize(("n", "k"), [(42, 8), (8, 8), (48, 1), (33, 20)])
def test_topk_reads_a_snake_over_16_partitions(run_text: Runner, n: int, k: int) -> None:
    source = np.random.default_rng(3).permutation(96).reshape(32, 3).astype(ml_dtypes.bfloat16)
    kernel = text(
        f"""
values = nl.ndarray((32, {k}), dtype=nl.bfloat16, buffer=nl.sbuf)
places = nl.ndarray((32, {k}), dtype=nl.uint32, buffer=nl.sbuf)
nisa.topk(val_dst=values, idx_dst=places, src=load(source), n={n})
return store(values), store(places)
""",
        "source",
    )
    values, places = run_text(kernel, source, target="trn2").as_returned()
    for p in range(32):
        first = p // 16 * 16
        snake = [(float(source[first + e % 16, e // 16]), e) for e in range(n)]
        best = sorted(snake)[-k:]
        assert values[p].astype(np.float32).tolist() == [v for v, _ in best]
        assert places[p].tolist() == [e for _, e in best]


def test_nonzero_with_count_touches_first_partitions_of_cores_only(run_text: Runner) -> None:
    source = small_integers(128, 20, seed=4, high=2).astype(np.int32)
    kernel = text(
        """
dst = nl.ndarray((128, 21), dtype=nl.int32, buffer=nl.sbuf)
nisa.memset(dst=dst, value=77)
nisa.nonzero_with_count(dst=dst, src=load(source), index_offset=16, padding_val=-1)
return store(dst)
""",
        "source",
    )
    found = run_text(kernel, source, target="trn2").as_returned()
    for p in range(128):
        if p % 16:
            assert found[p].tolist() == [77] * 21
            continue
        places = [i + 16 for i in range(20) if source[p, i] != 0]
        assert found[p].tolist() == [*places, *[-1] * (20 - len(places)), len(places)]


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


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_sequence_bounds_of_the_documented_example(run_text: Runner, dtype: type) -> None:
    ids: Any = np.array([[0, 1, 1, 2, 2, 2, 0, 3, 3]], dtype=dtype)
    kernel = text(
        f"""
dst = nl.ndarray((1, 2, 9), dtype=nl.{np.dtype(dtype).name}, buffer=nl.sbuf)
nisa.sequence_bounds(dst=dst, segment_ids=load(ids))
return store(dst)
""",
        "ids",
    )
    assert run_text(kernel, ids).as_returned().tolist() == [
        [[9, 1, 1, 3, 3, 3, 9, 7, 7], [-1, 3, 3, 6, 6, 6, -1, 9, 9]]
    ]


@pytest.mark.parametrize(("run", "valid"), [(1, None), (4, 60), (32, 17)])
def test_local_gather_flattens_indices_along_partitions(
    run_text: Runner, run: int, valid: int | None
) -> None:
    source = np.arange(32 * 256, dtype=np.float32).reshape(32, 256)
    index = np.random.default_rng(5).integers(0, 256 - run + 1, (32, 4)).astype(np.uint16)
    count = 64 if valid is None else valid
    kernel = text(
        f"""
dst = nl.ndarray((32, {count}, {run}), dtype=nl.float32, buffer=nl.sbuf)
nisa.local_gather(dst, load(source), load(index), {run}, {valid})
return store(dst)
""",
        "source, index",
    )
    found = run_text(kernel, source, index).as_returned()
    for p in range(32):
        core = p // 16 * 16
        for j in range(count):
            start = int(index[core + j % 16, j // 16])
            assert found[p, j].tolist() == source[p, start : start + run].tolist()


def test_local_gather_beyond_its_tile_is_said() -> None:
    src = np.arange(16 * 4, dtype=np.float32).reshape(16, 4)
    index = np.full((16, 1), 9, dtype=np.uint16)
    attrs = {"num_elem_per_idx": 1, "num_valid_indices": 16}
    REMARKS.clear()
    found = run("local_gather", (16, 16), attrs, src_buffer=src, index=index)["dst"]
    assert (found == src[:, 3:]).all()
    assert "undefined" in REMARKS.pop()


def test_nc_n_gather_stays_within_partitions(run_text: Runner) -> None:
    source = np.arange(8 * 60, dtype=np.float32).reshape(8, 3, 20)
    index = small_integers(8, 7, seed=6, high=60).astype(np.uint32)
    kernel = text(
        """
dst = nl.ndarray((8, 7), dtype=nl.float32, buffer=nl.sbuf)
nisa.nc_n_gather(dst=dst, data=load(source), indices=load(index))
return store(dst)
""",
        "source, index",
    )
    found = run_text(kernel, source, index).as_returned()
    flat = source.reshape(8, 60).tolist()
    assert found.tolist() == [[flat[p][i] for i in index[p]] for p in range(8)]
    index[3, 2] = 60
    with pytest.raises(KernelRejected, match="index 60 is out of bounds") as caught:
        run_text(kernel, source, index)
    assert caught.value.code == "R028"


def test_stream_shuffle_repeats_in_quadrants_and_leaves_255_alone(run_text: Runner) -> None:
    source = np.arange(64 * 5, dtype=np.float32).reshape(64, 5)
    mask = [255 if i % 5 == 0 else (7 * i + 3) % 32 for i in range(32)]
    kernel = text(
        f"""
dst = nl.ndarray((64, 5), dtype=nl.float32, buffer=nl.sbuf)
nisa.memset(dst=dst, value=-1.0)
nisa.nc_stream_shuffle(dst=dst, src=load(source), shuffle_mask={mask})
return store(dst)
""",
        "source",
    )
    found = run_text(kernel, source).as_returned()
    for q in range(64):
        entry = mask[q % 32]
        expected = [-1.0] * 5 if entry == 255 else source[q // 32 * 32 + entry].tolist()
        assert found[q].tolist() == expected


def test_in_place_replacement_and_positions(run_text: Runner) -> None:
    body = """
out = nl.ndarray((128, 16), dtype=nl.uint32, buffer=nl.shared_hbm)
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
return out
"""
    x = np.random.default_rng(0).permutation(128 * 64).reshape(128, 64).astype(np.float32)
    found = run_text(text(body, "x"), x, target="trn2").as_returned()
    assert np.array_equal(found, np.argsort(-x, axis=1)[:, :16])


def test_count_of_another_partition_arrives_by_a_shuffle(run_text: Runner) -> None:
    """Partitions that nonzero_with_count left unwritten may be shuffled and are never computed."""
    body = """
out = nl.ndarray((1, 9), dtype=nl.int32, buffer=nl.shared_hbm)
data = nl.ndarray((32, 8), dtype=nl.float32, buffer=nl.sbuf)
nisa.dma_copy(dst=data[0:1, :], src=x[0:1, :])
nisa.dma_copy(dst=data[16:17, :], src=x[1:2, :])
found = nl.ndarray((32, 9), dtype=nl.int32, buffer=nl.sbuf)
nisa.nonzero_with_count(dst=found, src=data, padding_val=-5)
nisa.nc_stream_shuffle(dst=found, src=found, shuffle_mask=[16] + [255] * 31)
nisa.dma_copy(dst=out, src=found[0:1, :])
return out
"""
    x = rows([[1] * 8, [0, 3, 0, 0, 0, 0, 0, -2]])
    found = run_text(text(body, "x"), x, target="trn2").as_returned()
    assert found.tolist() == [[1, 7, -5, -5, -5, -5, -5, -5, 2]]


def test_cores_without_data_may_count(run_text: Runner) -> None:
    """Only partition 0 was filled; what core 1 makes of partition 16 is dropped."""
    body = """
out = nl.ndarray((1, 9), dtype=nl.int32, buffer=nl.shared_hbm)
data = nl.ndarray((32, 8), dtype=nl.float32, buffer=nl.sbuf)
nisa.dma_copy(dst=data[0:1, :], src=x)
found = nl.ndarray((32, 9), dtype=nl.int32, buffer=nl.sbuf)
nisa.nonzero_with_count(dst=found, src=data)
nisa.dma_copy(dst=out, src=found[0:1, :])
return out
"""
    x = rows([[0, 3, 0, 0, 0, 0, 0, -2]])
    found = run_text(text(body, "x"), x, target="trn2").as_returned()
    assert found.tolist() == [[1, 7, -1, -1, -1, -1, -1, -1, 2]]
