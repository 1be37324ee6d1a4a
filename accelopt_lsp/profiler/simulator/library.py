"""Functions of ``nki.isa`` and ``nki.language`` that issue instructions, made from the table."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from accelopt_lsp.nki.apis import APIS
from accelopt_lsp.nki.dialects import Dialect, Role
from accelopt_lsp.nki.instructions import (
    ACTIVATION_FUNCTIONS,
    BINARY_OPERATORS,
    REDUCTION_OPERATORS,
    UNARY_OPERATORS,
)
from accelopt_lsp.profiler.simulator import state as sessions
from accelopt_lsp.profiler.simulator.errors import KernelRejected
from accelopt_lsp.profiler.simulator.plans import Entry

OPERATOR_NAMES: dict[Any, str] = {}
"""Functions that stand for an operator (``nl.add``) to its name."""


@cache
def entry_of(name: str, dialect: Dialect) -> Entry:
    """The table's function of that name in a dialect; the other one's if only that has it."""
    api = APIS[name]
    if api.signature(dialect) is None:
        other = Dialect.CURRENT if dialect is Dialect.LEGACY else Dialect.LEGACY
        return Entry(api, other)
    return Entry(api, dialect)


def api_function(entry: Entry) -> Callable[..., Any]:
    """A function that users call: it finds the running kernel and issues the call there."""
    getframe = sys._getframe
    binder, count = entry.binder, entry.count

    def function(*args: Any, **kwargs: Any) -> Any:
        session = sessions._current
        if session is None:
            raise KernelRejected(
                f"{entry.name} was called outside a kernel; call it in a function decorated "
                "with nki.jit",
                "R022",
            )
        if session.pending is not None:
            session.flush()
        try:
            bound = binder(*args, **kwargs)
        except TypeError:
            bound = entry.bind(args, kwargs)
        if len(bound) > count:
            bound = entry.bind(args, kwargs)
        return session.invoke(entry, bound, getframe(1))

    short = entry.name.rpartition(".")[2]
    function.__name__ = function.__qualname__ = short
    function.__doc__ = entry.api.summary
    return function


def api_functions(prefix: str, dialect: Dialect) -> dict[str, Callable[..., Any]]:
    """All functions of ``nl`` or ``nisa`` in a dialect that issue instructions."""
    found: dict[str, Callable[..., Any]] = {}
    for api in APIS.values():
        module, _, short = api.name.partition(".")
        if module != prefix or api.signature(dialect) is None:
            continue
        if api.role not in (Role.INSTRUCTION, Role.COMPUTE) or api.name == "nl.loop_reduce":
            continue
        function = api_function(entry_of(api.name, dialect))
        found[short] = function
        if prefix == "nl":
            OPERATOR_NAMES[function] = short
    return found


def operator_functions(known: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    """Operators that exist only as the ``op`` of an instruction (``nl.bitwise_and``)."""
    names = ACTIVATION_FUNCTIONS | BINARY_OPERATORS | UNARY_OPERATORS | REDUCTION_OPERATORS
    names |= {"average", "bypass"}
    found = {}
    for name in sorted(names - known.keys()):
        function = _operator_only(name)
        OPERATOR_NAMES[function] = name
        found[name] = function
    return found


def _operator_only(name: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise KernelRejected(
            f"accelopt's simulator knows nl.{name} as an operator of nisa instructions only"
        )

    function.__name__ = function.__qualname__ = name
    return function


for _name in (
    "add subtract multiply maximum minimum divide power equal not_equal greater greater_equal "
    "less less_equal logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor "
    "left_shift right_shift invert logical_not exp log sqrt tanh sin arctan sign square abs "
    "reciprocal max min sum prod"
).split():
    OPERATOR_NAMES.setdefault(getattr(np, _name), _name)
