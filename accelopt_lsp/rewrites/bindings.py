"""What names stand for before a kernel's first statement: module constants and parameters."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from accelopt_lsp.nki.arguments import ListSpec, LiteralSpec, NameSpec, TensorSpec, TupleSpec
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.rewrites.affine import Affine
from accelopt_lsp.rewrites.base import RewriteContext
from accelopt_lsp.rewrites.evaluate import Evaluator, whole_view
from accelopt_lsp.rewrites.values import ApiRef, Items, Literal, Tensor, TileList, Value, View


def module_constants(tree: ast.Module) -> Iterator[tuple[ast.Name, ast.expr]]:
    """Module-level assignments, pairs of a tuple assignment one by one."""
    for node in tree.body:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target = node.targets[0]
        if isinstance(target, ast.Name):
            yield target, node.value
        elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            for name, value in zip(target.elts, node.value.elts, strict=False):
                if isinstance(name, ast.Name):
                    yield name, value


def bind_module_constants(context: RewriteContext, evaluator: Evaluator) -> None:
    for target, node in module_constants(context.tree):
        found = evaluator.value(node)
        if found is not None and not isinstance(found, ApiRef | View | TileList):
            evaluator.env[target.id] = found


def bind_parameters(context: RewriteContext, evaluator: Evaluator) -> None:
    arguments = context.function.args
    listed = [*arguments.posonlyargs, *arguments.args]
    defaults: dict[str, ast.expr] = dict(
        zip(
            [a.arg for a in listed[len(listed) - len(arguments.defaults) :]],
            arguments.defaults,
            strict=True,
        )
    )
    for keyword, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is not None:
            defaults[keyword.arg] = default
    for parameter in (*listed, *arguments.kwonlyargs):
        spec = context.arguments.values.get(parameter.arg)
        value = _parameter_value(parameter.arg, spec)
        if value is None and parameter.arg in defaults:
            value = evaluator.value(defaults[parameter.arg])
        if value is None and spec is None:
            value = whole_view(Tensor(parameter.arg, None, None, Buffer.HBM))
        evaluator.env[parameter.arg] = value


def _parameter_value(name: str, spec: Any) -> Value:
    if isinstance(spec, TensorSpec):
        return whole_view(Tensor(name, spec.shape, spec.dtype, Buffer.HBM))
    if isinstance(spec, LiteralSpec):
        if isinstance(spec.value, int) and not isinstance(spec.value, bool):
            return Affine(spec.value)
        return Literal(spec.value)
    if isinstance(spec, NameSpec):
        return ApiRef(spec.name)
    if isinstance(spec, TupleSpec | ListSpec):
        return Items(tuple(_parameter_value(f"{name}[{i}]", s) for i, s in enumerate(spec.items)))
    return None
