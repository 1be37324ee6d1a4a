"""Repairs of Python's own forms, names and decorators."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelopt_lsp.rewrites.base import NotApplicable
from accelopt_lsp.rewrites.repairs import Place, mends
from accelopt_lsp.rewrites.source import Edit

_TILE_SIZES = {"total_available_sbuf_size": "sbuf_fmax_bytes", "psum_fmax": "psum_bank_fmax"}


@mends("wrap-simulate", "Use nki.simulate")
def wrap_simulate(place: Place) -> Iterator[Edit]:
    call, source = place.call("nki.simulate_kernel"), place.source
    if not call.args:
        raise NotApplicable("nki.simulate_kernel without a kernel")
    prefix = source.of(call.func).rpartition(".")[0]
    head = f"{prefix}.simulate({source.of(call.args[0])})("
    start, end = source.span(call)
    rest = [source.span(n)[0] for n in (*call.args[1:], *call.keywords)]
    yield Edit(start, min(rest), head) if rest else Edit(start, end, f"{head})")


@mends("plain-jit", "Use nki.jit")
def plain_jit(place: Place) -> Iterator[Edit]:
    """``@nki.benchmark(...)`` as ``@nki.jit``."""
    for node in place.nodes:
        parent = place.parents.get(id(node))
        if isinstance(parent, ast.FunctionDef) and node in parent.decorator_list:
            func = node.func if isinstance(node, ast.Call) else node
            prefix = place.source.of(func).rpartition(".")[0]
            if not prefix:
                raise NotApplicable("import nki first")
            yield place.source.replace(node, f"{prefix}.jit")
            return
    raise NotApplicable("call the kernel, and measure it with neuron-explorer")


@mends("plain-decorator", "Remove the argument")
def plain_decorator(place: Place) -> Iterator[Edit]:
    """``@nki.jit(platform_target=..., mode=...)`` without these."""
    call = place.call("nki.jit")
    kept = [k for k in call.keywords if k.arg not in ("platform_target", "mode")]
    if len(kept) == len(call.keywords):
        raise NotApplicable("the decorator has neither argument")
    source = place.source
    arguments = ", ".join(source.one_line(a) for a in (*call.args, *kept))
    func = source.of(call.func)
    yield source.replace(call, f"{func}({arguments})" if arguments else func)


@mends("name-meta-tensor", "Use nki.meta.tensor")
def name_meta_tensor(place: Place) -> Iterator[Edit]:
    for node in place.nodes:
        if isinstance(node, ast.Attribute) and place.name(node) == "nki.tensor":
            head = place.source.of(node.value)
            yield place.source.replace(node, f"{head}.meta.tensor")
            return
    raise NotApplicable("no nki.tensor at this place")


@mends("name-tile-size", "Use the present name")
def name_tile_size(place: Place) -> Iterator[Edit]:
    for node in place.nodes:
        if isinstance(node, ast.Attribute) and node.attr in _TILE_SIZES:
            head = place.source.of(node.value)
            yield place.source.replace(node, f"{head}.{_TILE_SIZES[node.attr]}")
            return
    raise NotApplicable("no such size at this place")


@mends("plain-python", "Use the form that NKI compiles")
def plain_python(place: Place) -> Iterator[Edit]:
    """Identity as equality, lists as tuples, keyword-only parameters as others."""
    source = place.source
    for node in place.nodes:
        if isinstance(node, ast.Compare):
            left = node.left
            for op, right in zip(node.ops, node.comparators, strict=True):
                if isinstance(op, ast.Is | ast.IsNot):
                    sign = "==" if isinstance(op, ast.Is) else "!="
                    yield Edit(source.span(left)[1], source.span(right)[0], f" {sign} ")
                left = right
            return
        if isinstance(node, ast.List):
            items = ", ".join(source.one_line(e) for e in node.elts)
            comma = "," if len(node.elts) == 1 else ""
            yield source.replace(node, f"({items}{comma})")
            return
        if isinstance(node, ast.arg):
            yield _without_star(place, node)
            return
    raise NotApplicable("the text has changed at this place")


def _without_star(place: Place, argument: ast.arg) -> Edit:
    arguments = place.parents.get(id(argument))
    if not isinstance(arguments, ast.arguments) or argument not in arguments.kwonlyargs:
        raise NotApplicable("no keyword-only parameter at this place")
    if any(d is None for d in arguments.kw_defaults) and arguments.defaults:
        raise NotApplicable("move the parameters without defaults to the front first")
    seen_default = bool(arguments.defaults)
    for default in arguments.kw_defaults:
        if default is None and seen_default:
            raise NotApplicable("move the parameters without defaults to the front first")
        seen_default = seen_default or default is not None
    source = place.source
    end = source.span(argument)[0]
    star = source.text.rindex("*", 0, end)
    return Edit(star, end, "")


@mends("loop-body-function", "Make the body a function")
def loop_body_function(place: Place) -> Iterator[Edit]:
    """``for i in nl.dynamic_range(...)`` and ``while register:`` as functions of the device."""
    statement = place.statement()
    if not isinstance(statement, ast.For | ast.While) or statement.orelse:
        raise NotApplicable("no loop of the device at this place")
    for node in ast.walk(statement):
        if isinstance(node, ast.Return | ast.Break | ast.Continue | ast.Yield):
            raise NotApplicable(f"line {node.lineno}: the body of such a loop cannot leave it")
    _check_names(place, statement)
    source, nl = place.source, place.module("nl")
    indent, newline = source.indent_of(statement), source.newline
    unit = source.indent_unit(place.context.tree)
    name = place.fresh("body")
    first, last = statement.body[0].lineno, statement.end_lineno or statement.lineno
    body = source.extract(first, last)
    if not body.endswith("\n"):
        body += newline
    if isinstance(statement, ast.For):
        if not isinstance(statement.target, ast.Name) or not isinstance(statement.iter, ast.Call):
            raise NotApplicable("a loop with several variables")
        bounds = [source.one_line(a) for a in statement.iter.args]
        if statement.iter.keywords or not bounds:
            raise NotApplicable("bounds that are given by name")
        low, high = ("0", bounds[0]) if len(bounds) == 1 else (bounds[0], bounds[1])
        tail = f", {bounds[2]}" if len(bounds) == 3 else ""
        head = f"{indent}def {name}({statement.target.id}):{newline}"
        launch = f"{indent}{nl}.fori_loop({low}, {high}, {name}{tail}){newline}"
    else:
        if not isinstance(statement.test, ast.Name):
            raise NotApplicable("a condition that is no register")
        register = statement.test.id
        head = f"{indent}def {name}({register}):{newline}"
        body += f"{indent}{unit}return {register}{newline}"
        launch = f"{indent}{nl}.while_loop({register}, {name}){newline}"
    start, end = source.line_range(statement.lineno, last)
    yield Edit(start, end, f"{head}{body}{newline}{launch}")


def _check_names(place: Place, loop: ast.For | ast.While) -> None:
    """Names that the body binds stay in the function.

    Raises:
        NotApplicable: one of them is used outside.
    """
    inside = {id(n) for n in ast.walk(loop)}
    bound = {
        n.id
        for statement in loop.body
        for n in ast.walk(statement)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    function: ast.AST | None = loop
    while function is not None and not isinstance(function, ast.FunctionDef):
        function = place.parents.get(id(function))
    for node in ast.walk(function or place.context.tree):
        if isinstance(node, ast.Name) and node.id in bound and id(node) not in inside:
            raise NotApplicable(
                f"{node.id} is made in the loop and used outside; declare it before"
            )
