"""Calls of helpers that look at objects and change nothing: the same call is run once.

Helpers of kernels are methods that make one object of another (a view of a tensor, a slice of
it), and loops call them over and over. A call that changed nothing but what it made itself, wrote
nothing down and ran functions that read nothing which could change has a result that follows from
its arguments. Arguments are told apart by what they hold, tensors by all that Python can see of
them, and loop variables by their ranges. Results are kept with the module of the helper, across
runs: an edit elsewhere does not touch them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from attrs import frozen

from accelopt_lsp.analysis.affine import Affine, Var
from accelopt_lsp.analysis.purity import free_names, is_plain, is_short
from accelopt_lsp.analysis.scope import UNBOUND
from accelopt_lsp.analysis.values import (
    MISSING,
    ClassValue,
    Descriptor,
    DictValue,
    EnumInt,
    EnumStr,
    Function,
    Instance,
    ListValue,
    NamedTuple,
    Ref,
    Storage,
    Value,
    View,
)
from accelopt_lsp.nki.dtypes import DType
from accelopt_lsp.nki.operands import Buffer

if TYPE_CHECKING:
    from accelopt_lsp.analysis.machine import Machine
    from accelopt_lsp.analysis.modules import Home

MAX_RESULTS = 4096
MAX_FAILURES = 12
EFFECT = 4
"""How much a call that changed something counts, next to one whose arguments are not known."""
MAX_NODES = 160
_ATOMS = frozenset({int, float, str, bool, type(None), DType, Buffer, Ref})
_FREE: WeakKeyDictionary[ast.AST, frozenset[str] | None] = WeakKeyDictionary()


class _Unfit(Exception):  # noqa: N818 - a control signal, no error
    """A value that nothing can be said about."""


@frozen(slots=True, eq=False)
class Result:
    """What a call comes to.

    Attributes:
        build: makes the returned value of the arguments of another call.
        steps: what the call takes a second time.
        reads: fields and items of the arguments that were read, by number of the argument.
        used: lists among the arguments that were used, by number.
        split: loops whose iterations it told apart.
        carries: a number went from one iteration to the next in it.
    """

    build: Callable[[_Arguments, tuple[Var, ...]], Value]
    steps: int
    reads: tuple[tuple[int, Any], ...]
    used: tuple[int, ...]
    split: frozenset[ast.AST]
    carries: bool


class _Arguments:
    """What the arguments of a call hold: objects, tensors and loop variables by number."""

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.variables: list[Var] = []
        self.numbers: dict[int, int] = {}
        self.count = 0

    def key(self, value: Value) -> Any:
        """What a value is like; equal for values that no helper can tell apart.

        Raises:
            _Unfit: it holds something else than plain values, objects, tensors and sequences.
        """
        kind = value.__class__
        if kind in _ATOMS:
            return kind, value
        self.count += 1
        if self.count > MAX_NODES:
            raise _Unfit
        if kind is tuple:
            return "tuple", *map(self.key, value)
        if kind is Affine:
            return "affine", value.const, *((self._variable(v), c) for v, c in value.terms)
        if kind is NamedTuple:
            return "named", value.cls, *map(self.key, value)
        if kind is EnumInt or kind is EnumStr:
            return "member", value.cls, value.label
        if kind is Instance and value.cls.kind == "enum":
            return "member", value
        number = self.numbers.get(id(value))
        if number is not None:
            return "same", number
        self.numbers[id(value)] = len(self.objects)
        self.objects.append(value)
        if kind is View:
            return self._tensor(value)
        if kind is Instance and value.shadow is None and is_clean(value.cls):
            return "object", value.cls, *((k, self.key(v)) for k, v in value.fields.items())
        if kind is ListValue and value.shadow is None:
            return "list", value.fixed, *map(self.key, value.items)
        if kind is DictValue and value.shadow is None:
            return "dict", *((self.key(k), self.key(v)) for k, v in value.items())
        raise _Unfit

    def _variable(self, var: Var) -> Any:
        number = self.numbers.get(id(var))
        if number is None:
            number = self.numbers[id(var)] = len(self.variables)
            self.variables.append(var)
        return number, var.low, var.high, var.first, var.opaque

    def _tensor(self, view: View) -> Any:
        storage: Storage = view.storage
        if not storage.name or view.fault or view.dynamic or view.index:
            # A tensor without a name takes the one of the first variable that it is bound to.
            raise _Unfit
        number = self.numbers.setdefault(id(storage), len(self.numbers))
        return (
            "tensor",
            number,
            view.shape,
            view.strides,
            self.key(view.offset),
            view.dtype,
            tuple(map(self.key, view.block)),
            (storage.name, storage.buffer, storage.shape, storage.blocks, storage.dtype),
            (storage.kind, storage.memory, storage.placed),
        )

    def tables(self) -> dict[int, int]:
        """Number of an object by the identity of what holds its items."""
        found: dict[int, int] = {}
        for number, value in enumerate(self.objects):
            found[id(table_of(value))] = number
        return found


def table_of(value: Value) -> Any:
    """What holds the items of an object."""
    if isinstance(value, Instance):
        return value.fields
    return value.items if isinstance(value, ListValue) else value


def repeated(
    m: Machine,
    function: Function,
    args: list[Value],
    kwargs: dict[str, Value],
    run: Callable[[Machine, Function, list[Value], dict[str, Value]], Value],
    made: ClassValue | None = None,
) -> Value:
    """The result of a call, which is run if nobody knows what it comes to.

    Args:
        function: the one that is called.
        run: runs it.
        made: the class of which ``run`` makes an object with this function.
    """
    if not m.in_kernel or m.depth == 0 or m.altered or m.observer is not None:
        return run(m, function, args, kwargs)
    home: Home = function.scope.home
    node = function.node
    doubts = home.failures.get(node, 0)
    if doubts >= MAX_FAILURES or not is_quiet(m, function):
        return run(m, function, args, kwargs)
    if isinstance(node, ast.Lambda) or is_short(node):
        return run(m, function, args, kwargs)
    given = _Arguments()
    try:
        parts = [given.key(value) for value in args]
        named = [(name, given.key(value)) for name, value in kwargs.items()]
        program = tuple(map(given.key, m.program))
    except _Unfit:
        home.failures[node] = doubts + 1
        return run(m, function, args, kwargs)
    key = (node, function.owner, made, tuple(parts), tuple(named), program)
    found = home.results.get(key)
    if found is not None and m.budget.steps + found.steps <= m.budget.limit:
        home.failures[node] = doubts - 1 if doubts else 0
        return _again(m, found, given)
    return _observed(m, function, args, kwargs, run, given, home, key)


def _again(m: Machine, found: Result, given: _Arguments) -> Value:
    m.budget.steps += found.steps
    for number, name in found.reads:
        m.reads(table_of(given.objects[number]), name)
    m.used_lists.extend(given.objects[number] for number in found.used)
    m.split_loops |= found.split
    m.carries = m.carries or found.carries
    return found.build(given, tuple(m.loops))


def _observed(
    m: Machine,
    function: Function,
    args: list[Value],
    kwargs: dict[str, Value],
    run: Callable[[Machine, Function, list[Value], dict[str, Value]], Value],
    given: _Arguments,
    home: Home,
    key: Any,
) -> Value:
    """Run a call and keep what it comes to, if it changes nothing else."""
    steps, mark, used = m.budget.steps - m.steps_once, m.journal.mark(), len(m.used_lists)
    before, split, carries = _state(m), set(m.split_loops), m.carries
    m.carries = False
    m.watched += 1
    m.touched.append({})
    try:
        value = run(m, function, args, kwargs)
    finally:
        m.watched -= 1
        first = m.touched.pop()
        if m.touched:
            for place, read in first.items():
                m.touched[-1].setdefault(place, read)
        inside, m.carries = m.carries, m.carries or carries
    tables = given.tables()
    changed = m.altered or _state(m) != before or _changes(m, mark, tables)
    build = None if changed else _template(value, given, tuple(m.loops))
    if build is None:
        home.failures[function.node] = home.failures.get(function.node, 0) + EFFECT
        return value
    if len(home.results) >= MAX_RESULTS:
        home.results.clear()
    home.results[key] = Result(
        build,
        m.budget.steps - m.steps_once - steps,
        tuple((tables[t], name) for (t, name), read in first.items() if read and t in tables),
        tuple(tables[id(v.items)] for v in m.used_lists[used:] if id(v.items) in tables),
        frozenset(m.split_loops - split),
        inside,
    )
    return value


def _state(m: Machine) -> tuple[Any, ...]:
    """What a call that only computes leaves as it is."""
    written = (*m.notes(), len(m.outputs), len(m.uncounted), len(m.uncounted_loops))
    return (*written, m.doubt, m.sequence, m.placed, m.budget.grants, m.unsteady)


def _changes(m: Machine, mark: int, tables: dict[int, int]) -> bool:
    """Whether something that was there before the call was changed."""
    for _, container, _, _ in m.journal.entries[mark:]:
        if id(container) in tables or callable(container):
            return True
    return False


Build = Callable[[_Arguments, tuple[Var, ...]], Value]


def _template(value: Value, given: _Arguments, loops: tuple[Var, ...]) -> Build | None:
    """How to make a result again of other arguments."""
    numbers = {id(o): n for n, o in enumerate(given.objects)}
    variables = {id(v): n for n, v in enumerate(given.variables)}
    made: dict[int, int] = {}

    def inner(born: tuple[Var, ...]) -> tuple[Var, ...]:
        if born[: len(loops)] != loops:
            raise _Unfit
        return born[len(loops) :]

    def plan(value: Value) -> Any:
        """A nested list: what to do, and with what."""
        kind = value.__class__
        if kind in _ATOMS:
            return "value", value
        if kind is Affine:
            if not all(id(v) in variables for v, _ in value.terms):
                raise _Unfit
            return "affine", value.const, tuple((variables[id(v)], c) for v, c in value.terms)
        if id(value) in numbers:
            return "given", numbers[id(value)]
        if kind is tuple:
            return "tuple", [plan(v) for v in value]
        if is_plain(value) and not isinstance(value, tuple):
            return "value", value
        if id(value) in made:
            return "made", made[id(value)]
        made[id(value)] = len(made)
        if kind is Instance and value.shadow is None:
            fields = [(k, plan(v)) for k, v in value.fields.items()]
            return "object", value.cls, fields, inner(value.loops)
        if kind is ListValue and value.shadow is None:
            return "list", [plan(v) for v in value.items], value.fixed, inner(value.loops)
        raise _Unfit

    try:
        steps = plan(value)
    except _Unfit:
        return None
    return lambda others, now: _build(steps, others, now, [])


def _build(plan: Any, given: _Arguments, loops: tuple[Var, ...], made: list[Value]) -> Value:
    what = plan[0]
    if what == "value":
        return plan[1]
    if what == "given":
        return given.objects[plan[1]]
    if what == "affine":
        return Affine(plan[1], tuple((given.variables[n], c) for n, c in plan[2]))
    if what == "tuple":
        return tuple([_build(p, given, loops, made) for p in plan[1]])
    if what == "made":
        return made[plan[1]]
    if what == "list":
        items = ListValue([], (*loops, *plan[3]), fixed=plan[2])
        made.append(items)
        items.items.extend(_build(p, given, loops, made) for p in plan[1])
        return items
    instance = Instance(plan[1], loops=(*loops, *plan[3]))
    made.append(instance)
    for name, part in plan[2]:
        instance.fields[name] = _build(part, given, loops, made)
    return instance


def is_quiet(m: Machine, function: Function) -> bool:
    """Whether a function reads nothing from outside that could change.

    Names that nobody asked for so far do not count: to ask for them would read further modules.
    """
    if function not in m.quiet:
        m.quiet[function] = _outer_names(function)
    names = m.quiet[function]
    if not names:
        return names is not None
    home = function.scope.home
    pending = []
    for name in names:
        steady = _is_steady(home, name)
        if steady is None:
            pending.append(name)
        elif not steady:
            m.quiet[function] = None
            return False
    m.quiet[function] = tuple(pending)
    return True


def _outer_names(function: Function) -> tuple[str, ...] | None:
    """Names that a function takes from its module; None if it may depend on more."""
    node, scope = function.node, function.scope
    if isinstance(node, ast.Lambda) or scope is not scope.home.scope:
        return None
    if not all(is_plain(v) for v in (*function.defaults, *function.keyword_defaults.values())):
        return None
    if node not in _FREE:
        _FREE[node] = free_names(node, changes=True)
    free = _FREE[node]
    return None if free is None else tuple(sorted(free))


def _is_steady(home: Home, name: str) -> bool | None:
    """Whether a global name stands for something that stays as it is; None if it is not read."""
    value = home.scope.names.get(name, UNBOUND)
    if name in home.partial:
        return False
    if value is UNBOUND:
        if isinstance(home.free.get(name), Ref):
            return True
        return False if home.parsed is None or home.parsed.stars else None
    if isinstance(value, ClassValue):
        return is_clean(value)
    # A function that is called is looked at when it runs.
    return isinstance(value, Function) or is_plain(value)


def is_clean(cls: ClassValue) -> bool:
    """Whether a class holds nothing that its objects could change."""
    for owner in cls.lineage():
        if owner.members is None or owner.problem:
            return False
        for value in owner.members.values():
            if not isinstance(value, Function | Descriptor) and not is_plain(value):
                return False
        for one in owner.fields:
            if one.default is not MISSING and not is_plain(one.default):
                return False
    return True


__all__ = ["Result", "is_clean", "is_quiet", "repeated"]
