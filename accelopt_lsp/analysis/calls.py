"""Calls: NKI functions, Python's own, NumPy on the host, functions and classes of the file."""

from __future__ import annotations

import ast
from weakref import WeakKeyDictionary

from accelopt_lsp.analysis.affine import Affine, Undecided
from accelopt_lsp.analysis.builtins import call_builtin, call_math
from accelopt_lsp.analysis.classes import instantiate, method_of
from accelopt_lsp.analysis.creation import create
from accelopt_lsp.analysis.host import call_framework, call_numpy
from accelopt_lsp.analysis.issue import call_api
from accelopt_lsp.analysis.libraries import LIBRARIES, call_library
from accelopt_lsp.analysis.machine import MAX_CALL_DEPTH, Machine, evaluates
from accelopt_lsp.analysis.methods import call_method, language_call
from accelopt_lsp.analysis.placing import placement
from accelopt_lsp.analysis.purity import is_plain, memory_key
from accelopt_lsp.analysis.references import as_dtype
from accelopt_lsp.analysis.registers import allocate, register_call
from accelopt_lsp.analysis.repeated import is_quiet, repeated
from accelopt_lsp.analysis.scope import Scope
from accelopt_lsp.analysis.sequences import items_of
from accelopt_lsp.analysis.values import (
    Bound,
    ClassValue,
    DictValue,
    Function,
    Instance,
    ListValue,
    Method,
    Ref,
    Repeat,
    Unknown,
    Value,
    View,
    find_unknown,
)
from accelopt_lsp.nki.apis import find_api
from accelopt_lsp.nki.dialects import Api, BindError, Role
from accelopt_lsp.nki.dtypes import DType

_CHANGING = frozenset(
    "random.shuffle bisect.insort bisect.insort_left bisect.insort_right heapq.heappush "
    "heapq.heappop heapq.heapify heapq.heappushpop heapq.heapreplace".split()
)
"""Functions of the standard library that change the list which they are given."""
_EARLY = frozenset({"builtins.any", "builtins.all", "builtins.next"})
"""What may end before all items were asked for."""
_LAZY = frozenset({"builtins.map", "builtins.filter", "builtins.iter"})


def is_lazy(m: Machine, node: ast.GeneratorExp | ast.Call) -> bool:
    """Whether Python computes items when they are asked for, which analysis does at once."""
    if isinstance(node, ast.GeneratorExp):
        return True
    return isinstance(node.func, ast.Name) and getattr(m.eval(node.func), "path", "") in _LAZY


def _asks_for_all(m: Machine, node: ast.Call, callee: Value) -> None:
    """``any(f(i) for i in ...)`` must issue nothing: who knows how far it gets.

    Raises:
        Undecided: it does, or it asks for items of an iterator that is kept.
    """
    if not isinstance(callee, Ref) or callee.path not in _EARLY or not node.args:
        return
    given = node.args[0]
    if callee.path == "builtins.next" and not isinstance(given, ast.Call | ast.GeneratorExp):
        raise Undecided("next() of an iterator that is kept")
    if isinstance(given, ast.GeneratorExp):
        start = m.snapshot()
        m.eval(given)
        changed = any(
            isinstance(owner, Instance | DictValue | ClassValue)
            for owner, *_ in m.journal.entries[start[0] :]
        )
        issued = len(m.records), len(m.storages)
        m.restore(start)
        if changed or issued != (len(m.records), len(m.storages)):
            reason = "a generator that does something and may end early"
            m.unknown(reason)
            raise Undecided(reason)


@evaluates(ast.Call)
def _call(m: Machine, node: ast.Call) -> Value:
    callee = m.eval(node.func)
    _asks_for_all(m, node, callee)
    args, kwargs, nodes = _arguments(m, node)
    if m.foreign:
        line = m.foreign_line
        try:
            return call_value(m, node, callee, args, kwargs, {})
        finally:
            m.foreign_line = line
    line, site = m.line, m.site
    m.line, m.site = node.lineno, node
    try:
        return call_value(m, node, callee, args, kwargs, nodes)
    finally:
        m.line, m.site = line, site


def _arguments(
    m: Machine, node: ast.Call
) -> tuple[list[Value], dict[str, Value], dict[str | int, ast.AST]]:
    args: list[Value] = []
    nodes: dict[str | int, ast.AST] = {}
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            value = m.eval(argument.value)
            items = None if isinstance(value, Unknown) else items_of(value)
            if items is None:
                why = value.reason if isinstance(value, Unknown) else "arguments that are not known"
                raise Undecided(why)
            args.extend(items)
        else:
            nodes[len(args)] = argument
            args.append(m.eval(argument))
    kwargs: dict[str, Value] = {}
    for keyword in node.keywords:
        value = m.eval(keyword.value)
        if keyword.arg is not None:
            kwargs[keyword.arg] = value
            nodes[keyword.arg] = keyword.value
        elif isinstance(value, dict):
            kwargs.update({str(k): v for k, v in value.items()})
    return args, kwargs, nodes


def call_value(
    m: Machine,
    node: ast.AST,
    callee: Value,
    args: list[Value],
    kwargs: dict[str, Value],
    nodes: dict[str | int, ast.AST],
) -> Value:
    """Result of calling any value."""
    if isinstance(callee, Ref):
        return _call_name(m, node, callee, args, kwargs, nodes)
    if isinstance(callee, Function):
        return call_function(m, callee, args, kwargs)
    if isinstance(callee, Bound):
        given = {**callee.kwargs, **kwargs}
        return call_value(m, node, callee.function, [*callee.args, *args], given, {})
    if isinstance(callee, Method):
        return call_method(m, node, callee, args, kwargs)
    if isinstance(callee, ClassValue):
        return instantiate(m, callee, args, kwargs)
    if isinstance(callee, Instance):
        method = method_of(m, callee, "__call__")
        if method is not None:
            return call_value(m, node, method, args, kwargs, {})
    if isinstance(callee, DType):
        return args[0] if args else 0
    if isinstance(callee, Unknown):
        if any(isinstance(v, View) for v in (*args, *kwargs.values())):
            m.unknown(f"a call that cannot be followed: {callee.reason}")
        return callee
    return Unknown("a call of something that is no function")


def _call_name(
    m: Machine,
    node: ast.AST,
    callee: Ref,
    args: list[Value],
    kwargs: dict[str, Value],
    nodes: dict[str | int, ast.AST],
) -> Value:
    path = callee.path
    head, _, name = path.partition(".")
    if head == "builtins":
        return call_builtin(m, name, args, kwargs)
    if head == "math":
        return call_math(name, args)
    if head == "np":
        return call_numpy(m, name, args, kwargs)
    for framework in ("torch.", "jax.numpy."):
        if path.startswith(framework):
            return call_framework(m, path.removeprefix(framework), args, kwargs)
    if head in ("nl", "nisa"):
        api = find_api(path)
        if api is None:
            return _unlisted(m, node, path, args, kwargs)
        if api.varies(m.dialect):
            m.find("R104", path, node)
        if api.role is Role.CREATION:
            return create(m, node, api, args, kwargs)
        if path in ("nl.fori_loop", "nl.while_loop"):
            return _hardware_loop(m, node, api, args, kwargs)
        if api.role in (Role.INSTRUCTION, Role.COMPUTE) and path != "nl.loop_reduce":
            result = call_api(m, node, path, args, kwargs, nodes)
            if path == "nisa.register_alloc":
                return allocate(m, args[0] if args else kwargs.get("x"))
            if path in ("nisa.register_move", "nisa.register_load"):
                register_call(m, path, args, kwargs)
            return result
        return language_call(m, node, api, args, kwargs)
    if head == "ncc":
        return placement(m, path, kwargs)
    if path in _CHANGING:
        for value in args:
            if isinstance(value, ListValue):
                m.unknown(f"{path} changes a list")
                m.set_items(value, [Unknown(f"{path} changes a list")])
        return Unknown(f"the result of {path}")
    if head in LIBRARIES:
        return call_library(m, path, args, kwargs)
    if any(_holds_tensor(v) for v in (*args, *kwargs.values())):
        m.unknown(f"{path} is not part of this file")
    return Unknown(f"the result of {path}")


def _holds_tensor(value: Value) -> bool:
    """Whether a value is a tensor or a sequence with one in it."""
    if isinstance(value, ListValue | Repeat):
        return any(_holds_tensor(item) for item in value.items)
    if isinstance(value, tuple | dict):
        return any(_holds_tensor(i) for i in (value.values() if isinstance(value, dict) else value))
    return isinstance(value, View | Instance)


def _hardware_loop(
    m: Machine, node: ast.AST, api: Api, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    from accelopt_lsp.analysis.hardware_loops import hardware_loop

    try:
        bound = api.bind(m.dialect, tuple(args), kwargs)
    except BindError as error:
        m.unknown(f"{api.name} is not counted: {error}")
        return Unknown(str(error))
    hardware_loop(m, node, api.name, bound)
    return None


def _unlisted(
    m: Machine, node: ast.AST, path: str, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    """A name of NKI that the table does not have: data type calls, or not supported yet."""
    if as_dtype(Ref(path)) is not None:
        return args[0] if args else 0
    m.find("R103", path, node)
    m.unsupported.append((m.line, path, m.times))
    unknown = next((find_unknown(v) for v in (*args, *kwargs.values()) if find_unknown(v)), None)
    m.unknown(f"{path} is not in the instruction table yet")
    return Unknown(f"the result of {path}" if unknown is None else unknown.reason)


def call_function(
    m: Machine, function: Function, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    """Run a function of the file on abstract values."""
    if m.depth >= MAX_CALL_DEPTH:
        return Unknown("calls nested too deeply")
    if m.active.get(function.node, 0) >= MAX_BLIND and any(
        isinstance(value, Unknown) for value in (*args, *kwargs.values())
    ):
        # Nothing would end it, and each call may call itself twice.
        return Unknown(f"how deep {function.name} calls itself is not known")
    key = memory_key(m, function, args, kwargs)
    if key is not None and key in m.memory:
        return m.memory[key]
    if function.cached:
        return _call_cached(m, function, args, kwargs)
    if key is None:
        return repeated(m, function, args, kwargs, _run_function)
    before, steps, known = m.notes(), m.budget.steps, m.steps_once
    result = _run_function(m, function, args, kwargs)
    if is_plain(result) and m.notes() == before:
        m.memory[key] = result
        m.steps_once = known + m.budget.steps - steps
    return result


def _call_cached(
    m: Machine, function: Function, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    """A call of a function under ``lru_cache``.

    Raises:
        NeedSplit, Undecided: whether it was called with these arguments before is not known.
    """
    from accelopt_lsp.analysis.expressions import hashable

    m.unsteady += 1
    values = [*args, *(value for pair in sorted(kwargs.items()) for value in pair)]
    if any(isinstance(value, Affine) for value in values):
        start = m.snapshot()
        result = _run_function(m, function, args, kwargs)
        touched = any(not isinstance(owner, Scope) for owner, *_ in m.journal.entries[start[0] :])
        if is_plain(result) and not touched and m.snapshot()[1:] == start[1:]:
            return result
        m.restore(start)
    key = (id(function), *((type(value), hashable(value)) for value in values))
    m.reads(m.cached, key)
    if key in m.cached:
        return m.cached[key]
    result = _run_function(m, function, args, kwargs)
    m.journal.set_item(m.cached, key, result, function)
    return result


def _run_function(
    m: Machine, function: Function, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    scope = Scope(m.journal, function.scope)
    if function.owner is not None:
        scope.names["__class__"] = function.owner
        scope.names["__self__"] = args[0] if args else None
    problem = bind_parameters(m, function, scope, args, kwargs)
    if problem is not None:
        return Unknown(problem)
    outer, m.scope = m.scope, scope
    m.depth += 1
    doubt = m.doubt
    node = function.node
    m.active[node] = m.active.get(node, 0) + 1
    try:
        if isinstance(node, ast.Lambda):
            m.unsteady += 1
            return m.eval(node.body)
        home = function.scope.home
        if (home.parsed is None or home.parsed.may_yield) and _is_generator(node):
            m.unknown(f"{function.name} is a generator")
            return Unknown("generators are not analyzed")
        signal = m.run(node.body)
        if m.watched and not is_quiet(m, function):
            m.unsteady += 1
        if m.doubt > doubt:
            return Unknown(f"what {function.name} returns depends on a condition that is not known")
        return signal[1] if signal is not None and signal[0] == "return" else None
    finally:
        m.scope = outer
        m.depth -= 1
        m.active[node] -= 1
        m.doubt = doubt


MAX_BLIND = 6
"""Calls of a function within itself with arguments that are not known."""
_GENERATORS: WeakKeyDictionary[ast.AST, bool] = WeakKeyDictionary()


def _is_generator(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    found = _GENERATORS.get(node)
    if found is None:
        found = _GENERATORS[node] = _yields(node)
    return found


def _yields(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    stack: list[ast.AST] = list(node.body)
    while stack:
        current = stack.pop()
        if isinstance(current, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(current, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            stack.extend(ast.iter_child_nodes(current))
    return False


def bind_parameters(
    m: Machine,
    function: Function,
    scope: Scope,
    args: list[Value],
    kwargs: dict[str, Value],
) -> str | None:
    """Bind a call's arguments in ``scope``; a message if they do not fit."""
    given = function.node.args
    names = [a.arg for a in (*given.posonlyargs, *given.args)]
    if len(args) == len(names) and not (kwargs or given.vararg or given.kwonlyargs or given.kwarg):
        scope.names.update(zip(names, args, strict=True))
        return None
    rest = dict(kwargs)
    if len(args) > len(names) and given.vararg is None:
        return f"{function.name} takes {len(names)} arguments, got {len(args)}"
    values: dict[str, Value] = dict(zip(names, args, strict=False))
    if given.vararg is not None:
        values[given.vararg.arg] = tuple(args[len(names) :])
    required = len(names) - len(function.defaults)
    for position, name in enumerate(names):
        if name in rest:
            values[name] = rest.pop(name)
        elif position >= len(args):
            if position < required:
                return f"{function.name} needs {name}"
            values[name] = function.defaults[position - required]
    for name in (a.arg for a in given.kwonlyargs):
        if name in rest:
            values[name] = rest.pop(name)
        elif name not in function.keyword_defaults:
            return f"{function.name} needs {name}"
        else:
            values[name] = function.keyword_defaults[name]
    if given.kwarg is not None:
        values[given.kwarg.arg] = m.new_dict(rest)
    elif rest:
        return f"{function.name} has no parameter {next(iter(rest))!r}"
    scope.names.update(values)
    return None
