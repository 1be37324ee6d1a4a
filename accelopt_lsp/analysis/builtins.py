"""Python's builtins and ``math`` on abstract values."""

from __future__ import annotations

import ast
import math
from typing import Any

from accelopt_lsp.analysis import affine
from accelopt_lsp.analysis.affine import Affine, Undecided
from accelopt_lsp.analysis.machine import Machine
from accelopt_lsp.analysis.methods import make_range
from accelopt_lsp.analysis.references import attribute_of
from accelopt_lsp.analysis.sequences import enumerated, items_of, reversed_items, zipped
from accelopt_lsp.analysis.values import (
    Blocks,
    Grid,
    HostArray,
    Iteration,
    ListValue,
    Method,
    ParDim,
    Range,
    Unknown,
    Value,
    View,
    flat_length,
)

_MATH = frozenset(
    "sqrt ceil floor log log2 log10 exp pow sin cos tanh prod gcd lcm isqrt fabs isinf".split()
)


def call_math(name: str, args: list[Value]) -> Value:
    """``math.NAME(...)``."""
    if name not in _MATH or not hasattr(math, name):
        return Unknown(f"math.{name} is not analyzed")
    if name in ("ceil", "floor") and args and isinstance(args[0], Affine):
        return args[0]
    values: list[Any] = []
    for value in args:
        if isinstance(value, Unknown):
            return Unknown(value.reason, number=True)
        if isinstance(value, Affine):
            return Unknown("a number that depends on the iteration", number=True)
        values.append(tuple(value.items) if isinstance(value, ListValue) else value)
    if name == "pow" and any(isinstance(v, int | float) and abs(v) > 1e6 for v in values):
        return Unknown("a large power", number=True)
    return getattr(math, name)(*values)


def call_builtin(m: Machine, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A builtin function on abstract values."""
    handler = _HANDLERS.get(name)
    if handler is not None:
        return handler(m, args, kwargs)
    if name in ("min", "max"):
        return _extreme(name, args)
    if name in ("int", "float", "abs", "round", "bool", "divmod", "pow", "str"):
        return _numeric(m, name, args)
    return Unknown(f"{name}() is not analyzed")


def _first_unknown(args: list[Value]) -> Unknown | None:
    return next((a for a in args if isinstance(a, Unknown)), None)


def _extreme(name: str, args: list[Value]) -> Value:
    values: Any = args
    if len(args) == 1 and isinstance(args[0], tuple | ListValue):
        values = args[0] if isinstance(args[0], tuple) else args[0].items
    unknown = _first_unknown(list(values))
    if unknown is not None:
        return unknown
    if not values:
        raise Undecided(f"{name}() of nothing")
    best = values[0]
    for value in values[1:]:
        if isinstance(best, Affine) or isinstance(value, Affine):
            if not isinstance(best, int | Affine) or not isinstance(value, int | Affine):
                raise Undecided(f"{name}() of mixed values")
            best = (affine.smaller if name == "min" else affine.larger)(best, value)
        else:
            best = min(best, value) if name == "min" else max(best, value)
    return best


def _numeric(m: Machine, name: str, args: list[Value]) -> Value:
    from accelopt_lsp.analysis.expressions import binary

    if not args:
        return {"int": 0, "float": 0.0, "bool": False, "str": ""}.get(name)
    unknown = _first_unknown(args)
    if unknown is not None:
        return Unknown(unknown.reason, number=name != "str")
    value = args[0]
    if isinstance(value, Affine):
        if name == "int":
            return value
        if name == "str":
            return str(value)
        if name == "divmod" and len(args) == 2 and isinstance(args[1], int):
            return (affine.floordiv(value, args[1]), affine.modulo(value, args[1]))
        if name == "abs":
            positive = affine.compare(">=", value, 0)
            return value if positive else affine.scale(value, -1)
        if name == "bool":
            return not affine.compare("==", value, 0)
        return Unknown("a number that depends on the iteration", number=True)
    if isinstance(value, ParDim):
        value = value.size
    if isinstance(value, View):
        if name == "abs":
            from accelopt_lsp.analysis.issue import call_api

            return call_api(m, ast.Pass(lineno=m.line, col_offset=0), "nl.abs", [value], {})
        return Unknown("a value that only the device knows")
    if not isinstance(value, int | float | str):
        return Unknown(f"{name}() of this value is not analyzed") if name != "str" else "?"
    functions = {
        "int": int,
        "float": float,
        "abs": abs,
        "round": round,
        "bool": bool,
        "divmod": divmod,
        "str": str,
    }
    if name == "pow":
        return (
            binary(m, ast.Pass(), ast.Pow(), value, args[1]) if len(args) == 2 else Unknown("pow")
        )
    return functions[name](value, *args[1:])  # type: ignore[operator]


def _len(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    value = args[0]
    if isinstance(value, ListValue):
        return flat_length(value.items)
    if isinstance(value, tuple | str | dict):
        return len(value)
    if isinstance(value, View | Blocks | HostArray):
        return value.shape[0] if value.shape else Unknown("length of a scalar")
    if isinstance(value, Grid):
        return len(value.axes)
    if isinstance(value, Range):
        return value.length()
    if isinstance(value, Iteration):
        return value.length
    return value if isinstance(value, Unknown) else Unknown("len() of this value")


def _range(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    given: list[Value] = [None, None, None]
    given[: len(args[:3])] = args[:3]
    return make_range(given, "range")


def _sequence(m: Machine, value: Value) -> list[Value]:
    items = items_of(value)
    if items is None:
        raise Undecided("a sequence that is not known")
    return items


def _to_list(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if args and isinstance(args[0], ListValue):
        return ListValue(list(args[0].items), tuple(m.loops))
    return ListValue(_sequence(m, args[0]) if args else [], tuple(m.loops))


def _to_tuple(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return tuple(_sequence(m, args[0])) if args else ()


def _dict(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    base = dict(args[0]) if args and isinstance(args[0], dict) else {}
    return m.new_dict({**base, **kwargs})


def _sum(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    total: affine.Linear = 0
    for item in _sequence(m, args[0]):
        if isinstance(item, float):
            return Unknown("a sum", number=True)
        if not isinstance(item, int | Affine):
            raise Undecided("a sum of unknown values")
        total = affine.add(total, item)
    return total


def _isinstance(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    from accelopt_lsp.analysis.values import Ref

    kinds = args[1] if isinstance(args[1], tuple) else (args[1],)
    names = [k.last if isinstance(k, Ref) else "" for k in kinds]
    types = {"int": int, "float": float, "str": str, "tuple": tuple, "bool": bool, "dict": dict}
    value = args[0]
    if isinstance(value, Unknown):
        return value
    for name in names:
        if name == "list" and isinstance(value, ListValue):
            return True
        if name == "int" and isinstance(value, Affine):
            return True
        if name in types and isinstance(value, types[name]):
            return True
    if all(n in types or n == "list" for n in names):
        return False
    return Unknown("isinstance() with this class is not analyzed")


def _any_all(wanted: bool, m: Machine, args: list[Value]) -> Value:
    from accelopt_lsp.analysis.expressions import truth

    for item in _sequence(m, args[0]):
        known = truth(m, item)
        if known is None:
            return Unknown("a condition that is not known")
        if known == wanted:
            return wanted
    return not wanted


def _getattr(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) >= 2 and isinstance(args[1], str):
        return attribute_of(m, args[0], args[1])
    return Unknown("getattr() with a computed name")


def _print(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return None


def _zip(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return zipped(args)


def _enumerate(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    start = kwargs.get("start", args[1] if len(args) > 1 else 0)
    if not isinstance(start, int):
        raise Undecided("enumerate() from an unknown start")
    return enumerated(args[0], start)


def _reversed(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return reversed_items(args[0])


def _sorted(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    items = _sequence(m, args[0])
    if kwargs or not all(isinstance(i, int | float | str) for i in items):
        return Unknown("sorted() of these values is not analyzed")
    return ListValue(sorted(items), tuple(m.loops))


def _slice(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return slice(*args)


def _type(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return Method(args[0], "__class__") if args else Unknown("type()")


_HANDLERS = {
    "len": _len,
    "range": _range,
    "list": _to_list,
    "tuple": _to_tuple,
    "dict": _dict,
    "sum": _sum,
    "isinstance": _isinstance,
    "any": lambda m, args, kwargs: _any_all(True, m, args),
    "all": lambda m, args, kwargs: _any_all(False, m, args),
    "getattr": _getattr,
    "hasattr": lambda m, args, kwargs: Unknown("hasattr() is not analyzed"),
    "print": _print,
    "zip": _zip,
    "enumerate": _enumerate,
    "reversed": _reversed,
    "sorted": _sorted,
    "slice": _slice,
    "type": _type,
}
