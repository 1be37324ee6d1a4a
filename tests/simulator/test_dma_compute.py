"""Sums on the way between memories."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from accelopt_lsp.profiler.simulator.errors import KernelRejected
from tests.simulator.helpers import Runner, normal

HEAD = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel({parameters}):
    out = nl.ndarray({shape}, dtype=a.dtype, buffer=nl.shared_hbm)
{body}
    return out
"""


def text(body: str, parameters: str = "a, b, c", shape: str = "a.shape") -> str:
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return HEAD.format(parameters=parameters, shape=shape, body=lines)


FORMS = [
    "nisa.dma_compute(out, [a, b, c], reduce_op=nl.add)",
    "nisa.dma_compute(dst=out, srcs=(a, b, c), reduce_op=nl.add, scales=[1.0, 1.0, 1.0])",
    # the order of NKI 0.2
    "nisa.dma_compute(out, [a, b, c], [1.0, 1.0, 1.0], nl.add)",
    """
tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
nisa.dma_compute(tile, [a, b, c], nl.add)
nisa.dma_copy(dst=out, src=tile)
""",
]


@pytest.mark.parametrize("body", FORMS)
def test_sums_are_rounded_once(run_text: Runner, body: str) -> None:
    """In float32, whatever the sources are; 1 + 2^-8 + 2^-8 is not lost in bfloat16."""
    a = normal(64, 32).astype(ml_dtypes.bfloat16)
    b, c = (np.full((64, 32), 2.0**-9, dtype=ml_dtypes.bfloat16) for _ in range(2))
    expected = (a.astype(np.float32) + b.astype(np.float32) + c.astype(np.float32)).astype(
        ml_dtypes.bfloat16
    )
    found = run_text(text(body), a, b, c, target="trn2").as_returned()
    assert np.array_equal(found, expected)


def test_calls_with_other_tensors_of_one_form_are_apart(run_text: Runner) -> None:
    body = """
nisa.dma_compute(out[0], [a, b], nl.add)
nisa.dma_compute(out[1], [b, c], nl.add)
nisa.dma_compute(out[2], [c, c], nl.add)
"""
    a, b, c = normal(3, 128, 16)
    found = run_text(text(body, shape="(3, 128, 16)"), a, b, c, target="trn2").as_returned()
    assert np.array_equal(found, np.stack([a + b, b + c, c + c]))


ROWS = np.array([[5], [0], [9], [2]], dtype=np.int32)


def _view(name: str) -> str:
    return f"{name}.ap(pattern=[[8, 4], [1, 8]], offset=0, vector_offset=rows, indirect_dim=0)"


def _loaded(*names: str) -> str:
    lines = []
    for tile, source in (n.split("=") for n in names):
        lines.append(f"{tile} = nl.ndarray({source}.shape, dtype={source}.dtype, buffer=nl.sbuf)")
        lines.append(f"nisa.dma_copy(dst={tile}, src={source})")
    return "\n".join(lines)


def test_rows_are_gathered_and_added(run_text: Runner) -> None:
    body = f"""
{_loaded("rows=c", "total=b")}
nisa.dma_compute(total, [{_view("a")}, total], nl.add)
nisa.dma_copy(dst=out, src=total)
"""
    a, b = normal(10, 8), normal(4, 8)
    found = run_text(text(body, shape="b.shape"), a, b, ROWS, target="trn2").as_returned()
    assert np.array_equal(found, a[ROWS[:, 0]] + b)


def test_rows_are_scattered_onto_what_is_there(run_text: Runner) -> None:
    body = f"""
{_loaded("rows=c", "data=b")}
nisa.dma_copy(dst=out, src=a)
nisa.dma_compute({_view("out")}, [{_view("out")}, data], nl.add)
"""
    a, b = normal(10, 8), normal(4, 8)
    expected = a.copy()
    expected[ROWS[:, 0]] += b
    found = run_text(text(body), a, b, ROWS, target="trn2").as_returned()
    assert np.array_equal(found, expected)


def test_rows_outside_are_skipped(run_text: Runner) -> None:
    body = f"""
{_loaded("rows=c", "data=b")}
nisa.dma_copy(dst=out, src=a)
nisa.dma_compute(
    {_view("out")}, [{_view("out")}, data], nl.add, oob_mode=nisa.oob_mode.skip
)
"""
    a, b = normal(10, 8), normal(4, 8)
    rows = np.array([[5], [70], [9], [-1]], dtype=np.int32)
    expected = a.copy()
    expected[[5, 9]] += b[[0, 2]]
    assert np.array_equal(run_text(text(body), a, b, rows, target="trn2").as_returned(), expected)
    with pytest.raises(KernelRejected) as caught:
        run_text(text(body.replace("skip", "error")), a, b, rows, target="trn2")
    assert caught.value.code == "R028"


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("nisa.dma_compute(out, [a, b], nl.maximum)", "R089"),
        ("nisa.dma_compute(out, [a, b], nl.add, scales=[1.0, 2.0])", "R089"),
        ("nisa.dma_compute(out, [a, b], nl.add, scales=[1.0])", "R089"),
        ("nisa.dma_compute(out, [a] * 17, nl.add)", "R089"),
        ("nisa.dma_compute(out, [a, b[0:1]], nl.add)", "R027"),
        ("nisa.dma_compute(out, [a, b], nl.add, oob_mode=nisa.oob_mode.skip)", "R098"),
        ("nisa.dma_compute(out, a, nl.add)", "R101"),
    ],
)
def test_limits(run_text: Runner, call: str, code: str) -> None:
    arrays: list[Any] = [normal(4, 8) for _ in range(3)]
    with pytest.raises(KernelRejected) as caught:
        run_text(text(call), *arrays, target="trn2")
    assert caught.value.code == code
