"""Searches and gathers against loops in plain Python that follow the documentation's text."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from accelopt_lsp.profiler.simulator.errors import KernelRejected
from tests.simulator.helpers import Runner

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


def first_free(row: list[float], value: float, taken: set[int]) -> int | None:
    return next((i for i, v in enumerate(row) if v == value and i not in taken), None)


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
@pytest.mark.parametrize("seed", range(3))
def test_find_index8_takes_duplicates_in_ascending_order(
    run_text: Runner, dtype: type, seed: int
) -> None:
    data = small_integers(32, 40, seed=seed, high=30).astype(np.float32)
    vals = small_integers(32, 8, seed=seed + 10, high=34).astype(np.float32)
    kernel = text(
        f"""
dst = nl.ndarray((32, 8), dtype=nl.{np.dtype(dtype).name}, buffer=nl.sbuf)
nisa.nc_find_index8(dst=dst, data=load(data), vals=load(vals))
return store(dst)
""",
        "data, vals",
    )
    expected: Any = np.full((32, 8), np.iinfo(dtype).max, dtype=dtype)
    for p in range(32):
        taken: set[int] = set()
        for j in range(8):
            at = first_free(data[p].tolist(), vals[p, j], taken)
            if at is not None:
                taken.add(at)
                expected[p, j] = at
    assert np.array_equal(run_text(kernel, data, vals).as_returned(), expected)


REPLACE = """
dst = nl.ndarray(data.shape, dtype=data.dtype, buffer=nl.sbuf)
where = nl.ndarray((data.shape[0], 8), dtype=nl.uint32, buffer=nl.sbuf)
nisa.nc_match_replace8(dst=dst, data=load(data), vals=load(vals), imm=-1.0, dst_idx=where)
return store(dst), store(where)
"""


@pytest.mark.parametrize("seed", range(3))
def test_match_replace8_goes_through_values_backwards(run_text: Runner, seed: int) -> None:
    data = small_integers(16, 24, seed=seed, high=9).astype(np.float32)
    vals = small_integers(16, 8, seed=seed + 20, high=9).astype(np.float32)
    found, places = run_text(text(REPLACE, "data, vals"), data, vals).as_returned()
    for p in range(16):
        taken: set[int] = set()
        for j in reversed(range(8)):
            at = first_free(data[p].tolist(), vals[p, j], taken)
            if at is not None:
                taken.add(at)
            assert places[p, j] == (0xFFFFFFFF if at is None else at)
        expected = [-1.0 if i in taken else v for i, v in enumerate(data[p])]
        assert found[p].tolist() == expected


def test_match_replace8_pairs_duplicates_as_documented(run_text: Runner) -> None:
    data = np.array([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8]], dtype=np.float32)
    vals = np.array([[3, 8, 8, 8, 8, 8, 8, 8]], dtype=np.float32)
    found, places = run_text(text(REPLACE, "data, vals"), data, vals).as_returned()
    assert places.tolist() == [[2, 10, 9, 8, 7, 6, 5, 4]]
    assert found.tolist() == [[1, 2, -1, 4, *[-1] * 7]]


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


def test_topk_reads_a_snake_over_16_partitions(run_text: Runner) -> None:
    n, k = 42, 8
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
    with pytest.raises(KernelRejected, match="60"):
        run_text(kernel, source, index)


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
