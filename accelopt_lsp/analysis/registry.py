"""How nodes are evaluated and executed, and values asked for attributes: filled by the modules
that do it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from accelopt_lsp.analysis.values import Value

if TYPE_CHECKING:
    from accelopt_lsp.analysis.machine import Machine

Signal = tuple[str, Any]
RETURN, BREAK, CONTINUE = "return", "break", "continue"

Evaluator = Callable[["Machine", Any], Value]
Executor = Callable[["Machine", Any], Any]
EVALUATORS: dict[type[ast.AST], Evaluator] = {}
EXECUTORS: dict[type[ast.AST], Executor] = {}
ATTRIBUTES: dict[type, Callable[[Machine, Any, str], Value]] = {}


def evaluates(*kinds: type[ast.AST]) -> Callable[[Evaluator], Evaluator]:
    """Register how expressions of these kinds are evaluated."""

    def register(handler: Evaluator) -> Evaluator:
        for kind in kinds:
            EVALUATORS[kind] = handler
        return handler

    return register


Attribute = Callable[["Machine", Any, str], Value]


def attributes(*kinds: type) -> Callable[[Attribute], Attribute]:
    """Register what ``value.name`` is for values of these kinds."""

    def register(handler: Attribute) -> Attribute:
        for kind in kinds:
            ATTRIBUTES[kind] = handler
        return handler

    return register


def executes(*kinds: type[ast.AST]) -> Callable[[Executor], Executor]:
    """Register how statements of these kinds are executed."""

    def register(handler: Executor) -> Executor:
        for kind in kinds:
            EXECUTORS[kind] = handler
        return handler

    return register
