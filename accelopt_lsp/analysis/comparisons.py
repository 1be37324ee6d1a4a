"""Comparisons: of numbers, of linear forms, of index arrays (masks) and of tensors."""

from __future__ import annotations

import ast
import operator

from accelopt_lsp.analysis import affine
from accelopt_lsp.analysis.affine import Affine, Undecided
from accelopt_lsp.analysis.expressions import hashable, plain
from accelopt_lsp.analysis.grids import combine
from accelopt_lsp.analysis.machine import Machine, evaluates
from accelopt_lsp.analysis.references import same_kind
from accelopt_lsp.analysis.tensors import tensor_binary
from accelopt_lsp.analysis.values import (
    IndexArray,
    ListValue,
    Mask,
    Unknown,
    Value,
    View,
)

_COMPARE = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
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
    if isinstance(op, ast.Is | ast.IsNot):
        return _identity(isinstance(op, ast.Is), left, right)
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return left if isinstance(left, Unknown) else right
    if isinstance(op, ast.In | ast.NotIn):
        return _membership(m, op, left, right)
    symbol = _COMPARE[type(op)]
    if isinstance(left, View) or isinstance(right, View):
        if left is None or right is None:
            return symbol == "!="
        return tensor_binary(m, node, op, left, right)
    left, right = plain(left), plain(right)
    if isinstance(left, IndexArray) or isinstance(right, IndexArray):
        return _mask(symbol, left, right)
    if isinstance(left, Affine) or isinstance(right, Affine):
        if isinstance(left, int | Affine) and isinstance(right, int | Affine):
            return affine.compare(symbol, left, right)
        if symbol in ("==", "!="):
            return symbol == "!="
        raise Undecided("a comparison that depends on the iteration")
    return _plain_compare(m, symbol, left, right)


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
        equal = _equal(left, right)
        return equal if symbol == "==" else not equal
    simple = (bool, int, float, str, tuple)
    if isinstance(left, simple) and isinstance(right, simple):
        return functions[symbol](left, right)
    raise Undecided("a comparison of unknown values")


def _equal(left: Value, right: Value) -> bool:
    if isinstance(left, tuple | ListValue) and isinstance(right, tuple | ListValue):
        a = left if isinstance(left, tuple) else tuple(left.items)
        b = right if isinstance(right, tuple) else tuple(right.items)
        if type(left) is not type(right) or len(a) != len(b):
            return False
        for x, y in zip(a, b, strict=True):
            if isinstance(x, Unknown) or isinstance(y, Unknown):
                raise Undecided("a comparison of unknown values")
            if isinstance(x, int | Affine) and isinstance(y, int | Affine):
                if not affine.compare("==", x, y):
                    return False
            elif not _equal(x, y):
                return False
        return True
    return same_kind(left, right)


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
        right = tuple(right.items)
    if isinstance(right, tuple):
        found = any(_equal(left, item) for item in right)
    elif isinstance(right, dict):
        found = hashable(left) in right
    elif isinstance(right, str) and isinstance(left, str):
        found = left in right
    else:
        raise Undecided("membership in an unknown value")
    return found == isinstance(op, ast.In)


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
