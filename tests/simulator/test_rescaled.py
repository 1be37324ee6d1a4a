"""Inputs of another scale: what is scaled, what stays, and what is said about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import ml_dtypes
import numpy as np
import pytest

from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.profiler.base import Rescaling
from accelopt_lsp.profiler.simulator.inputs import ObjectValue, rescaled, tensor_value
from tests.simulator.helpers import job, profile

NORMAL = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_floats_become_larger_and_shifted(dtype: Any) -> None:
    values = NORMAL.astype(dtype)
    found = rescaled(values, (64.0, 0.5))
    assert found.dtype == values.dtype
    exact = values.astype(np.float64)
    wanted = (exact + 0.5 * np.sqrt(np.mean(exact**2))) * 64
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=1e-2)


def test_zeros_and_ones_are_no_longer_what_they_were() -> None:
    assert np.all(rescaled(np.zeros(4, np.float32), (64.0, 0.5)) == 32.0)
    assert np.all(rescaled(np.ones(4, np.float32), (64.0, 0.5)) == 96.0)


@pytest.mark.parametrize(
    "values",
    [
        np.arange(4),
        np.array([True, False]),
        np.eye(4, dtype=np.float32),
        np.array([0.0, -np.inf, 0.0], np.float32) * np.float32(1),
        np.array([-9e9, 0.0, 0.0], np.float32),
        1e-6,
        3,
        "name",
        None,
    ],
)
def test_what_has_no_scale_stays(values: Any) -> None:
    found = rescaled(values, (64.0, 0.0))
    assert found is values or np.array_equal(found, values)


def test_infinities_stay_where_they_are() -> None:
    found = rescaled(np.array([1.0, 2.0, 3.0, -np.inf], np.float32), (2.0, 0.0))
    assert found.tolist() == [2.0, 4.0, 6.0, -np.inf]


def test_parts_of_structures_are_scaled() -> None:
    tensor = tensor_value(NORMAL)
    data = {"a": (tensor, 1), "b": [tensor], "c": ObjectValue("Make", (tensor,), {"d": tensor})}
    found = rescaled(data, (2.0, 0.0))
    made = found["c"]
    for part in (found["a"][0], found["b"][0], made.args[0], made.fields["d"]):
        np.testing.assert_allclose(part.carrier, 2 * NORMAL)
    assert found["a"][1] == 1


KERNEL = """import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.sin(nl.load(x)))
    return out
"""
EXP = KERNEL.replace("nl.sin", "nl.exp")
IDENTITY = KERNEL.replace("nl.sin(nl.load(x))", "nl.load(x)")


@pytest.mark.parametrize(
    ("kernel", "baseline", "right"),
    [(IDENTITY, KERNEL, False), (KERNEL, KERNEL, True), (EXP, EXP, False)],
    ids=["differs only there", "the baseline itself", "a baseline that overflows there"],
)
def test_kernels_are_compared_at_another_scale(
    kernel: str, baseline: str, right: bool, tmp_path: Path
) -> None:
    """Of small numbers the sine is the number itself, of large ones it is not."""
    path = tmp_path / "kernel.py"
    path.write_text(kernel)
    small = job(path, {"x": "f32[128,64]~N(0,0.001)"}, seeds=(0,))
    small = attrs.evolve(small, baseline=baseline, rescaled=(Rescaling(7, 1e6, 0.5),))
    found = profile(small)
    assert isinstance(found, Profile)
    assert found.correct is True
    found = profile(attrs.evolve(small, seeds=(0, 7)))
    assert isinstance(found, Profile)
    assert found.correct is right
    if kernel is IDENTITY:
        assert "seed 7 (inputs shifted by 0.5" in found.notes[0]
        assert "times 1e+06" in found.notes[0]
