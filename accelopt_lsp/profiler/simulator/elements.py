"""Data types as kernels see them, and how their values are held in NumPy arrays.

Floating-point values of every width are held in float32 arrays ("carriers") whose values the
narrower type can represent exactly: each write rounds to nearest even, and reads need no
conversion. Integers are held as themselves, booleans as uint8, packed values of microscaling
formats as the unsigned integer of their bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from accelopt_lsp.nki.dtypes import (
    DType,
    Kind,
    all_dtypes,
    find_dtype,
    get_dtype,
    numpy_dtype,
)

Array = NDArray[Any]
POISON_BITS = 0x7FC0DEAD
"""A quiet NaN that no arithmetic yields: memory that was never written."""
INTEGER_POISON = -1_499_027_803
"""Stands for never-written 32-bit integers."""


def unwritten(values: Array) -> Array:
    """Which values of a carrier are those of memory that was never written."""
    if values.dtype == np.float32:
        return np.equal(values.view(np.uint32), POISON_BITS)
    if values.dtype.itemsize == 4:
        return np.equal(values.view(np.int32), INTEGER_POISON)
    return np.zeros(values.shape, dtype=bool)


class ElementType:
    """A data type in user code; equal to NumPy's types and to its name."""

    __slots__ = ("dtype", "element", "itemsize", "name")

    def __init__(self, element: DType) -> None:
        self.element = element
        self.name = element.name
        self.itemsize = element.nbytes
        self.dtype = numpy_dtype(element)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies of any kind are the type itself."""
        return element_named, (self.name,)

    def __hash__(self) -> int:
        return hash(self.element.name)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ElementType):
            return self.element is other.element
        if other is None:
            return False
        return as_dtype(other) is self.element

    def __call__(self, value: Any = 0) -> Any:
        """A scalar of this type, as NumPy's types make one."""
        return self.dtype.type(value)

    @property
    def type(self) -> Any:
        return self.dtype.type

    @property
    def kind(self) -> str:
        return self.dtype.kind


ELEMENTS = {d: ElementType(d) for d in all_dtypes()}


def element_named(name: str) -> ElementType:
    """The type of that name, as user code sees it."""
    return ELEMENTS[get_dtype(name)]


_BY_NUMPY: dict[np.dtype[Any], DType] = {}
for _d in all_dtypes():
    if _d.name != "tfloat32":
        _BY_NUMPY.setdefault(numpy_dtype(_d), _d)
_BY_NUMPY[np.dtype(np.int64)] = get_dtype("int32")
_BY_NUMPY[np.dtype(np.float64)] = get_dtype("float32")


def as_dtype(value: Any) -> DType | None:
    """The data type that ``value`` names (ours, NumPy's, by name, or of a framework), or None."""
    if isinstance(value, DType):
        return value
    if isinstance(value, ElementType):
        return value.element
    if isinstance(value, str):
        return find_dtype(value)
    if value is bool:
        return get_dtype("bool_")
    try:
        known = _BY_NUMPY.get(np.dtype(value))
    except (TypeError, ValueError, AttributeError):
        known = None
    if known is None and value is not None:
        # Types of other frameworks print as torch.bfloat16 or jax.numpy.bfloat16.
        text = str(value).strip("<>'").removeprefix("class ").strip("'")
        known = find_dtype(text) if text.rpartition(".")[2].isidentifier() else None
    return known


def carrier_type(dtype: DType) -> np.dtype[Any]:
    """NumPy type of the arrays that hold values of ``dtype``."""
    if dtype.kind is Kind.FLOAT:
        return np.dtype(np.float32)
    if dtype.kind is Kind.BOOL:
        return np.dtype(np.uint8)
    return numpy_dtype(dtype)


def _round_bfloat16(values: Array) -> Array:
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = bits >> 16
    rounded &= 1
    rounded += 0x7FFF
    rounded += bits
    rounded &= 0xFFFF0000
    return rounded.view(np.float32)


def _round_float16(values: Array) -> Array:
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float32)


def _rounder_through(dtype: DType) -> Callable[[Array], Array]:
    kind = numpy_dtype(dtype)

    def convert(values: Array) -> Array:
        with np.errstate(all="ignore"):
            return values.astype(np.float32).astype(kind).astype(np.float32)

    return convert


def _round_tfloat32(values: Array) -> Array:
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = ((bits >> 13) & 1) + bits + 0xFFF
    rounded &= 0xFFFFE000
    return rounded.view(np.float32)


def _float32(values: Array) -> Array:
    return values if values.dtype == np.float32 else values.astype(np.float32)


def _integer_rounder(dtype: DType) -> Callable[[Array], Array]:
    kind = numpy_dtype(dtype)
    limits = np.iinfo(kind)

    def convert(values: Array) -> Array:
        if values.dtype == kind:
            return values
        if values.dtype.kind == "f":
            with np.errstate(invalid="ignore"):
                wide = np.nan_to_num(np.rint(values.astype(np.float64)))
        else:
            wide = values.astype(np.int64)
        clipped: Array = np.clip(wide, limits.min, limits.max).astype(kind)
        return clipped

    return convert


def _round_bool(values: Array) -> Array:
    truth: Array = np.not_equal(values, 0).astype(np.uint8)
    return truth


def _round_scale(values: Array) -> Array:
    """Powers of two from 2^-127 on; 0, which the type lacks, has the bits of the smallest."""
    with np.errstate(all="ignore"):
        limited = np.where(values == 0, np.float32(2.0**-127), values)
        stored: Array = limited.astype(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    return stored


def _make_rounder(dtype: DType) -> Callable[[Array], Array]:
    if dtype.kind is Kind.BOOL:
        return _round_bool
    if dtype.kind is not Kind.FLOAT:
        return _integer_rounder(dtype)
    special = {
        "float32": _float32,
        "tfloat32": _round_tfloat32,
        "bfloat16": _round_bfloat16,
        "float16": _round_float16,
        "float8_e8m0fnu": _round_scale,
    }
    return special.get(dtype.name) or _rounder_through(dtype)


ROUNDERS = {d.name: _make_rounder(d) for d in all_dtypes()}
"""Functions that turn computed values into the carrier of a data type, by its name."""
CARRIERS = {d.name: carrier_type(d) for d in all_dtypes()}
"""NumPy types of carriers, by name of the data type."""


PRECISION_VARIABLE = "NKI_PRECISE_FP"
"""Environment variable that turns the rounding to narrow types off (NKI CPU Simulator)."""


def keep_precision() -> None:
    """Hold values of all floating-point types in float32 from now on, unrounded.

    ``NKI_PRECISE_FP=0`` asks scripts' kernels for it, to tell faults of the algorithm from loss
    of precision. Outputs are still rounded to their type when they are handed over.
    """
    for dtype in all_dtypes():
        if dtype.kind is Kind.FLOAT:
            ROUNDERS[dtype.name] = _float32


def to_carrier(values: Array, dtype: DType) -> Array:
    """Values of an input as a contiguous carrier of ``dtype``, rounded."""
    carrier = carrier_type(dtype)
    source = np.asarray(values)
    if dtype.kind is Kind.PACKED:
        return np.ascontiguousarray(source).view(carrier)
    if source.dtype == numpy_dtype(dtype) and _has_payloads(source, dtype):
        from accelopt_lsp.profiler.simulator.bits import STORAGE, from_bits

        stored = np.ascontiguousarray(source).view(STORAGE[dtype.name])
        return from_bits(stored, dtype)
    if source.dtype == ml_dtypes.bfloat16 or source.dtype.kind == "V":
        source = source.astype(np.float32)
    if carrier == np.float32:
        source = source.astype(np.float32, copy=False)
        return np.ascontiguousarray(ROUNDERS[dtype.name](source))
    return np.ascontiguousarray(ROUNDERS[dtype.name](source).astype(carrier, copy=False))


def from_carrier(values: Array, dtype: DType) -> Array:
    """Values in the NumPy type of ``dtype``; NaNs keep their bits, which may be data."""
    with np.errstate(all="ignore"):
        made = values.astype(numpy_dtype(dtype), copy=False)
    if _has_payloads(values, dtype):
        from accelopt_lsp.profiler.simulator.bits import to_bits

        lost = np.isnan(values)
        made[lost] = to_bits(values[lost], dtype).view(made.dtype)
    return made


def _has_payloads(values: Array, dtype: DType) -> bool:
    """Whether there are NaNs that NumPy's conversions would make all the same.

    Kernels store numbers as elements of a narrower type, next to values of that type.
    """
    if dtype.kind is not Kind.FLOAT or dtype.nbytes > 2:
        return False
    with np.errstate(invalid="ignore"):
        return bool(np.isnan(values).any())
