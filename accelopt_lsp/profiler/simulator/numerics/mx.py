"""Numerics of microscaling formats (OCP MX): packed values, one power of two for 32 of them."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from accelopt_lsp.nki.instructions.mx import GROUP_PARTITIONS, scale_rows
from accelopt_lsp.profiler.simulator.elements import Array
from accelopt_lsp.profiler.simulator.numerics.base import (
    PARTS,
    WHERE,
    Attributes,
    Inputs,
    Results,
    computes,
)
from accelopt_lsp.profiler.simulator.numerics.operators import as_float

_ELEMENTS: dict[str, Any] = {
    "float8_e5m2_x4": ml_dtypes.float8_e5m2,
    "float8_e4m3fn_x4": ml_dtypes.float8_e4m3fn,
    "float4_e2m1fn_x4": ml_dtypes.float4_e2m1fn,
}
_LARGEST_EXPONENT = {"float8_e5m2_x4": 15, "float8_e4m3fn_x4": 8}
_LARGEST = {"float8_e5m2_x4": 57344.0, "float8_e4m3fn_x4": 448.0}
_BIAS = 127
"""A scale of bits b is 2^(b - 127); 255 is no number."""


@cache
def _codes(format: str) -> Array:
    """Value of each code of one element, 16 or 256 of them, in float32."""
    count = 16 if format.startswith("float4") else 256
    codes = np.arange(count, dtype=np.uint8).view(_ELEMENTS[format])
    values: Array = codes.astype(np.float32)
    return values


def unpack(packed: Array, format: str) -> Array:
    """Four float32 values for each packed element, in a new last axis; the first is lowest."""
    bits = 4 if format.startswith("float4") else 8
    shifts = np.arange(4, dtype=packed.dtype) * packed.dtype.type(bits)
    codes = (packed[..., None] >> shifts) & packed.dtype.type((1 << bits) - 1)
    values: Array = _codes(format)[codes]
    return values


def pack(values: Array, format: str) -> Array:
    """The inverse: ``[..., 4]`` values, rounded to nearest even, as one unsigned integer each."""
    bits = 4 if format.startswith("float4") else 8
    kind: Any = np.uint16 if bits == 4 else np.uint32
    with np.errstate(all="ignore"):
        codes = values.astype(_ELEMENTS[format]).view(np.uint8).astype(kind)
    shifts = np.arange(4, dtype=kind) * kind(bits)
    packed: Array = np.bitwise_or.reduce(codes << shifts, axis=-1)
    return packed


def rows_of_scales(partitions: int) -> Array:
    """Partition of each group's scale: four stand in each quadrant of 32 partitions."""
    group = np.arange(partitions // GROUP_PARTITIONS)
    return group // 4 * 32 + group % 4


def factors(scales: Array, partitions: int, columns: int) -> Array:
    """Scales ``[P, columns]`` of data, from where they stand.

    Args:
        scales: carrier of uint8 (bits) or of float8_e8m0fnu (values).
    """
    chosen = scales.reshape(scales.shape[0], -1)[rows_of_scales(partitions), :columns]
    if chosen.dtype != np.float32:
        exponents = chosen.astype(np.int32) - _BIAS
        values = np.ldexp(np.float32(1), exponents).astype(np.float32)
        chosen = np.where(chosen == 255, np.float32(np.nan), values)
    return np.repeat(chosen, GROUP_PARTITIONS, axis=0)


def _scaled(inputs: Inputs, attrs: Attributes, role: str) -> Array:
    """One operand as ``[4 K, columns]`` in float32."""
    packed = inputs[role]
    rows = packed.reshape(packed.shape[0], -1)
    partitions, columns = rows.shape
    scale = factors(inputs[f"{role}_scale"], partitions, columns)
    values = unpack(rows, attrs[role]) * scale[:, :, None]
    return values.transpose(0, 2, 1).reshape(4 * partitions, columns)


@computes("nc_matmul_mx")
def _nc_matmul_mx(inputs: Inputs, attrs: Attributes) -> Results:
    with np.errstate(all="ignore"):
        stationary = _scaled(inputs, attrs, "stationary")
        moving = _scaled(inputs, attrs, "moving")
        return {"dst": np.matmul(stationary.T, moving)}


@computes("quantize_mx")
def _quantize_mx(inputs: Inputs, attrs: Attributes) -> Results:
    src = as_float(inputs["src"])
    partitions = src.shape[0]
    format = attrs["format"]
    groups = src.reshape(partitions // GROUP_PARTITIONS, GROUP_PARTITIONS, -1, 4)
    largest = np.fmax.reduce(np.abs(groups), axis=(1, 3))
    _, exponents = np.frexp(largest)
    # frexp's mantissas are from 0.5 up to 1: its exponent is floor(log2) + 1.
    exponents = np.where(np.isinf(largest), 2 * _BIAS, exponents - 1)
    exponents = exponents - _LARGEST_EXPONENT[format]
    exponents = np.where(largest > 0, exponents, -_BIAS)
    exponents = np.clip(np.where(np.isinf(largest), _BIAS, exponents), -_BIAS, _BIAS)
    scale = np.ldexp(np.float32(1), exponents).astype(np.float32)
    elements = groups / scale[:, None, :, None]
    most = np.float32(_LARGEST[format])
    # The largest element may be beyond what the format holds; infinities are kept.
    elements = np.where(np.isinf(elements), elements, np.clip(elements, -most, most))
    packed = pack(elements, format)
    rows = rows_of_scales(partitions)
    columns = scale.shape[1]
    shape = attrs["shapes"]["dst_scale"]
    bits = attrs["scales"] == "uint8"
    scales = np.zeros(shape, dtype=np.uint8 if bits else np.float32)
    scales[rows, :columns] = exponents + _BIAS if bits else scale
    written = np.zeros(shape, dtype=bool)
    written[rows, :columns] = True
    return {
        "dst": packed.reshape(partitions, -1),
        "dst_scale": scales,
        WHERE: {"dst_scale": written},
    }


def _used_scales(values: Array, attrs: Attributes) -> Array:
    """Of a scale tile only the rows that hold scales are read."""
    if values.dtype.kind == "u" and values.dtype.itemsize > 1:
        return values
    rows = [r for r in range(values.shape[0]) if r % 32 < 4]
    return values[[r for r in rows if r < scale_rows(attrs["shapes"]["stationary"][0])]]


PARTS["nc_matmul_mx"] = _used_scales
