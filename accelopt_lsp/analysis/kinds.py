"""What a value is an instance of, and what it has: ``isinstance``, ``type``, ``hasattr``."""

from __future__ import annotations

from accelopt_lsp.analysis.affine import Affine
from accelopt_lsp.analysis.machine import Machine
from accelopt_lsp.analysis.references import attribute_of
from accelopt_lsp.analysis.values import (
    Blocks,
    Bound,
    ClassValue,
    EnumInt,
    EnumStr,
    Function,
    HostArray,
    Instance,
    ListValue,
    Method,
    NamedTuple,
    Range,
    Ref,
    Unknown,
    Value,
    View,
)
from accelopt_lsp.nki.dtypes import DType

_TENSORS = frozenset({"nl.ndarray", "nl.tile", "nl.tensor", "nt.tensor", "nt.mutable_tensor"})
_TENSOR_MEMBERS = frozenset(
    "shape dtype buffer ndim size itemsize name reshape broadcast_to astype expand_dims expand_dim "
    "is_contiguous permute broadcast squeeze_dim reshape_dim flatten_dims slice select "
    "assert_shape ap view reinterpret_cast vector_select indirect rearrange get_pattern "
    "is_indirect".split()
)
_OTHER_KINDS = frozenset(
    "int float str bool tuple list dict set bytes complex range type object function".split()
)


def kind_of(value: Value) -> str | None:
    """Name of the builtin type of a value; None where it has none."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | Affine):
        return "int"
    if isinstance(value, float):
        return "float"
    if isinstance(value, str):
        return "str"
    if value is None:
        return "NoneType"
    if isinstance(value, tuple) or (isinstance(value, ListValue) and value.fixed):
        return "tuple"
    if isinstance(value, ListValue):
        return "set" if value.unordered else "list"
    if isinstance(value, dict):
        return "dict"
    if isinstance(value, Range):
        return "range"
    if isinstance(value, ClassValue):
        return "type"
    if isinstance(value, Function | Bound):
        return "function"
    return None


def class_of(value: Value) -> ClassValue | None:
    """The class of the checkout that a value is an object of."""
    if isinstance(value, Instance | NamedTuple | EnumInt | EnumStr):
        return value.cls
    return None


def type_of(value: Value) -> Value:
    """``type(value)``."""
    if isinstance(value, Unknown):
        return value
    cls = class_of(value)
    if cls is not None:
        return cls
    kind = kind_of(value)
    if kind is not None:
        return Ref(f"builtins.{kind}")
    if isinstance(value, View | Blocks):
        return Ref("nl.ndarray")
    return Unknown("the type of this value")


def is_instance(value: Value, given: Value) -> Value:
    """``isinstance(value, given)``."""
    if isinstance(value, Unknown):
        return Unknown(value.reason)
    kinds = given if isinstance(given, tuple) else (given,)
    unknown: Unknown | None = None
    for kind in kinds:
        if isinstance(kind, tuple):
            found = is_instance(value, kind)
        else:
            found = _is_one(value, kind)
        if isinstance(found, Unknown):
            unknown = unknown or found
        elif found:
            return True
    return False if unknown is None else unknown


def _is_one(value: Value, kind: Value) -> Value:
    if kind is None:
        return value is None
    if isinstance(kind, ClassValue):
        cls = class_of(value)
        return cls is not None and any(c is kind for c in cls.lineage())
    if not isinstance(kind, Ref):
        return Unknown("isinstance() with a class that is not known")
    if kind.path in _TENSORS:
        return isinstance(value, View | Blocks)
    head, _, name = kind.path.partition(".")
    if head == "builtins" and name in (*_OTHER_KINDS, "NoneType"):
        own = kind_of(value)
        return own == name or (own == "bool" and name == "int") or name == "object"
    if kind.path in ("enum.Enum", "enum.IntEnum", "enum.StrEnum"):
        cls = class_of(value)
        if cls is None or cls.kind != "enum":
            return False
        return kind.path == "enum.Enum" or cls.mixin == ("int" if "Int" in name else "str")
    if kind.path in ("nl.NKIObject", "nki.NKIObject") and isinstance(value, Instance):
        return Unknown(f"isinstance() with {kind.path}")
    if head == "np":
        if isinstance(value, HostArray):
            return name == "ndarray"
        if isinstance(value, View | bool | int | float | str | None | Instance | tuple | ListValue):
            return False
    if kind.path in ("collections.abc.Sequence", "typing.Sequence"):
        return kind_of(value) in ("list", "tuple", "str", "range")
    if kind.path in ("collections.abc.Callable", "typing.Callable"):
        if isinstance(value, Ref | Method) or class_of(value) is not None:
            return Unknown("whether this value can be called")
        return isinstance(value, Function | Bound | ClassValue)
    if head in ("torch", "jax") and class_of(value) is None and not isinstance(value, HostArray):
        return False
    return Unknown(f"isinstance() with {kind.path} is not analyzed")


def has_attribute(m: Machine, value: Value, name: Value) -> Value:
    """``hasattr(value, name)``."""
    if not isinstance(name, str):
        return Unknown("hasattr() with a name that is not known")
    if isinstance(value, Unknown):
        return Unknown(value.reason)
    if isinstance(value, View | Blocks):
        return name in _TENSOR_MEMBERS
    cls = value if isinstance(value, ClassValue) else class_of(value)
    if cls is not None:
        return _attribute(m, value, name) is not None
    if isinstance(value, DType):
        return name in ("itemsize", "name", "type")
    if isinstance(value, bool | int | float | str | tuple | None):
        return hasattr(value, name)
    if isinstance(value, ListValue | dict):
        return hasattr(list if isinstance(value, ListValue) else dict, name)
    return Unknown("hasattr() of this value is not analyzed")


def _attribute(m: Machine, value: Value, name: str) -> Value:
    """An attribute of an object, or None if it has none."""
    found = attribute_of(m, value, name)
    if isinstance(found, Unknown) and "has no attribute" in found.reason:
        return None
    return found if not isinstance(found, Method) or name in dir(tuple) else None


def get_attribute(m: Machine, args: list[Value]) -> Value:
    """``getattr(value, name[, default])``."""
    if len(args) < 2 or not isinstance(args[1], str):
        return Unknown("getattr() with a name that is not known")
    value, name = args[0], args[1]
    if len(args) < 3:
        return attribute_of(m, value, name)
    has = has_attribute(m, value, name)
    if isinstance(has, Unknown):
        found = attribute_of(m, value, name)
        return has if isinstance(found, Method | Unknown) else found
    return attribute_of(m, value, name) if has else args[2]
