"""What decorators make of functions."""

from __future__ import annotations

import ast

from accelopt_lsp.analysis.kernels import ENTRY_POINTS
from accelopt_lsp.analysis.machine import Machine
from accelopt_lsp.analysis.values import (
    Bound,
    ClassValue,
    Descriptor,
    Function,
    Ref,
    Unknown,
    Value,
)

_KEEPING = frozenset(
    "functools.wraps abc.abstractmethod typing.override "
    "typing.final typing.no_type_check typing.overload typing_extensions.override "
    "contextlib.wraps".split()
)
"""Decorators whose result does what the function does."""
_KINDS = {
    "builtins.staticmethod": "static",
    "builtins.classmethod": "class",
    "builtins.property": "property",
    "functools.cached_property": "cached",
    "abc.abstractproperty": "property",
}


def decorated(
    m: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef, function: Function
) -> Value:
    """A function after its decorators."""
    value: Value = function
    for decorator in reversed(node.decorator_list):
        value = _apply(m, decorator, value, node.name)
    return value


def _apply(m: Machine, decorator: ast.expr, value: Value, name: str) -> Value:
    if isinstance(decorator, ast.Attribute) and decorator.attr in ("setter", "getter", "deleter"):
        owner = m.eval(decorator.value)
        if isinstance(owner, Descriptor):
            if decorator.attr == "setter":
                return Descriptor("property", owner.function, value)
            return owner
    found = m.eval(decorator.func if isinstance(decorator, ast.Call) else decorator)
    if isinstance(found, Ref):
        if found.path in _KINDS:
            return Descriptor(_KINDS[found.path], value)
        if found.path in ("functools.cache", "functools.lru_cache"):
            if isinstance(value, Function):
                value.cached = True
                return value
            return Unknown(f"{name} is cached, and no plain function")
        if found.path in _KEEPING or _is_entry_point(found.path):
            return value
        if found.path == "functools.partial" and isinstance(decorator, ast.Call):
            return _apply(m, decorator.args[0], value, name) if decorator.args else value
    if isinstance(decorator, ast.Call):
        found = m.eval(decorator)
    if isinstance(found, Function | Bound | ClassValue):
        from accelopt_lsp.analysis.calls import call_value

        return call_value(m, decorator, found, [value], {}, {})
    return Unknown(f"{name} has the decorator {ast.unparse(decorator)}, which is not analyzed")


def _is_entry_point(path: str) -> bool:
    head = path.partition(".")[0]
    return path in ENTRY_POINTS or head in ("nki", "ncc", "nl", "torch_neuronx", "neuronxcc")
