"""Functions of Python's standard library that kernels use, on abstract values."""

from __future__ import annotations

import ast
from collections.abc import Callable
from itertools import accumulate, combinations, permutations, product
from typing import Any

from accelopt_lsp.analysis.affine import Affine, Undecided
from accelopt_lsp.analysis.classes import field_values, initialize
from accelopt_lsp.analysis.enums import AUTO
from accelopt_lsp.analysis.machine import MAX_LENGTH, Machine
from accelopt_lsp.analysis.scope import UNBOUND
from accelopt_lsp.analysis.sequences import items_of
from accelopt_lsp.analysis.values import (
    MISSING,
    Bound,
    ClassValue,
    DictValue,
    Field,
    FieldSpec,
    Instance,
    ListValue,
    NamedTuple,
    Ref,
    Unknown,
    Value,
)

LIBRARIES = frozenset(
    "functools itertools typing typing_extensions dataclasses enum collections copy operator os "
    "logging warnings sys contextlib abc time inspect".split()
)
Handler = Callable[[Machine, list[Value], dict[str, Value]], Value]
_SILENT = frozenset({"logging", "warnings", "time"})
"""Modules whose calls change nothing that a kernel issues."""


def call_library(m: Machine, path: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``functools.partial(...)`` and its kin."""
    handler = _HANDLERS.get(path)
    if handler is not None:
        return handler(m, args, kwargs)
    head, _, name = path.partition(".")
    if head == "operator":
        return _operator(m, name, args)
    if head in _SILENT:
        return Unknown(f"the result of {path}")
    return Unknown(f"{path} is not analyzed")


def _call(m: Machine, function: Value, args: list[Value]) -> Value:
    from accelopt_lsp.analysis.calls import call_value

    return call_value(m, ast.Pass(lineno=m.line, col_offset=0), function, args, {}, {})


def _known(value: Value) -> list[Value]:
    items = items_of(value)
    if items is None:
        raise Undecided("a sequence that is not known")
    return items


def _partial(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return Bound(args[0], tuple(args[1:]), dict(kwargs))


def _first(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Decorators that take the function, or options first: ``lru_cache``, ``wraps``."""
    return args[0] if args and not isinstance(args[0], int) else Ref("builtins.same")


def _reduce(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    items = _known(args[1])
    total = args[2] if len(args) > 2 else items.pop(0)
    for item in items:
        total = _call(m, args[0], [total, item])
    return total


def _listed(make: Callable[..., Any]) -> Handler:
    """A function of ``itertools`` over written out sequences."""

    def handler(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
        plain = [a if isinstance(a, int) else _known(a) for a in args]
        found: list[Value] = []
        for item in make(*plain, **kwargs):
            found.append(item)
            if len(found) > MAX_LENGTH:
                raise Undecided("a sequence too long to analyze")
        return ListValue(found, tuple(m.loops))

    return handler


def _accumulate(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    from accelopt_lsp.analysis.expressions import binary

    function = args[1] if len(args) > 1 else None

    def add(left: Value, right: Value) -> Value:
        if function is not None:
            return _call(m, function, [left, right])
        return binary(m, ast.Pass(), ast.Add(), left, right)

    return ListValue(list(accumulate(_known(args[0]), add, **kwargs)), tuple(m.loops))


def _chain(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return ListValue([item for part in args for item in _known(part)], tuple(m.loops))


def _field(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return FieldSpec(
        kwargs.get("default", MISSING),
        kwargs.get("default_factory", MISSING),
        kwargs.get("init") is not False,
        kwargs.get("kw_only") is True,
        kwargs.get("compare") is not False,
    )


def _replace(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    owner = args[0]
    if not isinstance(owner, Instance):
        return owner if isinstance(owner, Unknown) else Unknown("replace() of no dataclass")
    fields = next((c.fields for c in owner.cls.lineage() if c.fields), [])
    given = {f.name: owner.fields[f.name] for f in fields if f.init and f.name in owner.fields}
    copy = Instance(owner.cls, loops=tuple(m.loops))
    problem = initialize(m, owner.cls, copy, [], {**given, **kwargs})
    return copy if problem is None else problem


def _fields(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    cls = args[0].cls if isinstance(args[0], Instance) else args[0]
    if not isinstance(cls, ClassValue):
        return Unknown("fields() of no dataclass")
    kind = ClassValue("Field", None, cls.scope, members={})
    return tuple(Instance(kind, {"name": f.name}) for f in cls.fields)


def _as_dict(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    owner = args[0]
    if not isinstance(owner, Instance):
        return Unknown("asdict() of no dataclass")
    return m.new_dict({f.name: _plain(m, owner.fields.get(f.name)) for f in owner.cls.fields})


def _plain(m: Machine, value: Value) -> Value:
    is_dataclass = isinstance(value, Instance) and value.cls.kind == "dataclass"
    return _as_dict(m, [value], {}) if is_dataclass else value


def _named_tuple(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    names = args[1] if len(args) > 1 else kwargs.get("field_names")
    if isinstance(names, str):
        listed: list[Value] = list(names.replace(",", " ").split())
    else:
        listed = _known(names)
    if not args or not isinstance(args[0], str) or not all(isinstance(n, str) for n in listed):
        return Unknown("a named tuple whose fields are not known")
    defaults = _known(kwargs["defaults"]) if kwargs.get("defaults") is not None else []
    padded = [MISSING] * (len(listed) - len(defaults)) + defaults
    fields = [Field(n, d, MISSING) for n, d in zip(listed, padded, strict=True)]
    return ClassValue(args[0], None, m.scope, "namedtuple", fields=fields, members={})


def named_tuple_method(
    m: Machine, owner: NamedTuple, name: str, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    """``_replace``, ``_asdict`` and what tuples do."""
    fields = [f.name for f in owner.cls.fields]
    if name == "_asdict":
        return m.new_dict(dict(zip(fields, owner, strict=True)))
    if name == "_replace":
        values = field_values(m, owner.cls, [], {**dict(zip(fields, owner, strict=True)), **kwargs})
        return NamedTuple.of(owner.cls, list(values.values()))
    return Unknown(f"{owner.cls.name}.{name} is not analyzed")


def copied(m: Machine, value: Value, deep: bool, done: dict[int, Value] | None = None) -> Value:
    """``copy.copy`` and ``copy.deepcopy``."""
    done = {} if done is None else done
    if id(value) in done:
        return done[id(value)]
    loops = tuple(m.loops)

    def inner(item: Value) -> Value:
        return copied(m, item, True, done) if deep else item

    if isinstance(value, Instance) and value.cls.kind != "enum":
        twin = done[id(value)] = Instance(value.cls, loops=loops)
        for key, item in value.fields.items():
            m.reads(value.fields, key)
            twin.fields[key] = inner(item)
        return twin
    if isinstance(value, ListValue):
        twins = done[id(value)] = ListValue([], loops, None, value.fixed)
        twins.items.extend(inner(item) for item in value.items)
        return twins
    if isinstance(value, DictValue):
        return m.new_dict({key: inner(item) for key, item in value.items()})
    return value


def _environment(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``os.environ.get``: kernels run with an environment that holds nothing of the user's."""
    return args[1] if len(args) > 1 else kwargs.get("default")


_OPERATORS = {
    "add": ast.Add,
    "sub": ast.Sub,
    "mul": ast.Mult,
    "truediv": ast.Div,
    "floordiv": ast.FloorDiv,
    "mod": ast.Mod,
    "and_": ast.BitAnd,
    "or_": ast.BitOr,
}


def _operator(m: Machine, name: str, args: list[Value]) -> Value:
    from accelopt_lsp.analysis.expressions import binary

    if name in _OPERATORS and len(args) == 2:
        return binary(m, ast.Pass(), _OPERATORS[name](), args[0], args[1])
    if name == "itemgetter" and len(args) == 1:
        return Bound(Ref("builtins.item"), (args[0],))
    return Unknown(f"operator.{name} is not analyzed")


def _cast(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return args[1] if len(args) > 1 else UNBOUND


def _count(m: Machine, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) > 1 and isinstance(args[1], int | Affine):
        return (
            ListValue([args[0]] * int(args[1]), tuple(m.loops))
            if isinstance(args[1], int)
            else Unknown("itertools.repeat with a number that depends on the iteration")
        )
    return Unknown("an endless iterator")


_HANDLERS: dict[str, Handler] = {
    "functools.partial": _partial,
    "functools.reduce": _reduce,
    "functools.wraps": lambda m, args, kwargs: Ref("builtins.same"),
    "functools.lru_cache": _first,
    "functools.cache": _first,
    "itertools.product": _listed(product),
    "itertools.combinations": _listed(combinations),
    "itertools.permutations": _listed(permutations),
    "itertools.accumulate": _accumulate,
    "itertools.chain": _chain,
    "itertools.repeat": _count,
    "dataclasses.field": _field,
    "dataclasses.replace": _replace,
    "dataclasses.fields": _fields,
    "dataclasses.asdict": _as_dict,
    "collections.namedtuple": _named_tuple,
    "collections.OrderedDict": lambda m, args, kwargs: m.new_dict(
        {**(args[0] if args and isinstance(args[0], dict) else {}), **kwargs}
    ),
    "copy.copy": lambda m, args, kwargs: copied(m, args[0], False),
    "copy.deepcopy": lambda m, args, kwargs: copied(m, args[0], True),
    "copy.replace": _replace,
    "enum.auto": lambda m, args, kwargs: AUTO,
    "os.environ.get": _environment,
    "os.getenv": _environment,
    "os.environ.items": lambda m, args, kwargs: (),
    "os.environ.keys": lambda m, args, kwargs: (),
    "os.environ.values": lambda m, args, kwargs: (),
    "typing.cast": _cast,
}
