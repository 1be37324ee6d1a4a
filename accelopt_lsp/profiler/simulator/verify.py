"""Whether a kernel's outputs are right: relative L2 error per output, by its data type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import frozen

from accelopt_lsp.nki.dtypes import DType
from accelopt_lsp.profiler.simulator.elements import Array

TOLERANCES = {4: 2e-5, 2: 2e-3, 1: 5e-2}
"""Relative L2 error by bytes of the output's type; bfloat16 is :data:`BFLOAT16_TOLERANCE`."""
BFLOAT16_TOLERANCE = 1e-2
_CHUNK = 1 << 22


@frozen(slots=True)
class Verdict:
    """Result of one comparison.

    Attributes:
        correct: all outputs are within their tolerance.
        error: largest relative L2 error; infinite where shapes or non-finite values differ.
        message: what is wrong, empty when all is right.
    """

    correct: bool
    error: float
    message: str = ""


def tolerance(dtype: DType, override: float | None = None) -> float:
    """Allowed relative L2 error of an output."""
    if override is not None:
        return override
    if dtype.name == "bfloat16":
        return BFLOAT16_TOLERANCE
    return TOLERANCES[dtype.nbytes] if dtype.is_float else TOLERANCES[4]


def relative_error(actual: Array, expected: Array) -> tuple[float, str]:
    """Relative L2 error, and what is odd about the values, if anything is.

    Infinities and NaNs must stand in the same places; they are left out of the norm.
    """
    flat, wanted = actual.reshape(-1), expected.reshape(-1)
    difference = norm = 0.0
    for start in range(0, flat.size, _CHUNK):
        a = np.asarray(flat[start : start + _CHUNK], dtype=np.float64)
        e = np.asarray(wanted[start : start + _CHUNK], dtype=np.float64)
        finite = np.isfinite(e)
        if not finite.all():
            same = np.where(np.isnan(e), np.isnan(a), a == e)
            odd = ~finite & ~same
            if odd.any():
                where = _place(start + int(np.argmax(odd)), expected.shape)
                return float("inf"), f"a value that should be infinite or NaN is not, at {where}"
            a, e = np.where(finite, a, 0.0), np.where(finite, e, 0.0)
        bad = ~np.isfinite(a)
        if bad.any():
            where = _place(start + int(np.argmax(bad)), expected.shape)
            return float("inf"), (
                f"{int(bad.sum())} or more values are NaN or infinite, the first at {where}: "
                "never written, or overflowed"
            )
        a -= e
        difference += float(np.dot(a, a))
        norm += float(np.dot(e, e))
    if norm == 0.0:
        return float(np.sqrt(difference)), ""
    return float(np.sqrt(difference / norm)), ""


def _place(index: int, shape: tuple[int, ...]) -> str:
    if not shape:
        return "[]"
    return str([int(i) for i in np.unravel_index(index, shape)])


def compare(
    actual: Sequence[Any],
    expected: Sequence[Any],
    dtypes: Sequence[DType],
    rtol: float | None = None,
) -> Verdict:
    """Compare all outputs of one run with what they should be."""
    if len(actual) != len(expected):
        return Verdict(
            False, float("inf"), f"{len(actual)} outputs, the reference has {len(expected)}"
        )
    worst = 0.0
    for number, (a, e) in enumerate(zip(actual, expected, strict=True)):
        a, e = np.asarray(a), np.asarray(e)
        name = f"output {number}" if len(expected) > 1 else "the output"
        if a.shape != e.shape:
            return Verdict(
                False,
                float("inf"),
                f"{name} has shape {list(a.shape)}, the reference gives {list(e.shape)}",
            )
        error, odd = relative_error(a, e)
        dtype = dtypes[min(number, len(dtypes) - 1)]
        allowed = tolerance(dtype, rtol)
        worst = max(worst, error)
        if odd:
            return Verdict(False, error, f"{name}: {odd}")
        if not error <= allowed:
            return Verdict(
                False,
                error,
                f"{name} is wrong: relative error {error:.2e}, allowed {allowed:.0e} for "
                f"{dtype}; {_first_difference(a, e, allowed)}",
            )
    return Verdict(True, worst)


def _first_difference(actual: Array, expected: Array, allowed: float) -> str:
    """The first element that is clearly off, for people."""
    flat, wanted = actual.reshape(-1), expected.reshape(-1)
    scale = float(np.sqrt(np.mean(np.square(wanted[:_CHUNK], dtype=np.float64)))) or 1.0
    for start in range(0, flat.size, _CHUNK):
        a = np.asarray(flat[start : start + _CHUNK], dtype=np.float64)
        e = np.asarray(wanted[start : start + _CHUNK], dtype=np.float64)
        off = np.abs(a - e) > max(allowed, 1e-3) * scale
        if off.any():
            index = int(np.argmax(off))
            place = _place(start + index, expected.shape)
            return f"first at {place}: {a[index]:.6g} instead of {e[index]:.6g}"
    return "many small differences"
