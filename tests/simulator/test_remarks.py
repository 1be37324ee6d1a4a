"""What is no rejection, and yet said: kernels that run, with a remark in the profile."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulator.helpers import Runner

SUM = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    tile = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    total = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.memset(dst=total, value=1.0)
    nisa.nc_matmul(dst=total, stationary=tile, moving=tile, accumulate=True)
    result = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=total)
    out = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=result)
    return out
"""


@pytest.mark.parametrize(
    ("target", "remark"),
    [
        ("trn1", "undefined on NeuronCore-v2"),
        ("trn2", "undefined on NeuronCore-v3"),
        ("trn3", None),
    ],
)
def test_a_sum_over_what_no_product_wrote(
    run_text: Runner, target: str, remark: str | None
) -> None:
    """It is computed; before NeuronCore-v4 the documents call it undefined."""
    x = np.eye(128, dtype=np.float32)
    outcome = run_text(SUM, x, target=target)
    assert np.array_equal(outcome.as_returned(), 1 + x)
    found = [note for note in outcome.session.notes if "total (created on line 11)" in note]
    assert [remark in note for note in found] == ([] if remark is None else [True])


MASKS = """
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    i, j = nl.mgrid[0:128, 0:128]
    tile = nl.zeros((128, 128), dtype=x.dtype, buffer=nl.sbuf)
    tile[i, j] = nl.load(x[i, j], mask=(i < 64 and j < 32))
    out = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=tile)
    return out
"""


def test_masks_joined_by_and(run_text: Runner) -> None:
    """Python gives the second one, as in AWS's own kernels."""
    outcome = run_text(MASKS, np.ones((128, 128), dtype=np.float32))
    assert outcome.as_returned().sum() == 128 * 32
    assert any("combine masks with &" in note for note in outcome.session.notes)
