"""Argument shapes read from annotations, asserts, unpackings, call sites and references."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import define, field

from accelopt_lsp.analysis.affine import NeedSplit, Undecided
from accelopt_lsp.analysis.kernels import KernelSource, Parameter, call_sites
from accelopt_lsp.analysis.machine import KernelRaises, Machine, OutOfSteps
from accelopt_lsp.analysis.references import as_dtype
from accelopt_lsp.analysis.runner import evaluate, new_machine
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.tree import call_nodes, function_node, module_of
from accelopt_lsp.analysis.values import Function, HostArray, ListValue, Ref, Value
from accelopt_lsp.nki.arguments import ArgumentSpec, LiteralSpec, NameSpec, TensorSpec
from accelopt_lsp.nki.dtypes import FLOAT32, DType
from accelopt_lsp.nki.python_source import parse_expression

MAX_REFERENCE_BYTES = 200_000
ASSUMED = "float32 assumed"
Found = Iterator[tuple[str, Mapping[str, ArgumentSpec]]]


def _parameters(kernel: KernelSource) -> list[Parameter]:
    return [
        p
        for p in kernel.parameters
        if p.kind in ("positional", "keyword") and p.name not in ("self", "cls")
    ]


def spec_of(value: Value) -> ArgumentSpec | None:
    """A value that a caller passes, as a SPEC; None where it is not known."""
    if isinstance(value, HostArray):
        if not value.shape or any(n < 1 for n in value.shape):
            return None
        return TensorSpec(value.shape, value.dtype or FLOAT32)
    if isinstance(value, bool | int | float | str | None):
        return LiteralSpec(value)
    if isinstance(value, DType):
        return NameSpec(f"nl.{value.name}")
    if isinstance(value, Ref) and value.path.partition(".")[0] in ("nl", "nisa", "np"):
        return NameSpec(value.path)
    return None


def annotated(document: Document, kernel: KernelSource) -> Iterator[tuple[str, ArgumentSpec]]:
    """Shapes from ``nt.tensor[128, 512]`` annotations; float32 where they name no type."""
    machine: Machine | None = None
    for parameter in _parameters(kernel):
        text = parameter.annotation
        if text is None or "[" not in text:
            continue
        try:
            node = parse_expression(text.strip("'\""))
        except (SyntaxError, ValueError):
            continue
        machine = machine or new_machine(document, aliases=kernel.aliases)
        spec = tensor_annotation(machine, node)
        if spec is not None:
            yield parameter.name, spec


def tensor_annotation(machine: Machine, node: ast.expr) -> TensorSpec | None:
    """``nt.tensor[128, 512]`` or ``nt.tensor[[128, 512], nl.bfloat16]`` as a SPEC."""
    if not isinstance(node, ast.Subscript):
        return None
    owner = evaluate(machine, node.value)
    if not isinstance(owner, Ref) or owner.last not in ("tensor", "mutable_tensor"):
        return None
    value = evaluate(machine, node.slice)
    dtype = FLOAT32
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], ListValue | tuple):
        dtype = as_dtype(value[1]) or FLOAT32
        value = value[0]
    items = value.items if isinstance(value, ListValue) else value
    shape = items if isinstance(items, tuple | list) else (items,)
    if not shape or not all(isinstance(n, int) and n > 0 for n in shape):
        return None
    return TensorSpec(tuple(shape), dtype)


def referenced(kernel: KernelSource, reference: Path) -> Mapping[str, ArgumentSpec]:
    """What a reference file's ``get_inputs`` makes, as far as its source says so."""
    try:
        if reference.stat().st_size > MAX_REFERENCE_BYTES:
            return {}
        text = reference.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    machine = new_machine(Document.parse(text), path=reference)
    inputs = _call(machine, "get_inputs", [])
    transform = "transform_to_nki_inputs"
    if isinstance(machine.home.lookup(machine, transform), Function):
        inputs = _call(machine, transform, [inputs])
    if isinstance(inputs, dict):
        named = {str(k): spec_of(v) for k, v in inputs.items()}
    else:
        items = inputs.items if isinstance(inputs, ListValue) else inputs
        if not isinstance(items, tuple | list):
            return {}
        names = [p.name for p in _parameters(kernel)]
        named = {n: spec_of(v) for n, v in zip(names, items, strict=False)}
    return {name: spec for name, spec in named.items() if spec is not None}


def _call(machine: Machine, name: str, args: list[Value]) -> Value:
    from accelopt_lsp.analysis.calls import call_function

    function = machine.home.lookup(machine, name)
    if not isinstance(function, Function):
        return None
    try:
        return call_function(machine, function, args, {})
    except (NeedSplit, Undecided, OutOfSteps, KernelRaises, RecursionError):
        return None


@define(slots=True)
class ShapeFacts:
    """What a kernel's own text says about its arguments' shapes."""

    whole: dict[str, tuple[int, ...]] = field(factory=dict)
    sizes: dict[str, dict[int, int]] = field(factory=dict)
    ranks: dict[str, int] = field(factory=dict)
    names: dict[str, list[tuple[str, int]]] = field(factory=dict)
    equal: list[set[str]] = field(factory=list)

    def specs(self) -> dict[str, ArgumentSpec]:
        found: dict[str, ArgumentSpec] = {}
        for name, rank in self.ranks.items():
            known = self.sizes.get(name, {})
            if all(axis in known for axis in range(rank)):
                self.whole.setdefault(name, tuple(known[axis] for axis in range(rank)))
        for group in self.equal:
            known_shape = next((self.whole[n] for n in group if n in self.whole), None)
            for name in group if known_shape is not None else ():
                self.whole.setdefault(name, known_shape or ())
        for name, shape in self.whole.items():
            if shape and all(n > 0 for n in shape):
                found[name] = TensorSpec(shape, FLOAT32)
        return found


def inferred(document: Document, kernel: KernelSource, known: Mapping[str, ArgumentSpec]) -> Found:
    """(origin, SPECs) from asserts and unpackings, then from call sites."""
    node = function_node(document, kernel)
    if node is not None:
        facts = _shape_facts(document, kernel, node)
        specs = facts.specs()
        if specs:
            yield f"assert ({ASSUMED})", specs
    yield from _from_call_sites(document, kernel)


def _shape_facts(
    document: Document, kernel: KernelSource, node: ast.FunctionDef | ast.AsyncFunctionDef
) -> ShapeFacts:
    machine = new_machine(document, dialect=kernel.dialect, aliases=kernel.aliases)
    parameters = {p.name for p in _parameters(kernel)}
    facts = ShapeFacts()
    for statement in node.body:
        if isinstance(statement, ast.Assign):
            _unpacking(statement, parameters, facts)
            _constant(machine, statement)
        elif isinstance(statement, ast.Assert):
            _assertion(machine, statement.test, parameters, facts)
    for name, places in facts.names.items():
        value = machine.scope.names.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            for parameter, axis in places:
                facts.sizes.setdefault(parameter, {}).setdefault(axis, value)
    return facts


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


def _shape_owner(node: ast.expr, parameters: set[str]) -> str | None:
    """``x`` for ``x.shape`` (also inside ``tuple(...)``), if x is a parameter."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
        if node.func.id in ("tuple", "list"):
            node = node.args[0]
    if isinstance(node, ast.Attribute) and node.attr == "shape":
        if isinstance(node.value, ast.Name) and node.value.id in parameters:
            return node.value.id
    return None


def _unpacking(statement: ast.Assign, parameters: set[str], facts: ShapeFacts) -> None:
    owner = _shape_owner(statement.value, parameters)
    if owner is None or len(statement.targets) != 1:
        return
    target = statement.targets[0]
    if isinstance(target, ast.Tuple) and all(isinstance(e, ast.Name) for e in target.elts):
        facts.ranks[owner] = len(target.elts)
        for axis, element in enumerate(target.elts):
            assert isinstance(element, ast.Name)
            facts.names.setdefault(element.id, []).append((owner, axis))


def _assertion(machine: Machine, test: ast.expr, parameters: set[str], facts: ShapeFacts) -> None:
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        for part in test.values:
            _assertion(machine, part, parameters, facts)
        return
    if not isinstance(test, ast.Compare) or not all(isinstance(o, ast.Eq) for o in test.ops):
        return
    sides = [test.left, *test.comparators]
    owners = {o for s in sides if (o := _shape_owner(s, parameters)) is not None}
    if len(owners) > 1:
        facts.equal.append(owners)
    value = next(
        (v for s in sides if isinstance(v := evaluate(machine, s), int | tuple | ListValue)), None
    )
    if value is None or isinstance(value, bool):
        return
    items = value.items if isinstance(value, ListValue) else value
    for side in sides:
        _equal_to(side, items, parameters, facts)


def _equal_to(side: ast.expr, value: Value, parameters: set[str], facts: ShapeFacts) -> None:
    owner = _shape_owner(side, parameters)
    if owner is not None and isinstance(value, tuple | list):
        if all(isinstance(n, int) for n in value):
            facts.whole.setdefault(owner, tuple(value))
        return
    if not isinstance(value, int):
        return
    if isinstance(side, ast.Subscript) and isinstance(side.slice, ast.Constant):
        owner = _shape_owner(side.value, parameters)
        if owner is not None and isinstance(side.slice.value, int):
            facts.sizes.setdefault(owner, {})[side.slice.value] = value
    if isinstance(side, ast.Name):
        for parameter, axis in facts.names.get(side.id, ()):
            facts.sizes.setdefault(parameter, {})[axis] = value


def _from_call_sites(document: Document, kernel: KernelSource) -> Found:
    """Arguments of calls in the same file whose arrays are made in plain sight."""
    names = [p.name for p in _parameters(kernel)]
    for site in call_sites(document, kernel):
        call = _call_node(document, site.line, kernel.name)
        if call is None:
            continue
        machine = new_machine(document, aliases=kernel.aliases)
        for statement in _before(document, call):
            try:
                machine.run([statement])
            except (NeedSplit, Undecided, OutOfSteps, KernelRaises, RecursionError):
                continue
        specs: dict[str, ArgumentSpec] = {}
        for name, argument in zip(names, call.args, strict=False):
            _add_argument(machine, specs, name, argument)
        for keyword in call.keywords:
            if keyword.arg is not None:
                _add_argument(machine, specs, keyword.arg, keyword.value)
        if specs:
            yield f"call on line {site.line}", specs


def _add_argument(
    machine: Machine, specs: dict[str, ArgumentSpec], name: str, argument: ast.expr
) -> None:
    spec = tensor_annotation(machine, argument) or spec_of(evaluate(machine, argument))
    if spec is not None:
        specs[name] = spec


def _call_node(document: Document, line: int, name: str) -> ast.Call | None:
    for node in call_nodes(document, line):
        callee = node.func.value if isinstance(node.func, ast.Subscript) else node.func
        if isinstance(callee, ast.Name) and callee.id == name:
            return node
    return None


def _before(document: Document, call: ast.Call) -> list[ast.stmt]:
    """Plain assignments that come before a call in the function around it."""
    bodies: list[list[ast.stmt]] = [module_of(document).body]
    found: list[ast.stmt] = []
    while bodies:
        body = bodies.pop()
        for statement in body:
            if statement.lineno >= call.lineno:
                break
            last = statement.end_lineno or statement.lineno
            if isinstance(statement, ast.Assign | ast.AnnAssign) and last < call.lineno:
                found.append(statement)
            elif last >= call.lineno:
                for attribute in ("body", "orelse"):
                    bodies.append(getattr(statement, attribute, []))
    return found


def call_site_grid(document: Document, kernel: KernelSource) -> tuple[int, ...]:
    """Launch grid of the first call site that spells it out in integers."""
    for site in call_sites(document, kernel):
        parts: list[str] = []
        for node in site.grid:
            parts.extend(p for p in document.node_text(node).strip("()").split(",") if p.strip())
        try:
            sizes = tuple(int(part) for part in parts)
        except ValueError:
            continue
        if sizes and all(size > 0 for size in sizes):
            return sizes
    return ()
