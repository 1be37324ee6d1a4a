"""Attributes of values, and what dotted NKI and NumPy names stand for."""

from __future__ import annotations

import math
from collections.abc import Mapping

from accelopt_lsp.analysis.affine import Affine
from accelopt_lsp.analysis.machine import ATTRIBUTES, Machine
from accelopt_lsp.analysis.scope import UNBOUND
from accelopt_lsp.analysis.values import (
    Blocks,
    Bound,
    Function,
    Grid,
    HostArray,
    IndexArray,
    ListValue,
    Method,
    ModuleValue,
    Placement,
    Ref,
    Unknown,
    Value,
    View,
)
from accelopt_lsp.nki.dialects import LANGUAGE_CONSTANTS, MEMORIES
from accelopt_lsp.nki.dtypes import DType, find_dtype
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.reference.names import sized_constant
from accelopt_lsp.nki.reference.paths import canonical_path

_NUMBERS: Mapping[str, float] = {
    "math.pi": math.pi,
    "math.e": math.e,
    "math.inf": math.inf,
    "np.pi": math.pi,
    "np.inf": math.inf,
    "np.e": math.e,
}
_WIDE = {"float64": "float32", "int64": "int32", "double": "float32", "bool": "bool_"}
OPERATOR_NAMES: Mapping[str, str] = {
    "max": "maximum",
    "min": "minimum",
    "amax": "maximum",
    "amin": "minimum",
    "sum": "add",
    "mul": "multiply",
    "prod": "multiply",
    "sub": "subtract",
    "true_divide": "divide",
    "absolute": "abs",
    "bitwise_not": "invert",
    "pow": "power",
}
MAX_PATH = 300
_GRID_AXES = ("p", "x", "y", "z", "w")


def attribute_of(m: Machine, value: Value, name: str) -> Value:
    """``value.name``."""
    handler = ATTRIBUTES.get(value.__class__)
    if handler is not None:
        return handler(m, value, name)
    if isinstance(value, Ref):
        path = f"{value.path}.{name}"
        if len(path) > MAX_PATH:
            return Unknown("a long chain of attributes of something that is not of this file")
        found = m.resolved.get(path, UNBOUND)
        if found is UNBOUND:
            found = m.resolved[path] = resolve(m, canonical_path(path))
        return found
    if isinstance(value, Unknown):
        return value
    if isinstance(value, View | Blocks):
        return _tensor_attribute(value, name)
    if isinstance(value, Grid) and name in _GRID_AXES:
        position = _GRID_AXES.index(name)
        if position < len(value.axes):
            return value.axes[position]
        return Unknown(f"this grid has {len(value.axes)} axes, no .{name}")
    if isinstance(value, DType):
        return _dtype_attribute(value, name)
    if isinstance(value, HostArray):
        return _host_attribute(value, name)
    if isinstance(value, IndexArray) and name == "shape":
        return value.shape
    if isinstance(value, ModuleValue):
        found = value.home.attribute(m, name)
        return Unknown(f"{value.home.name} has no {name!r}") if found is UNBOUND else found
    if isinstance(value, Function | Bound):
        if name in ("__name__", "__qualname__") and isinstance(value, Function):
            return value.name
        return Unknown(f"what .{name} of a function is")
    return Method(value, name)


def resolve(m: Machine, path: str) -> Value:
    """What a canonical dotted name stands for."""
    head, _, rest = path.partition(".")
    if head == "nl" and rest:
        if rest in LANGUAGE_CONSTANTS:
            return LANGUAGE_CONSTANTS[rest]
        if rest.startswith("tile_size."):
            special = sized_constant(rest.partition(".")[2], m.target)
            if special is not None:
                return special
    if path in _NUMBERS:
        return _NUMBERS[path]
    if path == "typing.TYPE_CHECKING":
        return False
    if path.startswith("nisa.nc_version.gen") and path[-1].isdigit():
        return int(path[-1])
    return Ref(path)


def _tensor_attribute(value: View | Blocks, name: str) -> Value:
    if name == "shape":
        return value.shape
    if name == "ndim":
        return len(value.shape)
    if name == "dtype":
        return value.dtype if isinstance(value, View) else value.storage.dtype
    if name == "itemsize":
        return value.storage.dtype.nbytes
    if name == "size":
        return math.prod(value.shape)
    if name == "buffer":
        return value.storage.buffer
    if name == "name":
        return value.storage.name
    return Method(value, name)


def _dtype_attribute(value: DType, name: str) -> Value:
    if name == "itemsize":
        return value.nbytes
    if name == "name":
        return value.name
    if name == "type":
        return value
    return Unknown(f"dtype.{name} is not analyzed")


def _host_attribute(value: HostArray, name: str) -> Value:
    if name == "shape":
        return value.shape
    if name == "dtype":
        return value.dtype if value.dtype is not None else Unknown("its data type is not known")
    if name == "ndim":
        return len(value.shape)
    if name == "size":
        return math.prod(value.shape)
    if name == "T":
        return HostArray(value.shape[::-1], value.dtype)
    return Method(value, name)


def as_dtype(value: Value) -> DType | None:
    """The data type that a value names, or None."""
    if isinstance(value, DType):
        return value
    if isinstance(value, Ref):
        last = value.last
        return find_dtype(_WIDE.get(last, last))
    if isinstance(value, str):
        return find_dtype(_WIDE.get(value, value))
    return None


def as_buffer(value: Value) -> Buffer | None:
    """The memory that ``nl.sbuf`` and its siblings (or a string) name, or None."""
    if isinstance(value, Buffer):
        return value
    if isinstance(value, Placement):
        return value.buffer
    name = value.last if isinstance(value, Ref) else value
    if isinstance(value, Ref) and value.path.startswith("ncc."):
        name = value.path.split(".")[1]
    if isinstance(name, str) and name in MEMORIES:
        return Buffer(MEMORIES[name])
    return None


def operator_name(value: Ref) -> str:
    """Name of an operator or function object: ``np.max`` is ``maximum``."""
    last = value.last
    return OPERATOR_NAMES.get(last, last)


def same_kind(left: Value, right: Value) -> bool:
    """Whether two values are equal, data types by any of their names."""
    if isinstance(left, DType) or isinstance(right, DType):
        a, b = as_dtype(left), as_dtype(right)
        return a is not None and a == b
    if isinstance(left, Buffer) or isinstance(right, Buffer):
        memory = as_buffer(left)
        return memory is not None and memory is as_buffer(right)
    if isinstance(left, Ref) and isinstance(right, Ref):
        if left == right:
            return True
        a, b = as_dtype(left), as_dtype(right)
        return a is not None and a == b
    if isinstance(left, bool | int | float | str | bytes | None):
        constant = isinstance(right, bool | int | float | str | bytes | None)
        return constant and bool(left == right)
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(
            same_kind(a, b) for a, b in zip(left, right, strict=True)
        )
    if isinstance(left, Affine):
        return bool(left == right)
    if isinstance(left, ListValue | dict):
        return left is right
    return left is right
