"""Enumerations: their members, and looking one up by its value or name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accelopt_lsp.analysis.affine import Affine, split
from accelopt_lsp.analysis.references import same_kind
from accelopt_lsp.analysis.values import (
    Bound,
    ClassValue,
    Descriptor,
    EnumInt,
    EnumStr,
    Function,
    Instance,
    Ref,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from accelopt_lsp.analysis.machine import Machine

AUTO = Ref("enum.auto()")
"""``auto()``: a value by position."""
_NOT_MEMBERS = Function | Descriptor | Bound | ClassValue


def make_members(m: Machine, cls: ClassValue, names: dict[str, Value]) -> None:
    """Turn what an enumeration's body assigns into members."""
    assert cls.members is not None
    last: Value = 0
    for name, value in names.items():
        if name.startswith("_") or isinstance(value, _NOT_MEMBERS):
            continue
        if value == AUTO:
            value = name.lower() if cls.mixin == "str" else last + 1
        last = value if isinstance(value, int) else last
        same = next((v for v in cls.roster.values() if same_kind(member_value(v), value)), None)
        cls.members[name] = member = same if same is not None else _member(m, cls, name, value)
        if same is None:
            cls.roster[name] = member


def _member(m: Machine, cls: ClassValue, name: str, value: Value) -> Value:
    if isinstance(value, Unknown):
        return value
    if cls.mixin == "int" and isinstance(value, int):
        number = EnumInt(value)
        number.cls, number.label = cls, name
        return number
    if cls.mixin == "str" and isinstance(value, str):
        text = EnumStr(value)
        text.cls, text.label = cls, name
        return text
    fields = {"name": name, "value": value, "_name_": name, "_value_": value}
    member = Instance(cls, fields)
    assert cls.members is not None
    written = cls.members.get("__init__")
    if isinstance(written, Function):
        from accelopt_lsp.analysis.calls import call_function

        call_function(m, written, [member, *(value if isinstance(value, tuple) else [value])], {})
    return member


def member_value(member: Value) -> Value:
    """``member.value``."""
    if isinstance(member, EnumInt):
        return int(member)
    if isinstance(member, EnumStr):
        return str.__str__(member)
    return member.fields["value"] if isinstance(member, Instance) else member


def find_member(cls: ClassValue, value: Value) -> Value:
    """``Class(value)``.

    Raises:
        NeedSplit, Undecided: the value depends on the iteration.
    """
    if isinstance(value, Unknown):
        return value
    if isinstance(value, Affine):
        raise split(value.terms, f"a member of {cls.name} by its value")
    for member in cls.roster.values():
        if member is value or same_kind(member_value(member), value):
            return member
    return Unknown(f"{cls.name} has no member with the value {value!r}")


def named_member(cls: ClassValue, name: Value) -> Value:
    """``Class["NAME"]``."""
    assert cls.members is not None
    found = cls.members.get(name) if isinstance(name, str) else None
    return Unknown(f"{cls.name} has no member {name!r}") if found is None else found
