"""Where results go, what accumulates, and what counts as never written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.profiler.simulator.errors import KernelRejected
from tests.simulator.helpers import Runner, normal

LEGACY = """
import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
{body}
    nl.store(out, result)
    return out
"""
CURRENT = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
{body}
    nisa.dma_copy(dst=out, src=result)
    return out
"""


def _text(template: str, body: str) -> str:
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return template.replace("{body}", lines)


def _ops(outcome: Any) -> list[str]:
    trace = outcome.session.trace
    return [
        trace.templates[n].issue.op + ("+" if trace.templates[n].accumulates else "")
        for n, _ in trace.records
    ][1:-1]


@pytest.mark.parametrize(
    ("body", "ops"),
    [
        # The result of a call goes straight into the tile it is assigned to.
        ("result = nl.ndarray((128, 64), x.dtype)\nresult[...] = nl.exp(tile)", ["activation"]),
        ("result = nl.ndarray((128, 64), x.dtype)\nresult[...] = tile + 1.0", ["tensor_scalar"]),
        # A value with a name is copied.
        (
            "result = nl.ndarray((128, 64), x.dtype)\ny = nl.exp(tile)\nresult[...] = y",
            ["activation", "tensor_copy"],
        ),
        (
            "result = nl.ndarray((128, 64), x.dtype)\nresult[...] = tile[...]",
            ["tensor_copy"],
        ),
        # One number fills a tile.
        ("result = nl.ndarray((128, 64), x.dtype)\nresult[...] = 0.5", ["memset"]),
        ("result = nl.zeros((128, 64), x.dtype)", ["memset"]),
        # In-place operators are one operation.
        ("result = nl.exp(tile)\nresult += tile", ["activation", "tensor_tensor"]),
        ("result = nl.exp(tile)\nresult[...] *= 2.0", ["activation", "tensor_scalar"]),
        ("result = nl.exp(tile)\nresult[:, 0:8] -= tile[:, 0:8]", ["activation", "tensor_tensor"]),
        # A product cannot be written to SBUF: it takes a copy out of PSUM.
        (
            "result = nl.ndarray((64, 64), nl.float32)\n"
            "result[...] = nl.matmul(tile, tile, transpose_x=True)\n"
            "result = nl.load(x)",
            ["nc_matmul", "tensor_copy", "dma_copy"],
        ),
    ],
)
def test_where_results_go(run_text: Runner, body: str, ops: list[str]) -> None:
    assert _ops(run_text(_text(LEGACY, body), normal(128, 64))) == ops


def test_products_add_up_in_psum(run_text: Runner) -> None:
    body = """
square = nl.ones((128, 128), x.dtype)
total = nl.zeros((128, 64), nl.float32, buffer=nl.psum)
for i in nl.affine_range(3):
    total += nisa.nc_matmul(square, tile)
result = nl.copy(total)
"""
    x = normal(128, 64)
    outcome = run_text(_text(LEGACY, body), x)
    assert _ops(outcome) == ["memset", *["nc_matmul+"] * 3, "tensor_copy"]
    expected = 3 * np.ones((128, 128), np.float32) @ x
    assert np.allclose(outcome.as_returned(), expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("accumulate", "ops", "factor"),
    [
        ("", ["nc_matmul", "nc_matmul+"], 2),
        (", accumulate=False", ["nc_matmul", "nc_matmul"], 1),
    ],
)
def test_accumulate_of_the_current_dialect(
    run_text: Runner, accumulate: str, ops: list[str], factor: int
) -> None:
    body = f"""
total = nl.ndarray((64, 64), nl.float32, buffer=nl.psum)
nisa.nc_matmul(total, tile, tile{accumulate})
nisa.nc_matmul(total, tile, tile{accumulate})
result = nl.ndarray((64, 64), x.dtype, buffer=nl.sbuf)
nisa.tensor_copy(dst=result, src=total)
"""
    text = _text(CURRENT, body).replace(
        "nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)",
        "nl.ndarray((64, 64), dtype=x.dtype, buffer=nl.shared_hbm)",
    )
    x = normal(128, 64)
    outcome = run_text(text, x, target="trn2")
    assert _ops(outcome)[:2] == ops
    assert np.allclose(outcome.as_returned(), factor * x.T @ x, rtol=1e-4, atol=1e-4)


def test_regions_of_one_psum_tile_accumulate_apart(run_text: Runner) -> None:
    body = """
total = nl.ndarray((64, 128), nl.float32, buffer=nl.psum)
for half in range(2):
    for k in range(2):
        nisa.nc_matmul(total[:, nl.ds(half * 64, 64)], tile, tile)
result = nl.ndarray((64, 128), x.dtype, buffer=nl.sbuf)
nisa.tensor_copy(dst=result, src=total)
"""
    text = _text(CURRENT, body).replace(
        "nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)",
        "nl.ndarray((64, 128), dtype=x.dtype, buffer=nl.shared_hbm)",
    )
    x = normal(128, 64)
    outcome = run_text(text, x, target="trn2")
    assert _ops(outcome)[:4] == ["nc_matmul", "nc_matmul+"] * 2
    assert np.allclose(outcome.as_returned(), np.tile(2 * x.T @ x, (1, 2)), rtol=1e-4, atol=1e-4)


def test_blocks_have_storages_of_their_own(run_text: Runner) -> None:
    body = """
blocks = nl.ndarray((2, nl.par_dim(128), 64), x.dtype, buffer=nl.sbuf)
for i in nl.affine_range(2):
    blocks[i] = nl.exp(tile)
result = nl.add(blocks[0], blocks[1])
"""
    outcome = run_text(_text(LEGACY, body), normal(128, 64))
    found = [s for s in outcome.session.trace.storages if s.name == "blocks"]
    assert len(found) == 2
    assert len({s.site for s in found}) == 1
    assert {s.born for s in found} == {1}


def test_a_loop_reduction_copies_first_and_combines_later(run_text: Runner) -> None:
    body = """
result = nl.ndarray((128, 64), x.dtype)
for i in nl.affine_range(2):
    for j in nl.affine_range(2):
        result[...] = nl.loop_reduce(tile, op=np.add, loop_indices=[i, j])
"""
    x = normal(128, 64)
    outcome = run_text(_text(LEGACY, body), x)
    assert _ops(outcome) == ["tensor_copy", *["tensor_tensor"] * 3]
    assert np.allclose(outcome.as_returned(), 4 * x, rtol=1e-6)


def test_a_loop_reduction_into_a_variable(run_text: Runner) -> None:
    body = """
for i in nl.affine_range(3):
    result = nl.loop_reduce(tile, op=nl.max, loop_indices=i)
"""
    x = normal(128, 64)
    outcome = run_text(_text(LEGACY, body), x)
    assert _ops(outcome) == ["tensor_copy", *["tensor_tensor"] * 2]
    assert np.array_equal(outcome.as_returned(), x)


def test_masks_cut_instructions_short(run_text: Runner) -> None:
    body = """
i, j = nl.arange(128)[:, None], nl.arange(64)[None, :]
result = nl.load(x[i, j])
result[i, j] = nl.exp(tile[i, j], mask=(i < 100) & (j >= 16))
"""
    x = normal(128, 64)
    outcome = run_text(_text(LEGACY, body), x)
    expected = x.copy()
    expected[:100, 16:] = np.exp(x[:100, 16:])
    assert np.allclose(outcome.as_returned(), expected, rtol=1e-6)
    assert outcome.session.trace.records[2][1][0][1:] == (0, 100, 64, 256)


def test_masks_over_two_axes(run_text: Runner) -> None:
    body = """
i, j = nl.arange(128)[:, None], nl.arange(64)[None, :]
result = nl.load(x[i, j])
result[i, j] = nl.multiply(tile[i, j], 0.0, mask=i < j)
"""
    x = normal(128, 64)
    outcome = run_text(_text(LEGACY, body), x)
    above = np.arange(128)[:, None] < np.arange(64)[None, :]
    assert np.array_equal(outcome.as_returned(), np.where(above, 0, x))


def test_a_mask_that_holds_nowhere_issues_nothing(run_text: Runner) -> None:
    body = """
i, j = nl.arange(128)[:, None], nl.arange(64)[None, :]
result = nl.load(x[i, j])
for k in range(2):
    result[i, j] = nl.exp(tile[i, j], mask=k * 128 + i < 128)
"""
    outcome = run_text(_text(LEGACY, body), normal(128, 64))
    assert _ops(outcome) == ["dma_copy", "activation"]


def test_reading_what_a_mask_left_out_is_noted(run_text: Runner) -> None:
    body = """
i, j = nl.arange(128)[:, None], nl.arange(64)[None, :]
part = nl.load(x[i, j], mask=i < 64)
twice = nl.add(part, part)
result = nl.load(x[i, j])
result[i, j] = nl.copy(twice[i, j], mask=i < 64)
"""
    outcome = run_text(_text(LEGACY, body), normal(128, 64))
    assert any("never written" in note for note in outcome.session.notes)


def test_programs_of_a_grid_share_their_output(run_text: Runner) -> None:
    text = """
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    row = nl.program_id(0)
    assert nl.num_programs(0) == 2
    nl.store(out[row * 128 : (row + 1) * 128], nl.exp(nl.load(x[nl.ds(row * 128, 128)])))
    return out
"""
    x = normal(256, 64)
    outcome = run_text(text, x, grid=(2,))
    assert np.allclose(outcome.as_returned(), np.exp(x), rtol=1e-6)
    assert len(outcome.session.trace.records) == 6
    assert sum(s.buffer is Buffer.HBM for s in outcome.session.trace.storages) == 2


def test_shapes_alone_allocate_no_values(run_text: Runner) -> None:
    text = _text(LEGACY, "result = nl.exp(tile)")
    outcome = run_text(text, normal(128, 64), full=False)
    assert outcome.outputs == []
    assert all(t.settle().array is None for t in outcome.tensors)


def test_low_precision_rounds_once(run_text: Runner) -> None:
    import ml_dtypes

    body = "result = nl.ndarray((128, 64), x.dtype)\nresult[...] = nl.exp(tile)"
    x = normal(128, 64).astype(ml_dtypes.bfloat16)
    returned = run_text(_text(LEGACY, body), x).as_returned()
    expected = np.exp(x.astype(np.float32)).astype(ml_dtypes.bfloat16)
    assert np.array_equal(returned, expected)


def test_tolerated_keywords_are_noted(run_text: Runner) -> None:
    body = """
result = nl.ndarray((128, 64), x.dtype, buffer=nl.sbuf)
nisa.tensor_copy(dst=result, src=tile, dtype=x.dtype, mask=None)
"""
    outcome = run_text(_text(CURRENT, body), normal(128, 64), target="trn2")
    assert sum("ignored" in note for note in outcome.session.notes) == 2
    wrong = body.replace("mask=None", "colour=None")
    with pytest.raises(KernelRejected, match="colour"):
        run_text(_text(CURRENT, wrong), normal(128, 64), target="trn2")


def test_names_work_under_any_alias(run_text: Runner) -> None:
    text = """
from neuronxcc import nki as n
import neuronxcc.nki.language as language
from neuronxcc.nki.language import load as fetch, shared_hbm, store
from neuronxcc.nki.typing import tensor


@n.jit(show_compiler_tb=True)
def kernel(x: tensor[128, 64]):
    out = language.ndarray(x.shape, dtype=x.dtype, buffer=shared_hbm)
    store(out, fetch(x))
    return out
"""
    x = normal(128, 64)
    assert np.array_equal(run_text(text, x).as_returned(), x)


def test_data_types_compare_with_numpys(run_text: Runner) -> None:
    body = """
assert x.dtype == np.float32 and x.dtype == nl.float32 and x.dtype != nl.bfloat16
assert np.dtype(x.dtype).itemsize == 4 and x.dtype == "float32"
result = nl.ndarray((128, 64), np.float32)
result[...] = nl.copy(tile, dtype=np.dtype("float32"))
"""
    assert _ops(run_text(_text(LEGACY, body), normal(128, 64))) == ["tensor_copy"]
