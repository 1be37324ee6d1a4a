"""Data types of NKI: names, sizes and their NumPy representation."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

from attrs import field, frozen

if TYPE_CHECKING:
    import numpy as np


class Kind(StrEnum):
    """What the bits of a data type mean."""

    FLOAT = "float"
    SIGNED = "signed"
    UNSIGNED = "unsigned"
    BOOL = "bool"
    PACKED = "packed"
    """Several values of a microscaling format in one element, which is moved as its bits."""


@frozen(slots=True)
class DType:
    """A data type that an instruction can read or write.

    Attributes:
        name: canonical NKI name, for example ``bfloat16``.
        nbytes: size of one stored element in bytes.
        kind: how the bits are read.
        short: the abbreviation used in argument specs and hints, for example ``bf16``.
        aliases: further accepted spellings.
    """

    name: str
    nbytes: int
    kind: Kind
    short: str
    aliases: tuple[str, ...] = field(default=(), eq=False)

    def __str__(self) -> str:
        return self.name

    @property
    def is_float(self) -> bool:
        return self.kind is Kind.FLOAT

    @property
    def is_16bit_float(self) -> bool:
        return self.is_float and self.nbytes == 2


_ALL = (
    DType("float32", 4, Kind.FLOAT, "f32", ("fp32",)),
    DType("tfloat32", 4, Kind.FLOAT, "tf32"),
    DType("bfloat16", 2, Kind.FLOAT, "bf16"),
    DType("float16", 2, Kind.FLOAT, "f16", ("fp16",)),
    DType("float8_e4m3", 1, Kind.FLOAT, "f8e4m3"),
    DType("float8_e4m3fn", 1, Kind.FLOAT, "f8e4m3fn"),
    DType("float8_e5m2", 1, Kind.FLOAT, "f8e5m2"),
    DType("int8", 1, Kind.SIGNED, "i8"),
    DType("int16", 2, Kind.SIGNED, "i16"),
    DType("int32", 4, Kind.SIGNED, "i32"),
    DType("uint8", 1, Kind.UNSIGNED, "u8"),
    DType("uint16", 2, Kind.UNSIGNED, "u16"),
    DType("uint32", 4, Kind.UNSIGNED, "u32"),
    DType("bool_", 1, Kind.BOOL, "bool", ("bool8",)),
    DType("float8_e8m0fnu", 1, Kind.FLOAT, "f8e8m0", ("float8_e8m0",)),
    DType("float8_e5m2_x4", 4, Kind.PACKED, "f8e5m2x4"),
    DType("float8_e4m3fn_x4", 4, Kind.PACKED, "f8e4m3fnx4"),
    DType("float4_e2m1fn_x4", 2, Kind.PACKED, "f4e2m1fnx4"),
)
_BY_NAME = {name: d for d in _ALL for name in (d.name, d.short, *d.aliases)}

FLOAT32 = _BY_NAME["float32"]
BFLOAT16 = _BY_NAME["bfloat16"]
FLOAT16 = _BY_NAME["float16"]
BOOL = _BY_NAME["bool_"]


def all_dtypes() -> tuple[DType, ...]:
    """Every data type the project knows."""
    return _ALL


def find_dtype(name: str) -> DType | None:
    """The data type of that name, short name or alias; None if there is none.

    Dotted names are looked up by their last part, so ``nl.float32`` and ``np.float32`` work.
    """
    return _BY_NAME.get(name.rpartition(".")[2])


def get_dtype(name: str) -> DType:
    """The data type of that name.

    Raises:
        ValueError: no such data type; the message lists those that exist.
    """
    found = find_dtype(name)
    if found is None:
        known = ", ".join(d.short for d in _ALL)
        raise ValueError(f"unknown data type {name!r}; known: {known}")
    return found


@cache
def numpy_dtype(dtype: DType) -> np.dtype:
    """The NumPy data type that stores ``dtype`` (ml_dtypes for bfloat16 and 8-bit floats).

    Four packed values are the unsigned integer of their size; the first is in its lowest bits.
    """
    import ml_dtypes
    import numpy as np

    special = {
        "tfloat32": np.float32,
        "bfloat16": ml_dtypes.bfloat16,
        "float8_e4m3": ml_dtypes.float8_e4m3,
        "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
        "float8_e5m2": ml_dtypes.float8_e5m2,
        "bool_": np.bool_,
        "float8_e8m0fnu": ml_dtypes.float8_e8m0fnu,
        "float8_e5m2_x4": np.uint32,
        "float8_e4m3fn_x4": np.uint32,
        "float4_e2m1fn_x4": np.uint16,
    }
    found: np.dtype = np.dtype(special.get(dtype.name, dtype.name))
    return found


def promote(first: DType, second: DType) -> DType:
    """Result type of a binary operation on two tiles (legacy type promotion rules)."""
    if first == second:
        return first
    if first.is_float != second.is_float:
        return first if first.is_float else second
    if first.is_float:
        if first.nbytes != second.nbytes:
            return first if first.nbytes > second.nbytes else second
        # bf16 with fp16 has no common 16-bit type; the two 8-bit floats meet in bf16.
        return FLOAT32 if first.nbytes >= 2 else BFLOAT16
    if first.nbytes != second.nbytes:
        return first if first.nbytes > second.nbytes else second
    if first.kind is Kind.BOOL:
        return second
    if second.kind is Kind.BOOL:
        return first
    widened = {1: "int16", 2: "int32", 4: "float32"}[first.nbytes]
    return _BY_NAME[widened]
