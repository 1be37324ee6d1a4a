"""Attributes of values, and what dotted NKI and NumPy names stand for."""

from __future__ import annotations

import math
from collections.abc import Mapping

from accelopt_lsp.analysis.affine import Affine
from accelopt_lsp.analysis.machine import Machine
from accelopt_lsp.analysis.names import canonical_path
from accelopt_lsp.analysis.scope import UNBOUND
from accelopt_lsp.analysis.values import (
    Blocks,
    ClassValue,
    EnumInt,
    EnumStr,
    Grid,
    HostArray,
    IndexArray,
    Instance,
    ListValue,
    Method,
    ModuleValue,
    NamedTuple,
    Placement,
    Ref,
    Super,
    Unknown,
    Value,
    View,
)
from accelopt_lsp.nki.dialects import LANGUAGE_CONSTANTS, MEMORIES
from accelopt_lsp.nki.dtypes import DType, find_dtype
from accelopt_lsp.nki.operands import Buffer

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
_GRID_AXES = ("p", "x", "y", "z", "w")


def attribute_of(m: Machine, value: Value, name: str) -> Value:
    """``value.name``."""
    if isinstance(value, Ref):
        return resolve(m, canonical_path(f"{value.path}.{name}"))
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
    if isinstance(value, Instance | ClassValue | Super | NamedTuple | EnumInt | EnumStr):
        return object_attribute(m, value, name)
    if isinstance(value, IndexArray) and name == "shape":
        return value.shape
    if isinstance(value, ModuleValue):
        found = value.home.attribute(m, name)
        return Unknown(f"{value.home.name} has no {name!r}") if found is UNBOUND else found
    return Method(value, name)


def object_attribute(m: Machine, value: Value, name: str) -> Value:
    """``value.name`` of an object, a class or ``super()``."""
    from accelopt_lsp.analysis import classes

    if isinstance(value, Instance):
        found = classes.instance_attribute(m, value, name)
        kind = value.cls.name
    elif isinstance(value, ClassValue):
        found = classes.class_attribute(m, value, name)
        kind = value.name
    elif isinstance(value, Super):
        found = classes.super_attribute(m, value, name)
        kind = "super()"
    else:
        found = _member_attribute(m, value, name)
        kind = value.cls.name
    if found is not UNBOUND:
        return found
    cls = value if isinstance(value, ClassValue) else getattr(value, "cls", None)
    if isinstance(cls, ClassValue) and cls.problem:
        return Unknown(f"{kind}.{name} is not known: {cls.problem}")
    if isinstance(value, NamedTuple | EnumStr):
        return Method(value, name)
    return Unknown(f"{kind} has no attribute {name!r} that analysis knows")


def _member_attribute(m: Machine, value: NamedTuple | EnumInt | EnumStr, name: str) -> Value:
    """An attribute of a named tuple, or of a member of an enumeration that is a number or text."""
    from accelopt_lsp.analysis.classes import bound_member

    if isinstance(value, NamedTuple):
        for position, field in enumerate(value.cls.fields):
            if field.name == name:
                return value[position]
        if name == "_fields":
            return tuple(f.name for f in value.cls.fields)
    elif name in ("value", "_value_"):
        return int(value) if isinstance(value, EnumInt) else str.__str__(value)
    elif name in ("name", "_name_"):
        return value.label
    return bound_member(m, value.cls, value, name)


def resolve(m: Machine, path: str) -> Value:
    """What a canonical dotted name stands for."""
    head, _, rest = path.partition(".")
    if head == "nl" and rest:
        if rest in LANGUAGE_CONSTANTS:
            return LANGUAGE_CONSTANTS[rest]
        if rest.startswith("tile_size."):
            special = _sized_constant(m, rest)
            if special is not None:
                return special
    if path in _NUMBERS:
        return _NUMBERS[path]
    if path == "typing.TYPE_CHECKING":
        return False
    if path.startswith("nisa.nc_version.gen") and path[-1].isdigit():
        return int(path[-1])
    return Ref(path)


def _sized_constant(m: Machine, name: str) -> int | None:
    usable = m.target.integer("sbuf_partition_bytes") - m.target.integer("sbuf_reserved_bytes")
    sizes = {
        "tile_size.sbuf_fmax_bytes": usable,
        "tile_size.total_available_sbuf_size": usable,
        "tile_size.sbuf_fmax": usable // 4,
        "tile_size.sbuf_size_bytes": usable * m.target.integer("partitions"),
    }
    return sizes.get(name)


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
    if isinstance(left, bool | int | float | str | None):
        return isinstance(right, bool | int | float | str | None) and bool(left == right)
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(
            same_kind(a, b) for a, b in zip(left, right, strict=True)
        )
    if isinstance(left, Affine):
        return bool(left == right)
    if isinstance(left, ListValue | dict):
        return left is right
    return left is right
