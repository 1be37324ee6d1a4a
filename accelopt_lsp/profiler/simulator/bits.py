"""The bits that the device holds, and the carriers that the simulator computes with.

Carriers keep narrow floating-point numbers in float32. As soon as a tensor is viewed as another
data type its true bits matter, NaNs with their payloads included: kernels move integers as pairs of
bfloat16. Both directions are exact here, so that bits survive any number of plain moves.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from accelopt_lsp.nki.dtypes import DType, Kind, all_dtypes, numpy_dtype
from accelopt_lsp.profiler.simulator.elements import CARRIERS, Array

_MANTISSA = {"float16": 10, "float8_e4m3": 3, "float8_e4m3fn": 3, "float8_e5m2": 2}
"""Bits of the mantissa of the types whose NaNs have payloads, bfloat16 apart."""
_QUIET = 0x7F800000
"""Exponent of infinities and NaNs in float32."""

Convert = Callable[[Array], Array]


def _storage_type(dtype: DType) -> np.dtype[np.generic]:
    if dtype.kind is Kind.FLOAT and dtype.nbytes < 4:
        return np.dtype(f"uint{8 * dtype.nbytes}")
    return CARRIERS[dtype.name]


def _bfloat16_from(stored: Array) -> Array:
    return (stored.astype(np.uint32) << 16).view(np.float32)


def _bfloat16_to(values: Array) -> Array:
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return (bits >> 16).astype(np.uint16)


def _narrow(dtype: DType) -> tuple[Convert, Convert]:
    """Conversions of a type of 8 or 16 bits: NumPy's, but NaNs keep sign and payload."""
    real = numpy_dtype(dtype)
    kind = _storage_type(dtype)
    mantissa = _MANTISSA.get(dtype.name, 0)
    shift, top = 23 - mantissa, 8 * dtype.nbytes - 1
    nan = int(np.array(np.nan, dtype=np.float32).astype(real).view(kind)) & ((1 << top) - 1)
    exponent = nan >> mantissa << mantissa

    def forth(stored: Array) -> Array:
        stored = np.ascontiguousarray(stored)
        with np.errstate(all="ignore"):
            values: Array = stored.view(real).astype(np.float32)
        lost = np.isnan(values)
        if mantissa and lost.any():
            code = stored[lost].astype(np.uint32)
            payload = (code & ((1 << mantissa) - 1)) << shift
            values[lost] = ((code >> top << 31) | _QUIET | payload).view(np.float32)
        return values

    def back(values: Array) -> Array:
        values = np.ascontiguousarray(values, dtype=np.float32)
        with np.errstate(all="ignore"):
            stored: Array = values.astype(real).view(kind)
        lost = np.isnan(values)
        if mantissa and lost.any():
            code = values[lost].view(np.uint32)
            payload = (code >> shift) & ((1 << mantissa) - 1)
            if dtype.name == "float8_e4m3fn":
                payload = np.full_like(payload, 7)
            payload = np.maximum(payload, 1)
            stored[lost] = ((code >> 31 << top) | exponent | payload).astype(kind)
        return stored

    return forth, back


def _same(values: Array) -> Array:
    return values


def _conversions(dtype: DType) -> tuple[Convert, Convert]:
    if _storage_type(dtype) == CARRIERS[dtype.name]:
        return _same, _same
    if dtype.name == "bfloat16":
        return _bfloat16_from, _bfloat16_to
    return _narrow(dtype)


_CONVERSIONS = {d.name: _conversions(d) for d in all_dtypes()}
STORAGE = {d.name: _storage_type(d) for d in all_dtypes()}
"""NumPy types of the bits in memory, by name of the data type."""


def from_bits(stored: Array, dtype: DType) -> Array:
    """Carriers of stored bits; the same array where the two are one."""
    return _CONVERSIONS[dtype.name][0](stored)


def to_bits(values: Array, dtype: DType) -> Array:
    """Bits of rounded carriers; the same array where the two are one."""
    return _CONVERSIONS[dtype.name][1](values)
