"""Comparisons: of numbers, of linear forms, of index arrays (masks) and of tensors."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable

from accelopt_lsp.analysis import affine
from accelopt_lsp.analysis.affine import Affine, Undecided
from accelopt_lsp.analysis.classes import method_of
from accelopt_lsp.analysis.expressions import hashable, plain, truth
from accelopt_lsp.analysis.grids import combine
from accelopt_lsp.analysis.machine import Machine, evaluates
from accelopt_lsp.analysis.references import same_kind
from accelopt_lsp.analysis.tensors import tensor_binary
from accelopt_lsp.analysis.texts import SomeText
from accelopt_lsp.analysis.values import (
    SOME_KEY,
    ClassValue,
    IndexArray,
    Instance,
    ListValue,
    Mask,
    Range,
    Unknown,
    Value,
    View,
    flat_length,
    written_out,
)

ITEM_COST = 4
"""What it costs to compare an item, in items of :meth:`Machine.charge`."""
_COMPARE = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}


_ORDERS: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


@evaluates(ast.Compare)
def _compare(m: Machine, node: ast.Compare) -> Value:
    left = m.eval(node.left)
    result: Value = True
    for op, comparator in zip(node.ops, node.comparators, strict=True):
        right = m.eval(comparator)
        result = compare_values(m, node, op, left, right)
        if isinstance(result, Unknown | View | Mask):
            return result
        if not result:
            return False
        left = right
    return result


def compare_values(m: Machine, node: ast.AST, op: ast.cmpop, left: Value, right: Value) -> Value:
    """Truth of one comparison; a mask for index arrays, a tile for tensors."""
    if left.__class__ is int and right.__class__ is int and op.__class__ in _ORDERS:
        return _ORDERS[op.__class__](left, right)
    if isinstance(op, ast.Is | ast.IsNot):
        return _identity(isinstance(op, ast.Is), left, right)
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return left if isinstance(left, Unknown) else right
    if isinstance(op, ast.In | ast.NotIn):
        return _membership(m, op, left, right)
    symbol = _COMPARE[type(op)]
    if isinstance(left, Instance) or isinstance(right, Instance):
        return _compare_objects(m, node, symbol, left, right)
    if isinstance(left, SomeText) or isinstance(right, SomeText):
        if isinstance(left, str) and isinstance(right, str):
            raise Undecided("a comparison of text that is not known")
    if isinstance(left, View) or isinstance(right, View):
        if left is None or right is None:
            return symbol == "!="
        return tensor_binary(m, node, op, left, right)
    left, right = plain(left), plain(right)
    if isinstance(left, IndexArray) or isinstance(right, IndexArray):
        return _mask(symbol, left, right)
    if isinstance(left, Affine) or isinstance(right, Affine):
        left, right = (
            int(v) if isinstance(v, float) and v.is_integer() else v for v in (left, right)
        )
        if isinstance(left, int | Affine) and isinstance(right, int | Affine):
            return affine.compare(symbol, left, right)
        if symbol in ("==", "!="):
            return symbol == "!="
        raise Undecided("a comparison that depends on the iteration")
    return _plain_compare(m, symbol, left, right)


_SPECIAL = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}


def _compare_objects(m: Machine, node: ast.AST, symbol: str, left: Value, right: Value) -> Value:
    """Objects are equal if their class says so, if their fields are, or if they are the same."""
    from accelopt_lsp.analysis.calls import call_value

    method = method_of(m, left, f"__{_SPECIAL[symbol]}__")
    if method is not None:
        return call_value(m, node, method, [right], {}, {})
    if symbol == "!=":
        equal = _compare_objects(m, node, "==", left, right)
        return equal if isinstance(equal, Unknown) else not equal
    if symbol != "==":
        raise Undecided("an order of objects")
    if left is right:
        return True
    both = isinstance(left, Instance) and isinstance(right, Instance)
    if not both or left.cls is not right.cls or left.cls.kind != "dataclass":
        return False
    if left.cls.by_identity:
        return False
    ignored = {f.name for f in left.cls.fields if not f.compare}
    for name, value in left.fields.items():
        if name in ignored:
            continue
        m.reads(left.fields, name)
        m.reads(right.fields, name)
        found = compare_values(m, node, ast.Eq(), value, right.fields.get(name))
        if found is not True:
            return found
    return True


def _plain_compare(m: Machine, symbol: str, left: Value, right: Value) -> Value:
    functions = {
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
        "==": operator.eq,
        "!=": operator.ne,
    }
    if symbol in ("==", "!="):
        same = equal(m, left, right)
        return same if symbol == "==" else not same
    simple = (bool, int, float, str, tuple)
    if isinstance(left, simple) and isinstance(right, simple):
        return functions[symbol](left, right)
    raise Undecided("a comparison of unknown values")


def equal(m: Machine, left: Value, right: Value) -> bool:
    """``left == right``.

    Raises:
        NeedSplit, Undecided: it depends on the iteration, or is not known.
    """
    if isinstance(left, tuple | ListValue) and isinstance(right, tuple | ListValue):
        sorts = {_sort_of(left), _sort_of(right)}
        if sorts == {"set", "tuple"}:
            raise Undecided("a comparison of a set and a tuple or the keys of a dictionary")
        if len(sorts) > 1:
            return False
        if flat_length(_items(left)) != flat_length(_items(right)):
            return False
        a, b = written_out(_items(left)), written_out(_items(right))
        if _sort_of(left) == "set":
            return all(_is_among(m, x, tuple(b)) for x in a)
        for x, y in zip(a, b, strict=True):
            if isinstance(x, Unknown) or isinstance(y, Unknown):
                raise Undecided("a comparison of unknown values")
            if isinstance(x, int | Affine) and isinstance(y, int | Affine):
                if not affine.compare("==", x, y):
                    return False
            elif not equal(m, x, y):
                return False
        return True
    if isinstance(left, dict) and isinstance(right, dict):
        for table in (left, right):
            for key in table:
                m.reads(table, key)
        return left.keys() == right.keys() and all(
            equal(m, value, right[key]) for key, value in left.items()
        )
    if isinstance(left, Instance) or isinstance(right, Instance):
        found = truth(m, _compare_objects(m, ast.Pass(lineno=m.line), "==", left, right))
        if found is None:
            raise Undecided("a comparison of objects")
        return found
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        raise Undecided("a comparison of unknown values")
    return same_kind(left, right)


def _items(value: tuple[Value, ...] | ListValue) -> list[Value]:
    return list(value) if isinstance(value, tuple) else value.items


def _sort_of(value: tuple[Value, ...] | ListValue) -> str:
    if isinstance(value, tuple) or value.fixed:
        return "tuple"
    return "set" if value.unordered else "list"


def _identity(wanted: bool, left: Value, right: Value) -> Value:
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return left if isinstance(left, Unknown) else right
    if left is None or right is None:
        return (left is right) == wanted
    if isinstance(left, bool | int | str) and isinstance(right, bool | int | str):
        return (left == right) == wanted
    return (left is right or same_kind(left, right)) == wanted


def _membership(m: Machine, op: ast.cmpop, left: Value, right: Value) -> Value:
    if isinstance(right, ListValue):
        right = tuple(written_out(right.items))
    if isinstance(right, tuple):
        m.charge(len(right) * ITEM_COST)
        found = _is_among(m, left, right)
    elif isinstance(right, ClassValue) and right.kind == "enum":
        found = any(left is member for member in right.roster.values())
    elif isinstance(right, Range) and isinstance(left, int):
        return _in_range(left, right) == isinstance(op, ast.In)
    elif isinstance(right, Instance):
        return _contains(m, op, left, right)
    elif isinstance(right, dict):
        key = hashable(left)
        m.reads(right, key)
        found = key in right
        if not found and SOME_KEY in right:
            raise Undecided(SOME_KEY.reason)
    elif isinstance(right, str) and isinstance(left, str):
        if isinstance(left, SomeText) or isinstance(right, SomeText):
            raise Undecided("a comparison of text that is not known")
        found = left in right
    else:
        raise Undecided("membership in an unknown value")
    return found == isinstance(op, ast.In)


def _is_among(m: Machine, left: Value, items: tuple[Value, ...]) -> bool:
    unknown = False
    for item in items:
        if isinstance(item, Unknown):
            unknown = True
        elif isinstance(left, int | Affine) and isinstance(item, int | Affine):
            if affine.compare("==", left, item):
                return True
        elif isinstance(left, SomeText) or isinstance(item, SomeText):
            unknown = unknown or (isinstance(left, str) and isinstance(item, str))
        elif equal(m, left, item):
            return True
    if unknown:
        raise Undecided("membership among values that are not known")
    return False


def _in_range(value: int, over: Range) -> bool:
    if not isinstance(over.start, int) or not isinstance(over.stop, int):
        raise Undecided("membership in a range that depends on the iteration")
    return value in range(over.start, over.stop, over.step)


def _contains(m: Machine, op: ast.cmpop, left: Value, right: Instance) -> Value:
    from accelopt_lsp.analysis.calls import call_value

    method = method_of(m, right, "__contains__")
    if method is None:
        raise Undecided("membership in an object")
    known = truth(m, call_value(m, ast.Pass(), method, [left], {}, {}))
    if known is None:
        raise Undecided("membership in an object")
    return known == isinstance(op, ast.In)


def _mask(symbol: str, left: Value, right: Value) -> Value:
    """``left SYMBOL right`` as ``expression >= 0``."""
    if not all(isinstance(v, int | Affine | IndexArray) for v in (left, right)):
        return Mask((None,))
    try:
        if symbol in ("<", "<="):
            difference = combine(right, left, affine.subtract)
        elif symbol in (">", ">="):
            difference = combine(left, right, affine.subtract)
        elif symbol == "==":
            return Mask(
                (combine(left, right, affine.subtract), combine(right, left, affine.subtract))
            )
        else:
            return Mask((None,))
        if symbol in ("<", ">"):
            difference = combine(difference, 1, affine.subtract)
    except Undecided:
        return Mask((None,))
    return Mask((difference,))
