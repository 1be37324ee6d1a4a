"""What a kernel's own text says about its arguments: asserts and unpackings."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from attrs import define, field

from accelopt_lsp.analysis.affine import NeedSplit, Undecided
from accelopt_lsp.analysis.kernels import KernelSource
from accelopt_lsp.analysis.machine import KernelRaises, Machine
from accelopt_lsp.analysis.references import as_dtype
from accelopt_lsp.analysis.runner import evaluate, new_machine
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.values import ListValue, Value
from accelopt_lsp.nki.arguments import ArgumentSpec, TensorSpec
from accelopt_lsp.nki.dtypes import FLOAT32, DType

Place = tuple[str, int]
"""Parameter and axis."""
Shape = tuple[int, ...]


@define(slots=True)
class ShapeFacts:
    """Sizes and types of a kernel's parameters, as far as its text fixes them.

    Attributes:
        whole: complete shapes.
        sizes: sizes by parameter and axis.
        ranks: numbers of dimensions.
        names: variables that hold the size of an axis.
        ties: axes that have the same size.
        equal: parameters that have the same shape.
        types: data types.
        alike: parameters that have the same data type.
    """

    whole: dict[str, Shape] = field(factory=dict)
    sizes: dict[str, dict[int, int]] = field(factory=dict)
    ranks: dict[str, int] = field(factory=dict)
    names: dict[str, list[Place]] = field(factory=dict)
    ties: list[list[Place]] = field(factory=list)
    equal: list[set[str]] = field(factory=list)
    types: dict[str, DType] = field(factory=dict)
    alike: list[set[str]] = field(factory=list)

    def specs(self) -> dict[str, ArgumentSpec]:
        """A tensor for each parameter whose shape is fixed; float32 where no type is."""
        for group in self.alike:
            known = next((self.types[n] for n in group if n in self.types), None)
            for name in group if known is not None else ():
                self.types.setdefault(name, known or FLOAT32)
        before = -1
        while before != (before := len(self.whole) + sum(map(len, self.sizes.values()))):
            self._spread()
        return {
            name: TensorSpec(shape, self.types.get(name, FLOAT32))
            for name, shape in self.whole.items()
            if shape and all(n > 0 for n in shape)
        }

    def _spread(self) -> None:
        """Carry sizes over to what must have the same."""
        for name, shape in self.whole.items():
            for axis, size in enumerate(shape):
                self.sizes.setdefault(name, {}).setdefault(axis, size)
        for places in self.ties:
            found = (self.sizes.get(name, {}).get(axis) for name, axis in places)
            common = next((size for size in found if size is not None), None)
            if common is not None:
                for name, axis in places:
                    self.sizes.setdefault(name, {}).setdefault(axis, common)
        for group in self.equal:
            shape = next((self.whole[n] for n in group if n in self.whole), ())
            for name in group if shape else ():
                self.whole.setdefault(name, shape)
        for name, rank in self.ranks.items():
            known = self.sizes.get(name, {})
            if all(axis in known for axis in range(rank)):
                self.whole.setdefault(name, tuple(known[axis] for axis in range(rank)))


def shape_facts(
    document: Document,
    kernel: KernelSource,
    node: ast.FunctionDef | ast.AsyncFunctionDef,
    parameters: Iterable[str],
) -> ShapeFacts:
    """Read the first level of statements of a kernel."""
    machine = new_machine(document, dialect=kernel.dialect, aliases=kernel.aliases)
    given = set(parameters)
    facts = ShapeFacts()
    for statement in node.body:
        if isinstance(statement, ast.Assign):
            _unpacking(statement, given, facts)
            _constant(machine, statement)
        elif isinstance(statement, ast.Assert):
            _assertion(machine, statement.test, given, facts)
        elif _checks(statement):
            assert isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
            _assertion(machine, statement.value.args[0], given, facts)
    for name, places in facts.names.items():
        value = machine.scope.names.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            for parameter, axis in places:
                facts.sizes.setdefault(parameter, {}).setdefault(axis, value)
    return facts


def _checks(statement: ast.stmt) -> bool:
    """``kernel_assert(condition, message)``: a function of that kind of name."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    callee = statement.value.func
    name = callee.attr if isinstance(callee, ast.Attribute) else getattr(callee, "id", "")
    return name.rpartition("_")[2] == "assert" and bool(statement.value.args)


def _constant(machine: Machine, statement: ast.Assign) -> None:
    """``M, N = 4096, 1024`` and the like, so that asserts can refer to them."""
    from accelopt_lsp.analysis.statements import bind

    value = evaluate(machine, statement.value)
    items = value if isinstance(value, tuple) else (value,)
    if all(isinstance(v, int) for v in items):
        for target in statement.targets:
            try:
                bind(machine, target, value)
            except (NeedSplit, Undecided, KernelRaises):
                continue


def _owner(node: ast.expr, attribute: str, parameters: set[str]) -> str | None:
    """``x`` for ``x.shape`` (also inside ``tuple(...)``), if x is a parameter."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
        if node.func.id in ("tuple", "list"):
            node = node.args[0]
    if isinstance(node, ast.Attribute) and node.attr == attribute:
        if isinstance(node.value, ast.Name) and node.value.id in parameters:
            return node.value.id
    return None


def _ranked(node: ast.expr, parameters: set[str]) -> str | None:
    """``x`` for ``x.ndim`` and ``len(x.shape)``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        return _owner(node.args[0], "shape", parameters) if len(node.args) == 1 else None
    return _owner(node, "ndim", parameters)


def _unpacking(statement: ast.Assign, parameters: set[str], facts: ShapeFacts) -> None:
    """``m, n = x.shape`` and ``m = x.shape[0]``."""
    if len(statement.targets) != 1:
        return
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Name):
        for place in _sized(value, parameters, facts):
            facts.names.setdefault(target.id, []).append(place)
        return
    owner = _owner(value, "shape", parameters)
    if owner is None or not isinstance(target, ast.Tuple):
        return
    if all(isinstance(e, ast.Name) for e in target.elts):
        facts.ranks[owner] = len(target.elts)
        for axis, element in enumerate(target.elts):
            assert isinstance(element, ast.Name)
            facts.names.setdefault(element.id, []).append((owner, axis))


def _sized(node: ast.expr, parameters: set[str], facts: ShapeFacts) -> list[Place]:
    """Axes whose size an expression is: ``x.shape[1]``, or a variable that holds one."""
    if isinstance(node, ast.Name):
        return facts.names.get(node.id, [])
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        owner, axis = _owner(node.value, "shape", parameters), node.slice.value
        if owner is not None and isinstance(axis, int):
            return [(owner, axis)]
    return []


def _assertion(machine: Machine, test: ast.expr, parameters: set[str], facts: ShapeFacts) -> None:
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        for part in test.values:
            _assertion(machine, part, parameters, facts)
        return
    if not isinstance(test, ast.Compare):
        return
    sides = [test.left, *test.comparators]
    owners = [_owner(side, "dtype", parameters) for side in sides]
    if any(owners):
        _typed(machine, test, owners, facts)
        return
    if not all(isinstance(op, ast.Eq) for op in test.ops):
        return
    shapes = {o for s in sides if (o := _owner(s, "shape", parameters)) is not None}
    if len(shapes) > 1:
        facts.equal.append(shapes)
    places = [place for side in sides for place in _sized(side, parameters, facts)]
    if len(places) > 1:
        facts.ties.append(places)
    found = (evaluate(machine, side) for side in sides)
    value = next((v for v in found if isinstance(v, int | tuple | ListValue)), None)
    if value is None or isinstance(value, bool):
        return
    items: Value = tuple(value.items) if isinstance(value, ListValue) else value
    if isinstance(items, tuple):
        for owner in shapes if all(isinstance(n, int) for n in items) else ():
            facts.whole.setdefault(owner, items)
        return
    for parameter, axis in places:
        facts.sizes.setdefault(parameter, {})[axis] = items
    for side in sides:
        ranked = _ranked(side, parameters)
        if ranked is not None:
            facts.ranks.setdefault(ranked, items)


def _typed(
    machine: Machine, test: ast.Compare, owners: list[str | None], facts: ShapeFacts
) -> None:
    """``x.dtype == nl.bfloat16``, ``x.dtype == y.dtype``, ``x.dtype in (nl.bfloat16, ...)``."""
    named = {owner for owner in owners if owner is not None}
    sides = [test.left, *test.comparators]
    if all(isinstance(op, ast.Eq | ast.Is) for op in test.ops):
        if len(named) > 1:
            facts.alike.append(named)
        others = [s for s, owner in zip(sides, owners, strict=True) if owner is None]
        kinds = [as_dtype(evaluate(machine, side)) for side in others]
    elif len(test.ops) == 1 and isinstance(test.ops[0], ast.In):
        value = evaluate(machine, sides[1])
        items = value.items if isinstance(value, ListValue) else value
        kinds = [as_dtype(v) for v in items] if isinstance(items, tuple | list) else []
    else:
        return
    kind = next((k for k in kinds if k is not None), None)
    for name in named if kind is not None else ():
        facts.types.setdefault(name, kind or FLOAT32)
