"""What selections and patterns compute, in both dialects, against loops in plain Python."""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelopt_lsp.profiler.simulator.errors import KernelRejected
from accelopt_lsp.profiler.simulator.numerics import NUMERICS
from accelopt_lsp.profiler.simulator.numerics.base import REGISTERS, WHERE
from tests.simulator.helpers import Runner, normal

FP32_MIN = float(np.finfo(np.float32).min)
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "equal": operator.eq,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}
STEPS = st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 4)), min_size=1, max_size=4).map(
    tuple
)


def oracle(steps: Any, offset: int, multiplier: int, partitions: int) -> list[list[int]]:
    def walk(rest: Any, value: int) -> list[int]:
        if not rest:
            return [value]
        (step, size), *inner = rest
        return [v for i in range(size) for v in walk(inner, value + i * step)]

    return [walk(list(steps), offset + p * multiplier) for p in range(partitions)]


@given(STEPS, st.integers(-9, 9), st.integers(-3, 3), st.integers(1, 5))
def test_patterns(steps: Any, offset: int, multiplier: int, partitions: int) -> None:
    attrs = {"pattern": steps, "offset": offset, "channel_multiplier": multiplier}
    free = prod(size for _, size in steps)
    found = NUMERICS["iota"]({}, {**attrs, "shapes": {"dst": (partitions, free)}})["dst"]
    assert found.tolist() == oracle(steps, offset, multiplier, partitions)


@given(STEPS, st.integers(-9, 9), st.integers(-3, 3), st.sampled_from(sorted(COMPARE)))
def test_affine_selections(steps: Any, offset: int, multiplier: int, comparison: str) -> None:
    values = oracle(steps, offset, multiplier, 3)
    data = np.arange(3 * len(values[0]), dtype=np.float32).reshape(3, -1)
    attrs = {
        "pattern": steps,
        "offset": offset,
        "channel_multiplier": multiplier,
        "cmp_op": comparison,
        "on_false_value": -7.5,
    }
    found = NUMERICS["affine_select"]({"on_true_tile": data}, attrs)["dst"]
    holds = COMPARE[comparison]
    expected = [
        [float(x) if holds(v, 0) else -7.5 for v, x in zip(row, kept, strict=True)]
        for row, kept in zip(values, data, strict=True)
    ]
    assert found.tolist() == expected


def test_selected_integers_stay_exact() -> None:
    data = np.full((1, 2), 2**24 + 1, dtype=np.int32)
    attrs = {
        "pattern": ((1, 2),),
        "offset": 0,
        "channel_multiplier": 0,
        "cmp_op": "equal",
        "on_false_value": 3.0,
        "dst": np.dtype(np.int32),
    }
    found = NUMERICS["affine_select"]({"on_true_tile": data}, attrs)["dst"]
    assert found.tolist() == [[2**24 + 1, 3]]


@given(
    st.integers(0, 6),
    st.lists(st.integers(-2, 12), min_size=2, max_size=2),
    st.sampled_from(sorted(COMPARE)),
    st.sampled_from(sorted(COMPARE)),
)
def test_ranges(start: int, limits: list[int], op0: str, op1: str) -> None:
    data = np.arange(6, dtype=np.float32).reshape(1, 6) - 2
    inputs = {
        "on_true_tile": data,
        "bound0": np.array([[limits[0]]], dtype=np.float32),
        "bound1": np.array([[limits[1]]], dtype=np.float32),
    }
    attrs = {
        "comp_op0": op0,
        "comp_op1": op1,
        "range_start": start,
        "reduce_op": "maximum",
        "reduce_cmd": "reset_reduce",
        "on_false_value": FP32_MIN,
    }
    found = NUMERICS["range_select"](inputs, attrs)
    expected = [
        float(x)
        if COMPARE[op0](start + i, limits[0]) and COMPARE[op1](start + i, limits[1])
        else FP32_MIN
        for i, x in enumerate(data[0])
    ]
    assert found["dst"][0].tolist() == expected
    assert found["reduce_res"][0, 0] == max(expected)


def test_maxima_go_on_in_the_accumulators() -> None:
    inputs = {
        "predicate": np.array([[1, 0], [0, 1]], dtype=np.uint8),
        "on_true": np.array([[5, 9], [1, 2]], dtype=np.float32),
        "on_false": np.array([[-1], [7]], dtype=np.float32),
        REGISTERS: np.array([[6], [3]], dtype=np.float32),
    }
    attrs = {"reduce_op": "maximum", "reduce_cmd": "reduce", "reverse_pred": False}
    found = NUMERICS["select_reduce"](inputs, attrs)
    assert found["dst"].tolist() == [[5, -1], [7, 2]]
    assert found["reduce_res"].tolist() == [[6], [7]]
    found = NUMERICS["select_reduce"](inputs, {**attrs, "reverse_pred": True})
    assert found["dst"].tolist() == [[-1, 9], [1, 7]]


def test_predicates_say_what_is_written() -> None:
    inputs = {"predicate": np.array([[2, 0, 1]], dtype=np.uint16)}
    for reverse, expected in ((False, [True, False, True]), (True, [False, True, False])):
        attrs = {"src": np.float32(4), "reverse_pred": reverse}
        found = NUMERICS["tensor_copy_predicated"](inputs, attrs)
        assert found[WHERE]["dst"].tolist() == [expected]
        assert (found["dst"] == 4).all()


LEGACY = """
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel({parameters}):
    out = nl.ndarray({shape}, dtype=nl.float32, buffer=nl.shared_hbm)
{body}
    return out
"""
CURRENT = LEGACY.replace("neuronxcc.", "")


def text(head: str, parameters: str, body: str, shape: str = "(128, 64)") -> str:
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return head.format(parameters=parameters, shape=shape, body=lines)


CAUSAL = [
    (
        LEGACY,
        """
i, j = nl.mgrid[0:128, 0:64]
tile = nl.load(x[i, j])
kept = nisa.affine_select(pred=(j + 32 <= i), on_true_tile=tile, on_false_value=-1.0)
nl.store(out[i, j], kept)
""",
    ),
    (
        LEGACY,
        """
i, j = nl.arange(128)[:, None], nl.arange(64)[None, :]
tile = nl.load(x)
tile[...] = nisa.affine_select(i - j > 31, tile, -1.0)
nl.store(out, tile)
""",
    ),
    (
        CURRENT,
        """
tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
nisa.dma_copy(dst=tile, src=x)
nisa.affine_select(
    tile, pattern=[[-1, 64]], channel_multiplier=1, on_true_tile=tile, on_false_value=-1.0,
    cmp_op=nl.greater_equal, offset=-32,
)
nisa.dma_copy(dst=out, src=tile)
""",
    ),
]


@pytest.mark.parametrize(("head", "body"), CAUSAL)
def test_causal_masks_of_both_dialects(run_text: Runner, head: str, body: str) -> None:
    x = normal(128, 64)
    found = run_text(text(head, "x", body), x, target="trn2").as_returned()
    i, j = np.ogrid[0:128, 0:64]
    assert np.array_equal(found, np.where(j + 32 <= i, x, np.float32(-1)))


def test_equality_and_one_comparison_only(run_text: Runner) -> None:
    body = """
i, j = nl.mgrid[0:128, 0:64]
tile = nl.load(x)
nl.store(out, nisa.affine_select({pred}, tile, 0.0))
"""
    x = normal(128, 64)
    source = text(LEGACY, "x", body.replace("{pred}", "i == j"))
    i, j = np.ogrid[0:128, 0:64]
    found = run_text(source, x, target="trn1").as_returned()
    assert np.array_equal(found, np.where(i == j, x, np.float32(0)))
    broken = text(LEGACY, "x", body.replace("{pred}", "(i < j) & (j < 9)"))
    with pytest.raises(KernelRejected) as caught:
        run_text(broken, x, target="trn1")
    assert caught.value.code == "R057"


IOTA = [
    (
        LEGACY,
        """
i, j = nl.arange(128)[:, None], nl.arange(64)[None, :]
nl.store(out, nisa.iota(3 + i * 2 - j, dtype=nl.float32))
""",
    ),
    (
        CURRENT,
        """
tile = nl.ndarray((128, 8, 8), dtype=nl.float32, buffer=nl.sbuf)
nisa.iota(dst=tile, pattern=[[-8, 8], [-1, 8]], offset=3, channel_multiplier=2)
nisa.dma_copy(dst=out, src=tile.reshape((128, 64)))
""",
    ),
]


@pytest.mark.parametrize(("head", "body"), IOTA)
def test_patterns_of_both_dialects(run_text: Runner, head: str, body: str) -> None:
    found = run_text(text(head, "", body), target="trn2").as_returned()
    i, j = np.ogrid[0:128, 0:64]
    assert np.array_equal(found, (3 + 2 * i - j).astype(np.float32))


def test_what_a_predicate_leaves_out_stays(run_text: Runner) -> None:
    """A tile may be written in parts; only what no predicate reached is unwritten."""
    body = """
mask = nl.ndarray(x.shape, dtype=nl.uint8, buffer=nl.sbuf)
nisa.dma_copy(dst=mask, src=m)
a = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
nisa.dma_copy(dst=a, src=x)
tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
nisa.tensor_copy_predicated(dst=tile, src=a, predicate=mask)
{second}
nisa.tensor_copy(dst=a, src=tile)
nisa.tensor_scalar(dst=a, data=tile, op0=nl.add, operand0=1.0)
nisa.dma_copy(dst=out, src=a)
"""
    x = normal(128, 64)
    m = (np.arange(128 * 64).reshape(128, 64) % 3 == 0).astype(np.uint8)
    second = "nisa.tensor_copy_predicated(dst=tile, src=2.0, predicate=mask, reverse_pred=True)"
    whole = text(CURRENT, "x, m", body.replace("{second}", second))
    found = run_text(whole, x, m, target="trn2").as_returned()
    assert np.array_equal(found, np.where(m, x, np.float32(2)) + np.float32(1))
    with pytest.raises(KernelRejected) as caught:
        run_text(text(CURRENT, "x, m", body.replace("{second}", "")), x, m, target="trn2")
    assert caught.value.code == "R099"
