"""Argument shapes read from annotations, asserts, unpackings, call sites and references."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from accelopt_lsp.analysis.affine import NeedSplit, Undecided
from accelopt_lsp.analysis.callers import Caller, callers_elsewhere, calls_in
from accelopt_lsp.analysis.kernels import KernelSource, Parameter, call_sites
from accelopt_lsp.analysis.machine import KernelRaises, Machine, OutOfSteps
from accelopt_lsp.analysis.references import as_dtype
from accelopt_lsp.analysis.runner import evaluate, new_machine
from accelopt_lsp.analysis.shape_facts import shape_facts
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.tree import function_node, module_of
from accelopt_lsp.analysis.values import Function, HostArray, ListValue, Ref, Value
from accelopt_lsp.analysis.workspace import Workspace
from accelopt_lsp.nki.arguments import ArgumentSpec, LiteralSpec, NameSpec, TensorSpec
from accelopt_lsp.nki.dtypes import FLOAT32, DType
from accelopt_lsp.nki.files import file_size
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
        if file_size(reference) > MAX_REFERENCE_BYTES:
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


def inferred(
    document: Document,
    kernel: KernelSource,
    *,
    path: Path | None = None,
    workspace: Workspace | None = None,
) -> Found:
    """(origin, SPECs) from asserts and unpackings, then from call sites."""
    node = function_node(document, kernel)
    if node is not None:
        facts = shape_facts(document, kernel, node, (p.name for p in _parameters(kernel)))
        specs = facts.specs()
        typed = {name: spec for name, spec in specs.items() if name in facts.types}
        if typed:
            yield "assert", typed
        assumed = {name: spec for name, spec in specs.items() if name not in typed}
        if assumed:
            yield f"assert ({ASSUMED})", assumed
    yield from _from_call_sites(document, kernel, path, workspace)


def _from_call_sites(
    document: Document, kernel: KernelSource, path: Path | None, workspace: Workspace | None
) -> Found:
    """Arguments of calls whose arrays are made in plain sight: in the same file, then in others."""
    own = calls_in(document, frozenset({kernel.name}))
    yield from _from_callers(own, kernel, workspace)
    if path is not None and workspace is not None:
        others = callers_elsewhere(workspace, path, kernel.name)
        yield from _from_callers(others, kernel, workspace)


def _from_callers(
    callers: Iterable[Caller], kernel: KernelSource, workspace: Workspace | None
) -> Found:
    names = [p.name for p in _parameters(kernel)]
    for caller in callers:
        machine = new_machine(caller.document, path=caller.path, workspace=workspace)
        for statement in _before(caller.document, caller.node):
            try:
                machine.run([statement])
            except (NeedSplit, Undecided, OutOfSteps, KernelRaises, RecursionError):
                continue
        specs: dict[str, ArgumentSpec] = {}
        for name, argument in zip(names, caller.args, strict=False):
            _add_argument(machine, specs, name, argument)
        for keyword in caller.keywords:
            if keyword.arg is not None:
                _add_argument(machine, specs, keyword.arg, keyword.value)
        if specs:
            file = "" if caller.path is None else f" of {caller.path.name}"
            yield f"call on line {caller.node.lineno}{file}", specs


def _add_argument(
    machine: Machine, specs: dict[str, ArgumentSpec], name: str, argument: ast.expr
) -> None:
    spec = tensor_annotation(machine, argument) or spec_of(evaluate(machine, argument))
    if spec is not None:
        specs[name] = spec


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
