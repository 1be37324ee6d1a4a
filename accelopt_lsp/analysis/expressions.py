"""Abstract evaluation of Python expressions."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from accelopt_lsp.analysis import affine
from accelopt_lsp.analysis.affine import Affine, Undecided
from accelopt_lsp.analysis.classes import method_of
from accelopt_lsp.analysis.grids import combine, scaled
from accelopt_lsp.analysis.machine import MAX_BITS, MAX_LENGTH, Machine, evaluates
from accelopt_lsp.analysis.references import attribute_of, same_kind
from accelopt_lsp.analysis.registers import Register
from accelopt_lsp.analysis.rejections import NOT_AFFINE
from accelopt_lsp.analysis.sequences import items_of, mutable_item, shared_items
from accelopt_lsp.analysis.sets import make_set, set_binary
from accelopt_lsp.analysis.tensors import subscript_value, tensor_binary, tensor_unary
from accelopt_lsp.analysis.texts import SomeText, formatted, joined, percent
from accelopt_lsp.analysis.values import (
    ClassValue,
    Function,
    Grid,
    HostArray,
    IndexArray,
    Instance,
    ListValue,
    Mask,
    ParDim,
    Range,
    Ref,
    Unknown,
    Value,
    View,
    flat_length,
)
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.operands import Buffer


@evaluates(ast.Constant)
def _constant(m: Machine, node: ast.Constant) -> Value:
    return node.value


@evaluates(ast.Name)
def _name(m: Machine, node: ast.Name) -> Value:
    value = m.name_value(node.id)
    if isinstance(value, ListValue):
        m.used_lists.append(value)
    return value


@evaluates(ast.Attribute)
def _attribute(m: Machine, node: ast.Attribute) -> Value:
    if node.attr in ("append", "extend"):
        # Adding to a list is no use of what it holds.
        if isinstance(node.value, ast.Name):
            return attribute_of(m, m.name_value(node.value.id), node.attr)
        if isinstance(node.value, ast.Subscript):
            return attribute_of(m, mutable_item(m, node.value), node.attr)
    value = attribute_of(m, m.eval(node.value), node.attr)
    if isinstance(value, ListValue):
        m.used_lists.append(value)
    return value


@evaluates(ast.Tuple)
def _tuple(m: Machine, node: ast.Tuple) -> Value:
    return tuple(_elements(m, node.elts))


@evaluates(ast.List)
def _list(m: Machine, node: ast.List) -> Value:
    return ListValue(_elements(m, node.elts), tuple(m.loops))


@evaluates(ast.Set)
def _set(m: Machine, node: ast.Set) -> Value:
    return make_set(m, _elements(m, node.elts))


def _elements(m: Machine, nodes: list[ast.expr]) -> list[Value]:
    found: list[Value] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            value = m.eval(node.value)
            items = items_of(value)
            if items is None:
                raise Undecided("cannot unpack an unknown value")
            found.extend(items)
        else:
            found.append(m.eval(node))
    return found


@evaluates(ast.Dict)
def _dict(m: Machine, node: ast.Dict) -> Value:
    result: dict[Any, Value] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            other = m.eval(value)
            if not isinstance(other, dict):
                raise Undecided("cannot unpack an unknown mapping")
            result.update(other)
        else:
            result[hashable(m.eval(key))] = m.eval(value)
    return m.new_dict(result)


def hashable(value: Value) -> Any:
    """A value as a dictionary key.

    Raises:
        NeedSplit, Undecided: it depends on a loop variable, or is unknown.
    """
    if isinstance(value, Affine):
        raise affine.split(value.terms, f"{value} as a key")
    if isinstance(value, tuple):
        return tuple(hashable(v) for v in value)
    if isinstance(value, Unknown | ListValue | dict | SomeText):
        raise Undecided("the key is not known")
    if isinstance(value, Instance) and value.cls.kind != "enum":
        return _object_key(value)
    return value


def _object_key(value: Instance) -> Instance:
    """The object that stands for all that equal this one.

    Raises:
        NeedSplit, Undecided: which ones do is not known.
    """
    cls = value.cls
    if any(c.members and "__eq__" in c.members for c in cls.lineage()):
        raise Undecided(f"{cls.name} says itself what equals it")
    if cls.kind != "dataclass" or cls.by_identity:
        return value
    compared = {f.name for f in cls.fields if f.compare}
    parts = [(type(v), hashable(v)) for k, v in value.fields.items() if k in compared]
    return cls.equals.setdefault(tuple(parts), value)


@evaluates(ast.JoinedStr)
def _joined(m: Machine, node: ast.JoinedStr) -> Value:
    """Text with values in it; where one is not known, it is some text."""
    parts: list[str] = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            parts.append(str(part.value))
        elif isinstance(part, ast.FormattedValue):
            value = m.eval(part.value)
            spec = m.eval(part.format_spec) if part.format_spec is not None else ""
            parts.append(formatted(m, value, spec, part.conversion))
    return joined(parts)


@evaluates(ast.Lambda)
def _lambda(m: Machine, node: ast.Lambda) -> Value:
    return make_function(m, "<lambda>", node)


def make_function(
    m: Machine, name: str, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
) -> Function:
    """A function value; defaults are evaluated where it is defined."""
    arguments = node.args
    return Function(
        name,
        node,
        m.scope,
        [m.eval(d) for d in arguments.defaults],
        {
            a.arg: m.eval(d)
            for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            if d is not None
        },
    )


@evaluates(ast.NamedExpr)
def _named(m: Machine, node: ast.NamedExpr) -> Value:
    value = m.eval(node.value)
    m.scope.assign(node.target.id, value)
    scope = m.scope
    while scope.inner and scope.parent is not None:
        # It is bound outside the comprehension: to what its last iteration found.
        scope = scope.parent
        unknown = Unknown("a name that a comprehension sets")
        m.journal.set_item(scope.names, node.target.id, unknown, scope)
    return value


@evaluates(ast.IfExp)
def _if_expression(m: Machine, node: ast.IfExp) -> Value:
    test = m.eval(node.test)
    check_condition(m, node.test, test)
    condition = truth(m, test)
    if condition is None:
        then, other = m.eval(node.body), m.eval(node.orelse)
        if same_kind(then, other):
            return then
        raise Undecided("the condition is not known")
    return m.eval(node.body if condition else node.orelse)


def truth(m: Machine, value: Value) -> bool | None:
    """Whether a value counts as true; None if that is not known."""
    if value is True or value is False:
        return bool(value)
    if isinstance(value, Unknown):
        return None
    if isinstance(value, Register):
        return truth(m, value.number())
    if isinstance(value, Affine):
        return not affine.compare("==", value, 0)
    if isinstance(value, ListValue):
        return flat_length(value.items) > 0
    if isinstance(value, View):
        return True if counts_as_true(m, value) else None
    if isinstance(value, IndexArray | Mask | HostArray):
        return None
    if isinstance(value, SomeText):
        return True
    if isinstance(value, Range):
        return value.length() > 0
    if isinstance(value, Instance):
        return _object_truth(m, value)
    if isinstance(value, bool | int | float | str | tuple | dict | None):
        return bool(value)
    return True


def check_condition(m: Machine, node: ast.expr, value: Value) -> None:
    """R005 and R010: a tile, an index or a mask that decides what Python does."""
    if value.__class__ is bool:
        return
    if isinstance(value, IndexArray | Mask | Grid) and m.dialect is Dialect.LEGACY:
        m.find(
            "R010",
            "a comparison of indices is a mask and cannot decide control flow; give it as mask= "
            "of the instruction",
            node,
        )
    elif isinstance(value, View) and not counts_as_true(m, value):
        m.find(
            "R005",
            f"{value.storage.name or 'a tensor'} ({value.describe()}) cannot decide control flow: "
            "its values exist on the device only; compare with None by `is None`",
            node,
        )


def counts_as_true(m: Machine, value: View) -> bool:
    """Whether Python may ask if a tensor was given: parameters, and what a call allocated."""
    if value.buffer is Buffer.HBM:
        return True
    return m.dialect is Dialect.CURRENT and value.storage.kind != "temporary"


def _object_truth(m: Machine, value: Instance) -> bool | None:
    for name in ("__bool__", "__len__"):
        method = method_of(m, value, name)
        if method is not None:
            from accelopt_lsp.analysis.calls import call_value

            return truth(m, call_value(m, ast.Pass(), method, [], {}, {}))
    return True


@evaluates(ast.BoolOp)
def _bool_op(m: Machine, node: ast.BoolOp) -> Value:
    is_and = isinstance(node.op, ast.And)
    undecided: Unknown | None = None
    value: Value = None
    for part in node.values:
        value = m.eval(part)
        if isinstance(value, Mask):
            if not is_and:
                return value
            if part is not node.values[-1]:
                m.find(
                    "R043",
                    "`and` leaves of two masks the second alone; combine masks with &",
                    node,
                )
            continue
        check_condition(m, part, value)
        known = truth(m, value)
        if known is None:
            undecided = value if isinstance(value, Unknown) else Unknown("truth of a tensor")
        elif known != is_and:
            return value
    return undecided if undecided is not None else value


@evaluates(ast.UnaryOp)
def _unary(m: Machine, node: ast.UnaryOp) -> Value:
    value = m.eval(node.operand)
    if isinstance(value, Unknown):
        return value
    if isinstance(node.op, ast.Not):
        check_condition(m, node.operand, value)
        known = truth(m, value)
        return Unknown("the condition is not known") if known is None else not known
    if isinstance(value, View):
        return tensor_unary(m, node, value)
    if isinstance(node.op, ast.USub):
        if isinstance(value, Affine):
            return affine.scale(value, -1)
        if isinstance(value, IndexArray):
            return scaled(value, -1)
        return -value
    if isinstance(node.op, ast.Invert) and isinstance(value, int):
        return ~value
    return value


_PYTHON: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.BitXor: operator.xor,
}


_QUICK: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
"""Operators that integers always have a small result for."""


@evaluates(ast.BinOp)
def _binary(m: Machine, node: ast.BinOp) -> Value:
    return binary(m, node, node.op, m.eval(node.left), m.eval(node.right))


def binary(m: Machine, node: ast.AST, op: ast.operator, left: Value, right: Value) -> Value:
    """Result of ``left OP right``."""
    if left.__class__ is int and right.__class__ is int:
        quick = _QUICK.get(op.__class__)
        if quick is not None:
            return quick(left, right)
        if op.__class__ is ast.Mult:
            return limited(left * right)
    if isinstance(left, View) or isinstance(right, View):
        return tensor_binary(m, node, op, left, right)
    for side in (left, right):
        if isinstance(side, Register):
            return Unknown("Python cannot compute with a register", number=True)
        if isinstance(side, Unknown):
            other = right if side is left else left
            number = side.number and isinstance(other, int | float | Affine | Unknown)
            return Unknown(side.reason, number)
    if isinstance(left, Instance) or isinstance(right, Instance):
        return _object_binary(m, node, op, left, right)
    if isinstance(op, ast.BitOr) and _is_class(left) and _is_class(right):
        return (*(left if isinstance(left, tuple) else (left,)), right)
    left, right = plain(left), plain(right)
    if isinstance(left, IndexArray | Mask) or isinstance(right, IndexArray | Mask):
        return _index_binary(op, left, right)
    if isinstance(left, Affine) or isinstance(right, Affine):
        return _affine_binary(op, left, right)
    if isinstance(left, ListValue) or isinstance(right, ListValue):
        return _list_binary(m, op, left, right)
    if isinstance(left, HostArray) or isinstance(right, HostArray):
        return _host_binary(left, right)
    if isinstance(op, ast.Pow):
        return _power(left, right)
    if isinstance(op, ast.Mod) and isinstance(left, str):
        return percent(left, right)
    if isinstance(left, str) and isinstance(right, str) and isinstance(op, ast.Add):
        return joined([left, right])
    function = _PYTHON.get(type(op))
    simple = (bool, int, float, str, tuple)
    if function is None or not isinstance(left, simple) or not isinstance(right, simple):
        raise Undecided("this operation is not analyzed")
    if isinstance(op, ast.Mult | ast.LShift):
        _check_growth(op, left, right)
    return limited(function(left, right))


SPECIAL = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.BitOr: "or",
    ast.BitAnd: "and",
    ast.MatMult: "matmul",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
    ast.BitXor: "xor",
}
"""Names of operators inside those of special methods."""


def _object_binary(m: Machine, node: ast.AST, op: ast.operator, left: Value, right: Value) -> Value:
    """Operators that a class defines."""
    from accelopt_lsp.analysis.calls import call_value

    name = SPECIAL.get(type(op), "")
    for owner, other, special in ((left, right, f"__{name}__"), (right, left, f"__r{name}__")):
        method = method_of(m, owner, special)
        if method is not None:
            return call_value(m, node, method, [other], {}, {})
    raise Undecided("this operator on objects is not analyzed")


def _is_class(value: Value) -> bool:
    """Whether a value can stand in ``int | None``."""
    if isinstance(value, tuple):
        return all(_is_class(v) for v in value)
    return value is None or isinstance(value, ClassValue | Ref)


def _check_growth(op: ast.operator, left: Any, right: Any) -> None:
    """Refuse products and shifts whose result would fill the memory."""
    if isinstance(op, ast.LShift):
        if not isinstance(right, int) or right > MAX_BITS:
            raise Undecided("a number too large to analyze")
        return
    for sequence, times in ((left, right), (right, left)):
        if isinstance(sequence, str | tuple) and isinstance(times, int):
            if len(sequence) * times > MAX_LENGTH:
                raise Undecided("a sequence too long to analyze")


def limited(value: Value) -> Value:
    """A result, unless it is so large that a loop could let it grow without end.

    Raises:
        Undecided: it is.
    """
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise Undecided("a number too large to analyze")
    if isinstance(value, str | tuple) and len(value) > MAX_LENGTH:
        raise Undecided("a sequence too long to analyze")
    return value


def plain(value: Value) -> Value:
    """A marked size as a number."""
    return value.size if isinstance(value, ParDim) else value


def _power(left: Any, right: Any) -> Value:
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        raise Undecided("this power is not analyzed")
    if abs(right) > MAX_BITS or abs(left) > 1e9:
        raise Undecided("this power is too large to analyze")
    return limited(left**right)


def _affine_binary(op: ast.operator, left: Any, right: Any) -> Value:
    if isinstance(left, float) or isinstance(right, float) or isinstance(op, ast.Div):
        return Unknown("a number that depends on the iteration", number=True)
    left, right = _integer(left), _integer(right)
    if isinstance(op, ast.Add):
        return affine.add(left, right)
    if isinstance(op, ast.Sub):
        return affine.subtract(left, right)
    if isinstance(op, ast.Mult):
        return affine.multiply(left, right)
    if isinstance(op, ast.FloorDiv | ast.Mod):
        if isinstance(right, Affine):
            raise affine.split(right.terms, f"division by {right}")
        return (affine.floordiv if isinstance(op, ast.FloorDiv) else affine.modulo)(left, right)
    terms = (*affine.terms_of(left), *affine.terms_of(right))
    raise affine.split(terms, "this operation is not linear")


def _integer(value: Any) -> affine.Linear:
    if isinstance(value, int | Affine):
        return value
    raise Undecided("an integer and something else")


def _index_binary(op: ast.operator, left: Any, right: Any) -> Value:
    if isinstance(left, Mask) or isinstance(right, Mask):
        if isinstance(op, ast.BitAnd) and isinstance(left, Mask) and isinstance(right, Mask):
            return Mask((*left.terms, *right.terms))
        return Mask((None,))
    if not all(isinstance(v, int | Affine | IndexArray) for v in (left, right)):
        raise Undecided("an index array and something else")
    if isinstance(op, ast.Add):
        return combine(left, right, affine.add)
    if isinstance(op, ast.Sub):
        return combine(left, right, affine.subtract)
    if isinstance(op, ast.Mult):
        array, factor = (left, right) if isinstance(left, IndexArray) else (right, left)
        if isinstance(factor, int):
            return scaled(array, factor)
        if isinstance(factor, Affine):
            raise affine.split(factor.terms, "an index array times a loop variable")
    return Unknown(NOT_AFFINE)


def _list_binary(m: Machine, op: ast.operator, left: Any, right: Any) -> Value:
    if any(isinstance(v, ListValue) and v.unordered for v in (left, right)):
        return set_binary(m, op, left, right)
    fixed = all(
        isinstance(v, tuple) or (v.fixed if isinstance(v, ListValue) else True)
        for v in (left, right)
    )
    if isinstance(op, ast.Add) and fixed:
        both = (list(left), right.items) if isinstance(left, tuple) else (left.items, list(right))
        if isinstance(left, ListValue) and isinstance(right, ListValue):
            both = (left.items, right.items)
        return ListValue([*both[0], *both[1]], tuple(m.loops), None, fixed=True)
    if isinstance(op, ast.Add) and isinstance(left, ListValue) and isinstance(right, ListValue):
        if len(left.items) + len(right.items) > MAX_LENGTH:
            raise Undecided("a list too long to analyze")
        return ListValue([*shared_items(m, left), *shared_items(m, right)], tuple(m.loops))
    if isinstance(op, ast.Mult):
        items, times = (left, right) if isinstance(left, ListValue) else (right, left)
        if isinstance(items, ListValue) and isinstance(times, int):
            if len(items.items) * times <= MAX_LENGTH:
                again = shared_items(m, items) * times
                return ListValue(again, tuple(m.loops), None, fixed=items.fixed)
    raise Undecided("this list operation is not analyzed")


def _host_binary(left: Any, right: Any) -> Value:
    arrays = [v for v in (left, right) if isinstance(v, HostArray)]
    shape: tuple[int, ...] = ()
    for array in arrays:
        shape = _broadcast(shape, array.shape)
    dtypes = [a.dtype for a in arrays]
    same = all(d == dtypes[0] for d in dtypes)
    return HostArray(shape, dtypes[0] if same else None)


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True)
    shape = []
    for n, k in pairs:
        if n != k and 1 not in (n, k):
            raise Undecided("arrays that do not broadcast")
        shape.append(max(n, k))
    return tuple(shape)


@evaluates(ast.Subscript)
def _subscript(m: Machine, node: ast.Subscript) -> Value:
    value = subscript_value(m, node, m.eval(node.value), node.slice)
    if isinstance(value, ListValue):
        m.used_lists.append(value)
    return value


@evaluates(ast.Slice)
def _slice(m: Machine, node: ast.Slice) -> Value:
    def part(given: ast.expr | None) -> Value:
        return None if given is None else m.eval(given)

    return slice(part(node.lower), part(node.upper), part(node.step))


@evaluates(ast.Starred)
def _starred(m: Machine, node: ast.Starred) -> Value:
    return m.eval(node.value)


@evaluates(ast.Await)
def _await(m: Machine, node: ast.Await) -> Value:
    return m.eval(node.value)
