"""Random number generators: reproducible, uniform, one stream a lane."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.simulator.helpers import Runner

HEAD = """
import {package} as nki
import {package}.isa as nisa
import {package}.language as nl


@nki.jit
def kernel({parameters}):
"""
SEED = """
    seed = nl.ndarray((1, 1), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.memset(dst=seed, value={seed})
    nisa.set_rng_seed(src_seeds=seed)
"""


def text(body: str, parameters: str = "", package: str = "nki") -> str:
    return HEAD.format(package=package, parameters=parameters) + body


def bits(dtype: str, engine: str = "vector", seed: int = 5) -> str:
    setting = SEED.format(seed=seed) if engine == "vector" else ""
    return text(f"""{setting}
    out = nl.ndarray((128, 256), dtype=nl.{dtype}, buffer=nl.shared_hbm)
    tile = nl.ndarray(out.shape, dtype=nl.{dtype}, buffer=nl.sbuf)
    nisa.rng(dst=tile, engine=nisa.engine.{engine})
    nisa.dma_copy(dst=out, src=tile)
    return out
""")


@pytest.mark.parametrize("engine", ["vector", "gpsimd"])
def test_bits_are_even_and_lanes_differ(run_text: Runner, engine: str) -> None:
    words = run_text(bits("uint32", engine), target="trn2").as_returned()
    for position in range(32):
        ones = (words >> position & 1).mean()
        assert abs(ones - 0.5) < 0.02
    assert len(np.unique(words)) > words.size - 4
    assert len({tuple(row[:4]) for row in words}) == 128


def test_narrow_types_keep_the_lowest_bits(run_text: Runner) -> None:
    words = run_text(bits("uint32"), target="trn1").as_returned()
    for dtype in (np.uint8, np.int8, np.uint16, np.int16, np.int32):
        narrow = run_text(bits(np.dtype(dtype).name), target="trn1").as_returned()
        assert np.array_equal(narrow, words.astype(dtype))


def test_seeds_decide(run_text: Runner) -> None:
    first, same, other = (
        run_text(bits("uint32", seed=seed), target="trn1").as_returned() for seed in (5, 5, 6)
    )
    assert np.array_equal(first, same)
    assert (first != other).mean() > 0.99


def test_every_run_starts_in_the_same_state(run_text: Runner) -> None:
    runs = [run_text(bits("uint32", "gpsimd"), target="trn2").as_returned() for _ in range(2)]
    assert np.array_equal(*runs)


@pytest.mark.parametrize(("engine", "words"), [("gpsimd", 6), ("vector", 24)])
def test_a_state_that_is_set_again_repeats_its_numbers(
    run_text: Runner, engine: str, words: int
) -> None:
    """The first 64 lanes go back to where they were, the others go on."""
    body = f"""
    out = nl.ndarray((3, 128, 32), dtype=nl.uint32, buffer=nl.shared_hbm)
    state = nl.ndarray((128, {words}), dtype=nl.uint32, buffer=nl.sbuf)
    for number in range(3):
        if number == 1:
            nisa.rand_get_state(dst=state, engine=nisa.engine.{engine})
        if number == 2:
            nisa.rand_set_state(src_seeds=state[:64], engine=nisa.engine.{engine})
        tile = nl.ndarray((128, 32), dtype=nl.uint32, buffer=nl.sbuf)
        nisa.rng(dst=tile, engine=nisa.engine.{engine})
        nisa.dma_copy(dst=out[number], src=tile)
    return out
"""
    first, second, third = run_text(text(body), target="trn3").as_returned()
    assert (first != second).mean() > 0.99
    assert np.array_equal(third[:64], second[:64])
    assert (third[64:] != second[64:]).mean() > 0.99


def uniform(dtype: str, low: str, high: str) -> str:
    return text(
        f"""
    out = nl.ndarray((128, 512), dtype=nl.{dtype}, buffer=nl.shared_hbm)
    bounds = nl.ndarray((128, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=bounds, src=given)
    tile = nl.ndarray(out.shape, dtype=nl.{dtype}, buffer=nl.sbuf)
    nisa.rand2(dst=tile, min={low}, max={high})
    nisa.dma_copy(dst=out, src=tile)
    return out
""",
        "given",
    )


def bounds() -> Any:
    low = np.linspace(-4, 3, 128)
    return np.stack([low, low + np.linspace(0.5, 9, 128)], axis=1).astype(np.float32)


@pytest.mark.parametrize("vectors", [False, True])
def test_uniform_between_bounds(run_text: Runner, vectors: bool) -> None:
    low, high = ("bounds[:, 0:1]", "bounds[:, 1:2]") if vectors else ("-2.0", "6.0")
    limits = bounds() if vectors else np.tile(np.float32([-2, 6]), (128, 1))
    found = run_text(uniform("float32", low, high), bounds(), target="trn3").as_returned()
    unit = (found - limits[:, :1]) / (limits[:, 1:] - limits[:, :1])
    assert unit.min() >= 0 and unit.max() <= 1
    counts, _ = np.histogram(unit, bins=16, range=(0, 1))
    assert np.allclose(counts, unit.size / 16, rtol=0.06)


def test_uniform_numbers_are_rounded_to_integers(run_text: Runner) -> None:
    found = run_text(uniform("int8", "0.0", "4.0"), bounds(), target="trn3").as_returned()
    share = [(found == n).mean() for n in range(5)]
    assert np.allclose(share, [1 / 8, 1 / 4, 1 / 4, 1 / 4, 1 / 8], atol=0.01)


DROPOUT = {
    "nki": """
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    rates = nl.ndarray(p.shape, dtype=p.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=rates, src=p)
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dropout(dst=result, data=tile, prob={prob})
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=result)
    return out
""",
    "neuronxcc.nki": """
    rates = nl.load(p)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nisa.dropout(nl.load(x), prob={prob}))
    return out
""",
}


@pytest.mark.parametrize("package", DROPOUT)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
@pytest.mark.parametrize("prob", ["0.0", "0.25", "1.0", "rates"])
def test_dropout(run_text: Runner, package: str, dtype: Any, prob: str) -> None:
    """What is kept stays as it is; the share of zeros is the probability, row by row."""
    x = (np.arange(128 * 1024).reshape(128, 1024) % 1000 + 1).astype(dtype)
    p = np.linspace(0, 1, 128, dtype=np.float32)[:, None]
    body = DROPOUT[package].format(prob=prob)
    found = run_text(text(body, "x, p", package), x, p, target="trn2").as_returned()
    kept = found != 0
    assert found.dtype == x.dtype
    assert np.array_equal(found[kept], x[kept])
    wanted = p if prob == "rates" else np.full((128, 1), float(prob))
    dropped = 1 - kept.mean(axis=1, keepdims=True)
    assert np.all(np.abs(dropped - wanted) <= 5 * np.sqrt(wanted * (1 - wanted) / 1024))
