"""Evaluates expressions of a kernel to affine forms, views, types and names."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from typing import Any

from accelopt_lsp.analysis.names import Aliases
from accelopt_lsp.analysis.tree import dotted
from accelopt_lsp.nki.apis import find_api
from accelopt_lsp.nki.dialects import LANGUAGE_CONSTANTS, MEMORIES, BindError, Dialect, Role
from accelopt_lsp.nki.dtypes import DType, find_dtype
from accelopt_lsp.nki.lowering import LoweringError, lower
from accelopt_lsp.nki.operands import Buffer, OperandType
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.rewrites.affine import Affine, Dim, Symbol
from accelopt_lsp.rewrites.indexing import indexed, list_element, placed_axis
from accelopt_lsp.rewrites.values import (
    ApiRef,
    Grid,
    Items,
    Literal,
    Loop,
    ParDim,
    Range,
    Tensor,
    TileList,
    Value,
    View,
    integer,
    number,
)

_CREATORS = frozenset({"nl.ndarray", "nl.zeros", "nl.ones", "nl.full"})
_PYTHON: Mapping[str, Callable[..., Any]] = {
    "math.ceil": math.ceil,
    "math.floor": math.floor,
    "math.sqrt": math.sqrt,
    "np.sqrt": math.sqrt,
    "np.ceil": math.ceil,
    "min": min,
    "max": max,
    "int": int,
    "float": float,
    "abs": abs,
    "np.float32": float,
}


class Evaluator:
    """Values of expressions under the current bindings; remembers them by node."""

    def __init__(self, aliases: Aliases, dialect: Dialect, target: Target) -> None:
        self.aliases = aliases
        self.dialect = dialect
        self.target = target
        self.env: dict[str, Value] = {}
        self.values: dict[int, Value] = {}
        self.loops: tuple[Loop, ...] = ()
        self.step: int | None = None

    def api(self, node: ast.AST) -> str | None:
        """Canonical name of a dotted expression, None for local names."""
        name = dotted(node)
        if name is None:
            return None
        head = name.partition(".")[0]
        if head in self.env:
            return None
        if head in ("math", "min", "max", "int", "float", "abs", "len", "range"):
            return name
        return self.aliases.canonical(name)

    def value(self, node: ast.AST | None) -> Value:
        if node is None:
            return None
        handler = getattr(self, f"_{type(node).__name__.lower()}", None)
        found: Value = handler(node) if handler is not None else None
        if handler is None:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.value(child)
        self.values[id(node)] = found
        return found

    def _constant(self, node: ast.Constant) -> Value:
        if isinstance(node.value, bool) or node.value is None:
            return Literal(node.value)
        if isinstance(node.value, int):
            return Affine(node.value)
        if isinstance(node.value, float | str):
            return Literal(node.value)
        return None

    def _name(self, node: ast.Name) -> Value:
        if node.id in self.env:
            return self.env[node.id]
        return self._named(node)

    def _attribute(self, node: ast.Attribute) -> Value:
        api = self.api(node)
        if api is not None:
            return self._named(node)
        base = self.value(node.value)
        if isinstance(base, View):
            if node.attr == "shape" and base.shape is not None:
                return Items(tuple(self._size(s, node) for s in base.shape))
            if node.attr == "dtype":
                return base.tensor.dtype
        if isinstance(base, Grid) and node.attr in ("p", "x", "y", "z"):
            position = "pxyz".index(node.attr)
            return base.axes[position] if position < len(base.axes) else None
        return None

    def _size(self, size: int | None, node: ast.AST) -> Value:
        if size is not None:
            return Affine(size)
        return Affine.of(Symbol(ast.unparse(node), "size"))

    def _named(self, node: ast.AST) -> Value:
        api = self.api(node)
        if api is None:
            return None
        root, _, rest = api.partition(".")
        if root == "nl" and rest in LANGUAGE_CONSTANTS:
            constant = LANGUAGE_CONSTANTS[rest]
            return Affine(constant) if isinstance(constant, int) else Literal(float(constant))  # type: ignore[arg-type]
        if root in ("nl", "np", "nki") and find_dtype(api) is not None:
            return find_dtype(api)
        return ApiRef(api)

    def _tuple(self, node: ast.Tuple) -> Value:
        return Items(tuple(self.value(e) for e in node.elts))

    def _list(self, node: ast.List) -> Value:
        if not node.elts:
            return TileList("", self.loops)
        return Items(tuple(self.value(e) for e in node.elts))

    def _unaryop(self, node: ast.UnaryOp) -> Value:
        value = self.value(node.operand)
        if isinstance(value, View):
            return self.computed(value.shape, value.tensor.dtype)
        if isinstance(node.op, ast.USub):
            if isinstance(value, Affine):
                return value.times(-1)
            if isinstance(value, Literal) and isinstance(value.value, float):
                return Literal(-value.value)
        return value if isinstance(node.op, ast.UAdd) else None

    def _binop(self, node: ast.BinOp) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(left, View) or isinstance(right, View):
            return self._tile_arithmetic(left, right)
        if isinstance(left, Affine) and isinstance(right, Affine):
            found = _affine_arithmetic(node.op, left, right)
            if found is not None:
                return found
        a, b = number(left), number(right)
        if a is not None and b is not None:
            return _float_arithmetic(node.op, a, b)
        if isinstance(left, Affine) and isinstance(right, Affine):
            if isinstance(node.op, ast.FloorDiv) and not left.symbols("loop"):
                return Affine.of(Symbol(ast.unparse(node), "size"))
        return None

    def _tile_arithmetic(self, left: Value, right: Value) -> Value:
        views = [v for v in (left, right) if isinstance(v, View)]
        shapes = [v.shape for v in views if v.shape is not None and None not in v.shape]
        if len(shapes) < len(views):
            return self.computed(None, views[0].tensor.dtype)
        widest = max(shapes, key=lambda s: (len(s), math.prod(x or 0 for x in s)))
        return self.computed(widest, views[0].tensor.dtype)

    def computed(
        self,
        shape: tuple[int | None, ...] | None,
        dtype: DType | None,
        buffer: Buffer | None = Buffer.SBUF,
        call: ast.Call | None = None,
        api: str | None = None,
    ) -> View:
        """A fresh tile that an expression yields."""
        tensor = Tensor("", shape, dtype, buffer, self.step, call, api, 0, self.loops)
        return whole_view(tensor)

    def _compare(self, node: ast.Compare) -> Value:
        left = self.value(node.left)
        for comparator in node.comparators:
            right = self.value(comparator)
        a, b = number(left), number(right)
        if len(node.ops) == 1 and a is not None and b is not None:
            table: dict[type[ast.cmpop], bool] = {
                ast.Eq: a == b,
                ast.NotEq: a != b,
                ast.Lt: a < b,
                ast.LtE: a <= b,
                ast.Gt: a > b,
                ast.GtE: a >= b,
            }
            result = table.get(type(node.ops[0]))
            return None if result is None else Literal(result)
        return None

    def _subscript(self, node: ast.Subscript) -> Value:
        elements = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        if self.api(node.value) == "nl.mgrid":
            return self._grid(elements)
        base = self.value(node.value)
        indices = [self._index(e) for e in elements]
        if isinstance(base, Items):
            position = integer(self.value(node.slice))
            if position is not None and -len(base.items) <= position < len(base.items):
                return base.items[position]
            return None
        if isinstance(base, Affine):
            return placed_axis(base, elements)
        if isinstance(base, TileList) and len(indices) == 1:
            return list_element(base, indices[0])
        if isinstance(base, View):
            return indexed(base, elements, indices)
        return None

    def _index(self, node: ast.AST) -> Value:
        if isinstance(node, ast.Slice):
            if node.step is not None and integer(self.value(node.step)) != 1:
                return None
            lower = self.value(node.lower) if node.lower is not None else Affine()
            upper = self.value(node.upper) if node.upper is not None else None
            if not isinstance(lower, Affine):
                return None
            if node.upper is None:
                return Dim(lower, None)
            if not isinstance(upper, Affine):
                return None
            return Dim(lower, upper.minus(lower).value)
        value = self.value(node)
        if isinstance(value, Range):
            return Dim(value.start, value.size.value)
        return value

    def _grid(self, elements: list[ast.expr]) -> Value:
        axes = []
        for position, element in enumerate(elements):
            found = self._index(element)
            if not isinstance(found, Dim) or found.extent is None:
                return None
            axis = Symbol("axis", "axis", found.extent, position)
            axes.append(found.start.plus(Affine.of(axis)))
        return Grid(tuple(axes))

    def _call(self, node: ast.Call) -> Value:
        arguments = [self.value(a) for a in node.args]
        keywords = {k.arg: self.value(k.value) for k in node.keywords if k.arg is not None}
        api = self.api(node.func)
        if api is None:
            return self._method(node, arguments)
        if api in _PYTHON:
            return _python_call(api, arguments)
        if api == "len" and len(arguments) == 1 and isinstance(arguments[0], Items):
            return Affine(len(arguments[0].items))
        if api in ("nl.arange", "np.arange"):
            extent = integer(arguments[0]) if len(arguments) == 1 else None
            return Affine.of(Symbol("axis", "axis", extent))
        if api in ("nl.ds", "nl.par_dim"):
            sizes = [a for a in (*arguments, *keywords.values()) if isinstance(a, Affine)]
            if api == "nl.par_dim":
                return ParDim(sizes[0]) if len(sizes) == 1 else None
            return Range(*sizes) if len(sizes) == 2 else None
        return self._api_call(node, api, arguments, keywords)

    def _method(self, node: ast.Call, arguments: list[Value]) -> Value:
        if not isinstance(node.func, ast.Attribute):
            return None
        base = self.value(node.func.value)
        if node.func.attr == "type" and len(arguments) == 1:
            inner = node.func.value
            if isinstance(inner, ast.Call) and self.api(inner.func) == "np.dtype":
                found = number(arguments[0])
                return None if found is None else Literal(float(found))
        if isinstance(base, View):
            shape = _shape_of(arguments)
            for keyword in node.keywords:
                if keyword.arg == "shape":
                    shape = _shape_of([self.value(keyword.value)])
            if node.func.attr in ("reshape", "broadcast_to"):
                return View(base.tensor, None, shape)
            if node.func.attr == "astype":
                return self.computed(base.shape, None)
            return View(base.tensor, None, None)
        return None

    def _api_call(
        self, node: ast.Call, api: str, arguments: list[Value], keywords: dict[str, Value]
    ) -> Value:
        entry = find_api(api)
        if entry is None or entry.role not in (Role.COMPUTE, Role.INSTRUCTION, Role.CREATION):
            return self.computed(None, None, None, node, api)
        memory = _result_memory(api)
        try:
            bound = entry.bind(self.dialect, tuple(arguments), dict(keywords))
        except BindError:
            return self.computed(None, None, memory, node, api)
        if api in _CREATORS:
            return self._created(node, api, bound)
        result = _lowered_result(self.dialect, api, bound, self.target)
        if result is None:
            dtype = bound.get("dtype")
            given = dtype if isinstance(dtype, DType) else None
            return self.computed(None, given, memory, node, api)
        return self.computed(result.shape, result.dtype, result.buffer, node, api)

    def _created(self, node: ast.Call, api: str, bound: Mapping[str, Any]) -> Value:
        shape_value = bound.get("shape")
        items = shape_value.items if isinstance(shape_value, Items) else None
        shape: tuple[int | None, ...] | None = None
        blocks = 0
        if items is not None:
            shape = tuple(i.size.value if isinstance(i, ParDim) else integer(i) for i in items)
            blocks = next((n for n, i in enumerate(items) if isinstance(i, ParDim)), 0)
        buffer = bound.get("buffer")
        memory = Buffer.SBUF
        if isinstance(buffer, ApiRef):
            name = MEMORIES.get(buffer.name.rpartition(".")[2])
            memory = Buffer(name) if name else Buffer.SBUF
        dtype = bound.get("dtype")
        tensor = Tensor(
            "",
            shape,
            dtype if isinstance(dtype, DType) else None,
            memory,
            self.step,
            node,
            api,
            blocks,
            self.loops,
        )
        return whole_view(tensor)


def _result_memory(api: str) -> Buffer | None:
    """Where a call's result is, if its shape is unknown."""
    if api in ("nl.matmul", "nisa.nc_matmul"):
        return Buffer.PSUM
    if api in ("nl.transpose", "nisa.nc_transpose", "nl.shared_constant"):
        return None
    return Buffer.SBUF


def whole_view(tensor: Tensor) -> View:
    """All of a tensor."""
    if tensor.shape is None:
        return View(tensor, None, None)
    return View(tensor, tuple(Dim(Affine(), size) for size in tensor.shape), tensor.shape)


def _shape_of(arguments: list[Value]) -> tuple[int | None, ...] | None:
    values = arguments
    if len(arguments) == 1 and isinstance(arguments[0], Items):
        values = list(arguments[0].items)
    if not values:
        return None
    return tuple(integer(v) for v in values)


def _affine_arithmetic(op: ast.operator, left: Affine, right: Affine) -> Affine | None:
    if isinstance(op, ast.Add):
        return left.plus(right)
    if isinstance(op, ast.Sub):
        return left.minus(right)
    if isinstance(op, ast.Mult):
        if right.value is not None:
            return left.times(right.value)
        return right.times(left.value) if left.value is not None else None
    if isinstance(op, ast.FloorDiv) and right.value is not None:
        return left.floor_divided(right.value)
    if isinstance(op, ast.Mod) and right.value and left.value is not None:
        return Affine(left.value % right.value)
    return None


def _float_arithmetic(op: ast.operator, a: float, b: float) -> Value:
    try:
        if isinstance(op, ast.Div):
            return Literal(a / b)
        if isinstance(op, ast.Pow):
            power = a**b
            return Affine(power) if isinstance(power, int) else Literal(power)
        table = {ast.Add: a + b, ast.Sub: a - b, ast.Mult: a * b}
    except (ZeroDivisionError, OverflowError, ValueError):
        return None
    result = table.get(type(op))
    return None if result is None else Literal(float(result))


def _python_call(api: str, arguments: list[Value]) -> Value:
    numbers = [number(a) for a in arguments]
    if not numbers or any(n is None for n in numbers):
        return None
    try:
        result = _PYTHON[api](*numbers)
    except (TypeError, ValueError, OverflowError):
        return None
    return Affine(result) if isinstance(result, int) else Literal(float(result))


def _lowered_result(
    dialect: Dialect, api: str, bound: Mapping[str, Any], target: Target
) -> OperandType | None:
    """Descriptor of the tile that a call returns, by the instruction table."""
    values: dict[str, Any] = {}
    for name, value in bound.items():
        plain = _plain(value)
        if plain is _UNKNOWN:
            return None
        values[name] = plain
    try:
        return lower(dialect, api, values, target).result
    except (LoweringError, TypeError, ValueError, KeyError, AttributeError):
        return None


_UNKNOWN = object()


def _plain(value: Any) -> Any:
    """A value in the form that lowering takes."""
    if isinstance(value, View):
        operand = value.operand
        return _UNKNOWN if operand is None else operand
    if isinstance(value, Affine):
        found = value.value
        return _UNKNOWN if found is None else found
    if isinstance(value, Literal):
        return value.value
    if isinstance(value, ApiRef):
        return value.name.rpartition(".")[2].removesuffix("_engine")
    if isinstance(value, Items):
        items = tuple(_plain(i) for i in value.items)
        return _UNKNOWN if any(i is _UNKNOWN for i in items) else items
    if isinstance(value, Grid | ParDim | Range | TileList | Dim):
        return _UNKNOWN
    return value
