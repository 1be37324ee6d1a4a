"""Python's builtins and ``math`` on abstract values."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

from attrs import evolve

from accelopt_lsp.analysis import affine
from accelopt_lsp.analysis.affine import Affine, Undecided
from accelopt_lsp.analysis.kinds import (
    get_attribute,
    has_attribute,
    is_instance,
    type_of,
)
from accelopt_lsp.analysis.machine import Machine
from accelopt_lsp.analysis.methods import make_range, sorted_items
from accelopt_lsp.analysis.sequences import (
    enumerated,
    items_of,
    reversed_items,
    shared_items,
    use_up,
    zipped,
)
from accelopt_lsp.analysis.sets import make_set
from accelopt_lsp.analysis.texts import SomeText, text_of
from accelopt_lsp.analysis.values import (
    SOME_KEY,
    Blocks,
    ClassValue,
    Descriptor,
    Grid,
    HostArray,
    Instance,
    Iteration,
    ListValue,
    ParDim,
    Range,
    Ref,
    Repeat,
    Super,
    Unknown,
    Value,
    View,
    flat_length,
)

_MATH = frozenset(
    "sqrt ceil floor log log2 log10 exp pow sin cos tanh prod gcd lcm isqrt fabs isinf".split()
)


Handler = Callable[[Machine, list[Value], dict[str, Value]], Value]


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
        if isinstance(value, ListValue | tuple):
            value = items_of(value)
            if value is None or any(isinstance(v, Unknown | Affine) for v in value):
                return Unknown("numbers that are not known", number=True)
        values.append(value)
    if name == "pow" and any(isinstance(v, int | float) and abs(v) > 1e6 for v in values):
        return Unknown("a large power", number=True)
    return getattr(math, name)(*values)


def size_of(value: Value) -> int:
    """How many items a container has itself."""
    if isinstance(value, ListValue):
        return len(value.items)
    return len(value) if isinstance(value, tuple | dict | str) else 0


def call_builtin(m: Machine, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A builtin function on abstract values."""
    m.charge(sum(size_of(value) for value in args))
    for value in args:
        if isinstance(value, Iteration) and name not in ("len", "isinstance", "print"):
            use_up(m, value)
    handler = _HANDLERS.get(name)
    if handler is not None:
        return handler(m, args, kwargs)
    if name in ("min", "max"):
        return _extreme(m, name, args, kwargs)
    if name in ("int", "float", "abs", "round", "bool", "divmod", "pow", "str"):
        return _numeric(m, name, args)
    return Unknown(f"{name}() is not analyzed")


def call_special(m: Machine, value: Instance, name: str, args: list[Value]) -> Value:
    """Result of a special method of an object."""
    from accelopt_lsp.analysis.calls import call_value
    from accelopt_lsp.analysis.classes import method_of

    method = method_of(m, value, name)
    if method is None:
        return Unknown(f"{value.cls.name} has no {name}")
    return call_value(m, ast.Pass(lineno=m.line, col_offset=0), method, args, {}, {})


def _first_unknown(args: list[Value]) -> Unknown | None:
    return next((a for a in args if isinstance(a, Unknown)), None)


def _extreme(m: Machine, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    values = list(args)
    if len(args) == 1:
        if isinstance(args[0], Unknown):
            return args[0]
        values = _sequence(m, args[0])
    if not values:
        if "default" in kwargs:
            return kwargs["default"]
        raise Undecided(f"{name}() of nothing")
    if kwargs.get("key") is not None:
        ordered = sorted_items(m, values, {"key": kwargs["key"], "reverse": name == "max"})
        return ordered[0]
    unknown = _first_unknown(values)
    if unknown is not None:
        return unknown
    best = values[0]
    for value in values[1:]:
        if isinstance(best, Affine) or isinstance(value, Affine):
            if not isinstance(best, int | Affine) or not isinstance(value, int | Affine):
                raise Undecided(f"{name}() of mixed values")
            best = (affine.smaller if name == "min" else affine.larger)(best, value)
        elif not all(isinstance(v, int | float | str | tuple) for v in (best, value)):
            raise Undecided(f"{name}() of values without an order")
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
    if name == "str":
        return text_of(m, value)
    if name == "bool" and not isinstance(value, View):
        from accelopt_lsp.analysis.expressions import truth

        return truth(m, value)
    if isinstance(value, Affine):
        if name == "int":
            return value
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
    if not isinstance(value, int | float | str) or isinstance(value, SomeText):
        return Unknown(f"{name}() of this value is not analyzed")
    functions = {
        "int": int,
        "float": float,
        "abs": abs,
        "round": round,
        "bool": bool,
        "divmod": divmod,
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
    if isinstance(value, SomeText):
        return Unknown("the length of a text that is not known", number=True)
    if isinstance(value, dict) and SOME_KEY in value:
        return Unknown(SOME_KEY.reason, number=True)
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
    if isinstance(value, ClassValue) and value.kind == "enum":
        return len(value.roster)
    if isinstance(value, Instance):
        return call_special(m, value, "__len__", [])
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
        return ListValue(shared_items(m, args[0]), tuple(m.loops))
    return ListValue(_sequence(m, args[0]) if args else [], tuple(m.loops))


def _to_tuple(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if args and isinstance(args[0], ListValue):
        items = shared_items(m, args[0])
        if any(isinstance(i, Repeat) for i in items):
            return ListValue(items, tuple(m.loops), None, fixed=True)
        return tuple(items)
    return tuple(_sequence(m, args[0])) if args else ()


def _dict(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    from accelopt_lsp.analysis.expressions import hashable

    base: dict[Any, Value] = {}
    if args and isinstance(args[0], dict):
        base = dict(args[0])
    elif args:
        for pair in _sequence(m, args[0]):
            key, value = _sequence(m, pair)
            base[hashable(key)] = value
    return m.new_dict({**base, **kwargs})


def _sum(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    from accelopt_lsp.analysis.expressions import binary

    total: Value = args[1] if len(args) > 1 else kwargs.get("start", 0)
    for item in _sequence(m, args[0]):
        total = binary(m, ast.Pass(), ast.Add(), total, item)
    return total


def _any_all(wanted: bool, m: Machine, args: list[Value]) -> Value:
    from accelopt_lsp.analysis.expressions import truth

    for item in _sequence(m, args[0]):
        known = truth(m, item)
        if known is None:
            return Unknown("a condition that is not known")
        if known == wanted:
            return wanted
    return not wanted


def _super(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) >= 2:
        cls, instance = args[0], args[1]
    else:
        cls, instance = m.scope.find("__class__"), m.scope.find("__self__")
    if not isinstance(cls, ClassValue):
        return Unknown("super() outside a class")
    return Super(cls.base, instance)


def _initialize(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    from accelopt_lsp.analysis.classes import initialize

    if len(args) < 2 or not isinstance(args[0], ClassValue):
        return Unknown("__init__() of something unknown")
    return initialize(m, args[0], args[1], args[2:], kwargs)


def _make(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    from accelopt_lsp.analysis.classes import instantiate

    return instantiate(m, args[0], _sequence(m, args[1]), {})


def _property(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return Descriptor("property", args[0], args[1] if len(args) > 1 else None)


def _setattr(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    from accelopt_lsp.analysis.classes import set_attribute

    if len(args) != 3 or not isinstance(args[1], str):
        raise Undecided("setattr() with a name that is not known")
    set_attribute(m, args[0], args[1], args[2])
    return None


def _is_subclass(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    kinds = args[1] if isinstance(args[1], tuple) else (args[1],)
    if isinstance(args[0], ClassValue) and all(isinstance(k, ClassValue) for k in kinds):
        return any(c is k for c in args[0].lineage() for k in kinds)
    return Unknown("issubclass() with a class that is not known")


def _map(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    from accelopt_lsp.analysis.calls import call_value

    place = ast.Pass(lineno=m.line, col_offset=0)
    columns = [_sequence(m, a) for a in args[1:]]
    found = [
        call_value(m, place, args[0], list(row), {}, {}) for row in zip(*columns, strict=False)
    ]
    return ListValue(found, tuple(m.loops))


def _filter(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    from accelopt_lsp.analysis.calls import call_value
    from accelopt_lsp.analysis.expressions import truth

    place = ast.Pass(lineno=m.line, col_offset=0)
    kept: list[Value] = []
    for item in _sequence(m, args[1]):
        result = item if args[0] is None else call_value(m, place, args[0], [item], {}, {})
        known = truth(m, result)
        if known is None:
            raise Undecided("filter() with a condition that is not known")
        if known:
            kept.append(item)
    return ListValue(kept, tuple(m.loops))


def _next(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    items = _sequence(m, args[0])
    if items:
        return items[0]
    return args[1] if len(args) > 1 else Unknown("next() of nothing")


def _print(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return None


def _zip(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return evolve(zipped(args), loops=tuple(m.loops))


def _enumerate(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    start = kwargs.get("start", args[1] if len(args) > 1 else 0)
    if not isinstance(start, int):
        raise Undecided("enumerate() from an unknown start")
    return evolve(enumerated(args[0], start), loops=tuple(m.loops))


def _reversed(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return evolve(reversed_items(args[0]), loops=tuple(m.loops))


def _sorted(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return ListValue(sorted_items(m, _sequence(m, args[0]), kwargs), tuple(m.loops))


def _to_set(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return make_set(m, _sequence(m, args[0]) if args else [])


def _slice(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return slice(*args)


def _item(m: Machine, args: list[Value]) -> Value:
    """What ``operator.itemgetter`` takes: the key, then the sequence."""
    items = _sequence(m, args[1])
    return items[args[0]] if isinstance(args[0], int) else Unknown("itemgetter() with such a key")


_HANDLERS: dict[str, Handler] = {
    "len": _len,
    "range": _range,
    "list": _to_list,
    "tuple": _to_tuple,
    "dict": _dict,
    "sum": _sum,
    "isinstance": lambda m, args, kwargs: is_instance(args[0], args[1]),
    "issubclass": _is_subclass,
    "super": _super,
    "property": _property,
    "staticmethod": lambda m, args, kwargs: Descriptor("static", args[0]),
    "classmethod": lambda m, args, kwargs: Descriptor("class", args[0]),
    "setattr": _setattr,
    "callable": lambda m, args, kwargs: is_instance(args[0], Ref("typing.Callable")),
    "map": _map,
    "filter": _filter,
    "iter": lambda m, args, kwargs: args[0],
    "next": _next,
    "set": _to_set,
    "frozenset": _to_set,
    "repr": lambda m, args, kwargs: text_of(m, args[0]),
    "id": lambda m, args, kwargs: Unknown("where an object is in memory", number=True),
    "object": lambda m, args, kwargs: Unknown("an object"),
    "nothing": lambda m, args, kwargs: None,
    "same": lambda m, args, kwargs: args[0],
    "item": lambda m, args, kwargs: _item(m, args),
    "__init__": _initialize,
    "_make": _make,
    "any": lambda m, args, kwargs: _any_all(True, m, args),
    "all": lambda m, args, kwargs: _any_all(False, m, args),
    "getattr": lambda m, args, kwargs: get_attribute(m, args),
    "hasattr": lambda m, args, kwargs: has_attribute(m, args[0], args[1]),
    "print": _print,
    "zip": _zip,
    "enumerate": _enumerate,
    "reversed": _reversed,
    "sorted": _sorted,
    "slice": _slice,
    "type": lambda m, args, kwargs: type_of(args[0]),
}
