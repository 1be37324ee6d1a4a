"""``nl.fori_loop``, ``nl.while_loop`` and ``while register:``: loops that the hardware runs.

Their bodies are functions. Where the bounds follow from the text, a body is visited like that of
any loop; where a register holds what only the device knows, it is visited once and counts nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from accelopt_lsp.analysis.affine import Affine, add, scale
from accelopt_lsp.analysis.calls import call_function
from accelopt_lsp.analysis.loops import Loop, uncounted
from accelopt_lsp.analysis.machine import Machine
from accelopt_lsp.analysis.registers import Register
from accelopt_lsp.analysis.values import Function, Iteration, Range, Unknown, Value
from accelopt_lsp.analysis.while_loops import MAX_WHILE


def hardware_loop(m: Machine, node: ast.AST, name: str, bound: Mapping[str, Any]) -> None:
    """A call of ``nl.fori_loop`` or ``nl.while_loop``."""
    body = bound["body_fun"]
    if not isinstance(body, Function):
        reason = body.reason if isinstance(body, Unknown) else "its body is no function"
        m.unknown(f"{name} is not counted: {reason}")
    elif name == "nl.fori_loop":
        _fori_loop(m, node, body, bound)
    else:
        _while_loop(m, node, body, bound["init"])


def _fori_loop(m: Machine, node: ast.AST, body: Function, bound: Mapping[str, Any]) -> None:
    place, target = _as_for(m, node, body)
    over = span(bound["lower"], bound["upper"], bound.get("step", 1))
    if isinstance(over, Unknown):
        m.unknown(f"nl.fori_loop is not counted: {over.reason}")
        trips = f"{_text(node, 1, 'upper')} - {_text(node, 0, 'lower')}"
        uncounted(m, place, trips.removesuffix(" - 0"), _once(m, body, over))
        return
    start, step = over.start, over.step

    def visit() -> None:
        call_function(m, body, [Register(m.scope.find(target), tuple(m.loops))], {})

    items = Iteration(over.length(), lambda i: add(start, scale(i, step)))
    Loop(m, place, place.target, items, visit, name=_parameter(body)).run()


def _while_loop(m: Machine, node: ast.AST, body: Function, init: Value) -> None:
    condition = init
    for _ in range(MAX_WHILE):
        if not isinstance(condition, Register):
            reason = condition.reason if isinstance(condition, Unknown) else "it has no register"
            m.unknown(f"nl.while_loop is not counted: {reason}")
            return
        number = condition.number()
        if isinstance(number, Unknown):
            m.unknown(f"nl.while_loop is not counted: {number.reason}")
            place, _ = _as_for(m, node, body)
            uncounted(m, place, "?", _once(m, body, number))
            return
        if isinstance(number, Affine):
            m.alone(condition.loops)
        if number == 0:
            return
        condition = call_function(m, body, [Register(number, tuple(m.loops))], {})
    m.unknown("this loop does not seem to end")


def _once(m: Machine, body: Function, reason: Unknown) -> Callable[[], object]:
    unknown = Register(Unknown(reason.reason, number=True), tuple(m.loops))
    return lambda: call_function(m, body, [unknown], {})


def span(start: Value, stop: Value, step: Value) -> Range | Unknown:
    """The numbers that a hardware loop runs through, bounds being integers or registers."""
    found: list[Any] = []
    for value in (start, stop):
        number = value.number() if isinstance(value, Register) else value
        if isinstance(number, Unknown):
            return number
        if isinstance(number, bool) or not isinstance(number, int | Affine):
            return Unknown("its bounds are no integers")
        found.append(number)
    if isinstance(step, Unknown):
        return step
    if isinstance(step, bool) or not isinstance(step, int) or step < 1:
        return Unknown("its step is no positive integer")
    return Range(found[0], found[1], step)


def _as_for(m: Machine, node: ast.AST, body: Function) -> tuple[ast.For, str]:
    """The loop as a statement that the loop machinery takes, and its variable's name.

    The variable is called as no name of the kernel can be: the body's parameter is another one in
    every visit.
    """
    name = f"{_parameter(body)} of {getattr(body.node, 'lineno', 0)}"
    target = ast.Name(name, ast.Store())
    line: int = getattr(node, "lineno", m.line)
    end: int = getattr(node, "end_lineno", None) or line
    own = body.node.body
    statements: list[ast.stmt] = own if isinstance(own, list) else [ast.Expr(own)]
    place = ast.For(
        target, ast.Constant(0), statements, [], lineno=line, end_lineno=end, col_offset=0
    )
    return place, name


def _parameter(body: Function) -> str:
    given = body.node.args
    names = [a.arg for a in (*given.posonlyargs, *given.args)]
    return names[0] if names else "_"


def _text(node: ast.AST, position: int, name: str) -> str:
    if isinstance(node, ast.Call):
        if position < len(node.args):
            return ast.unparse(node.args[position])
        for keyword in node.keywords:
            if keyword.arg == name:
                return ast.unparse(keyword.value)
    return "?"
