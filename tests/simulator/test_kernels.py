"""Small kernels in both dialects: values against NumPy, traces against golden summaries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from accelopt_lsp.profiler.simulator.verify import relative_error
from tests.simulator.helpers import FOLDER, normal, summary


def _matmul(lhs_t: Any, rhs: Any) -> Any:
    return lhs_t.T @ rhs


def _rmsnorm(x: Any, weight: Any) -> Any:
    return x / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + 1e-6) * weight


def _softmax(x: Any) -> Any:
    exponent = np.exp(x - x.max(axis=1, keepdims=True))
    return exponent / exponent.sum(axis=1, keepdims=True)


def _silu(x: Any) -> Any:
    return x / (1 + np.exp(-x))


def _rope(x: Any, cos: Any, sin: Any) -> Any:
    half = len(x) // 2
    low, high = x[:half], x[half:]
    return np.concatenate([low * cos - high * sin, high * cos + low * sin])


CASES: dict[str, tuple[Any, tuple[tuple[int, ...], ...]]] = {
    "matmul": (_matmul, ((256, 256), (256, 1024))),
    "rmsnorm": (_rmsnorm, ((300, 640), (640,))),
    "softmax": (_softmax, ((256, 384),)),
    "silu": (_silu, ((3, 128, 512),)),
    "rope": (_rope, ((128, 512), (64, 512), (64, 512))),
}
PARAMETERS = [(d, n) for d in ("legacy", "current") for n in CASES]


def _path(dialect: str, name: str) -> Path:
    return FOLDER / "kernels" / dialect / f"{name}.py"


def _target(dialect: str) -> str:
    return "trn1" if dialect == "legacy" else "trn2"


@pytest.mark.parametrize(("dialect", "name"), PARAMETERS)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_values(run_path: Any, dialect: str, name: str, dtype: Any) -> None:
    reference, shapes = CASES[name]
    inputs = [normal(*shape, seed=i).astype(dtype) for i, shape in enumerate(shapes)]
    outcome = run_path(_path(dialect, name), *inputs, target=_target(dialect))
    expected = reference(*(i.astype(np.float32) for i in inputs))
    returned = outcome.as_returned()
    assert returned.dtype == dtype
    error, odd = relative_error(returned.astype(np.float32), expected)
    assert odd == ""
    assert error < (1e-5 if dtype is np.float32 else 1e-2)


@pytest.mark.parametrize(("dialect", "name"), PARAMETERS)
def test_trace(run_path: Any, golden: Any, dialect: str, name: str) -> None:
    _, shapes = CASES[name]
    inputs = [normal(*shape) for shape in shapes]
    outcome = run_path(_path(dialect, name), *inputs, target=_target(dialect), full=False)
    golden(summary(outcome), f"{dialect}_{name}.json")


@pytest.mark.parametrize(("dialect", "name"), PARAMETERS)
def test_tracing_shapes_issues_what_computing_issues(
    run_path: Any, dialect: str, name: str
) -> None:
    _, shapes = CASES[name]
    inputs = [normal(*shape) for shape in shapes]
    path, target = _path(dialect, name), _target(dialect)
    shapes_only = run_path(path, *inputs, target=target, full=False).session.trace
    computed = run_path(path, *inputs, target=target).session.trace
    assert shapes_only.records == computed.records
    assert shapes_only.templates == computed.templates
    assert shapes_only.storages == computed.storages
