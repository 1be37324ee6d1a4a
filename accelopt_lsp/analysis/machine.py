"""State of one abstract run of a kernel, and what it writes down.

The run visits every statement once per distinct context. Loop variables are symbols with
ranges (:mod:`~accelopt_lsp.analysis.affine`), and whatever is issued counts as often as the
open loops iterate. Nothing of the user's is executed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from math import prod
from pathlib import Path
from typing import Any

from attrs import define, field

from accelopt_lsp.analysis.affine import NeedSplit, Undecided, Var, split
from accelopt_lsp.analysis.heap import CHANGED_COPY, realize
from accelopt_lsp.analysis.modules import MODULE_STEPS, Home, Origin
from accelopt_lsp.analysis.names import Aliases
from accelopt_lsp.analysis.notes import (
    EXTRA_STEPS,
    MAX_GRANTS,
    MAX_STEPS,
    Access,
    Budget,
    Finding,
    KernelRaises,
    LoopVisit,
    OutOfSteps,
    Record,
)
from accelopt_lsp.analysis.registry import (
    ATTRIBUTES,
    BREAK,
    CONTINUE,
    EVALUATORS,
    EXECUTORS,
    RETURN,
    Signal,
    attributes,
    evaluates,
    executes,
)
from accelopt_lsp.analysis.rejections import Rejected, argument_node
from accelopt_lsp.analysis.scope import UNBOUND, Journal, Scope
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.values import (
    ClassValue,
    Descriptor,
    DictValue,
    Function,
    Instance,
    ListValue,
    Ref,
    Storage,
    Unknown,
    Value,
    View,
)
from accelopt_lsp.nki.diagnostics import Fix, Severity
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.dtypes import DType
from accelopt_lsp.nki.lowering import Lowered
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.targets import Target

__all__ = [
    "ATTRIBUTES",
    "BREAK",
    "BUILTIN_NAMES",
    "CONTINUE",
    "EVALUATORS",
    "EXECUTORS",
    "EXTRA_STEPS",
    "MAX_BITS",
    "MAX_CALL_DEPTH",
    "MAX_CIRCLES",
    "MAX_GRANTS",
    "MAX_LENGTH",
    "MAX_PARTS",
    "MAX_STEPS",
    "RETURN",
    "Access",
    "Budget",
    "Finding",
    "KernelRaises",
    "LoopVisit",
    "Machine",
    "OutOfSteps",
    "Record",
    "Signal",
    "attributes",
    "evaluates",
    "executes",
    "free_name",
    "functions_of",
    "stored_names",
]
MAX_PARTS = 4096
MAX_CALL_DEPTH = 40
MAX_CIRCLES = 3
MAX_BITS = 256
MAX_LENGTH = 100_000


@define(slots=True, eq=False)
class Machine:
    """One abstract run.

    Attributes:
        home: the analyzed file as a module.
        active: how often each function is running, within itself.
        site: the analyzed file's call that is open while other files' code runs.
        foreign_line: the statement that runs in another file.
        named: tensors and their parts by the line and the name of an assignment.
        split_loops: loops whose iterations had to be told apart.
        memory, pure: results of functions that do nothing but compute; which ones are such.
        cached: results of functions under ``lru_cache``, by function and arguments.
        quiet: by function: names that it may read from its module; None if it may read more.
        watched, unsteady: open calls whose effects are looked at; calls of other functions in them.
        steps_once: spent on results in ``memory``, which cost nothing a second time.
        altered: a class or a module was given another attribute.
        guarded_imports: open ``try`` statements that expect a failing import.
    """

    document: Document
    home: Home
    dialect: Dialect
    target: Target
    grid: tuple[int, ...] = ()
    journal: Journal = field(factory=Journal)
    scope: Scope = field(init=False)
    module: Scope = field(init=False)
    budget: Budget = field(factory=Budget)
    loops: list[Var] = field(factory=list)
    records: list[Record] = field(factory=list)
    accesses: list[Access] = field(factory=list)
    storages: list[Storage] = field(factory=list)
    visits: list[LoopVisit] = field(factory=list)
    findings: list[Finding] = field(factory=list)
    unknowns: list[tuple[int, str]] = field(factory=list)
    unsupported: list[tuple[int, str, int]] = field(factory=list)
    appended: list[tuple[Any, int]] = field(factory=list)
    used_lists: list[Any] = field(factory=list)
    named: dict[tuple[int, str], View] = field(factory=dict)
    split_loops: set[ast.AST] = field(factory=set)
    memory: dict[Any, Value] = field(factory=dict)
    pure: dict[Function, bool] = field(factory=dict)
    cached: dict[Any, Value] = field(factory=dict)
    quiet: dict[Function, tuple[str, ...] | None] = field(factory=dict)
    watched: int = 0
    unsteady: int = 0
    steps_once: int = 0
    altered: bool = False
    resolved: dict[str, Value] = field(factory=dict)
    touched: list[dict[tuple[int, Any], bool]] = field(factory=list)
    fresh: dict[int, int] = field(factory=dict)
    outputs: list[View] = field(factory=list)
    uncounted: list[Record] = field(factory=list)
    uncounted_loops: list[tuple[int, str, str, int]] = field(factory=list)
    program: list[Any] = field(factory=list)
    sequence: int = 0
    depth: int = 0
    active: dict[ast.AST, int] = field(factory=dict)
    line: int = 1
    in_kernel: bool = False
    placed: bool = False
    site: ast.AST | None = None
    foreign_line: int = 0
    guarded_imports: int = 0
    importing: dict[int, int] = field(factory=dict)
    placed_line: int = 0
    doubt: int = 0
    carries: bool = False
    loop_kinds: dict[tuple[int, str], str] = field(factory=dict)
    written: set[int] = field(factory=set)
    multiplied: set[int] = field(factory=set)
    result: Value = None
    result_node: ast.AST | None = None
    observer: Callable[[ast.expr, Value], None] | None = None
    _storage_ids: Any = field(factory=count)

    def __attrs_post_init__(self) -> None:
        self.module = self.home.scope
        self.scope = Scope(self.journal, self.module)

    # -- files ---------------------------------------------------------------------

    @property
    def aliases(self) -> Aliases:
        """Imports of the file whose code runs."""
        home: Home = self.scope.home
        return home.aliases

    @property
    def foreign(self) -> bool:
        """Whether code of another file runs than the analyzed one's."""
        return self.scope.home is not self.home

    def origin(self, node: ast.AST | None) -> Origin | None:
        """Where a node of the code that runs stands, if in another file."""
        home: Home = self.scope.home
        if home is self.home:
            return None
        return Origin(str(home.path or ""), getattr(node, "lineno", self.foreign_line), node)

    def home_of(self, path: Path) -> Home:
        """A module of the checkout, shared by all analyses of the workspace."""
        if path == self.home.path:
            return self.home
        workspace = self.home.workspace
        key = (path, self.target.name, self.dialect)
        found: Home | None = workspace.evaluated.get(key)
        if found is None:
            source = workspace.source(path)
            parsed = source.parsed if source is not None else None
            found = workspace.evaluated[key] = Home(parsed, path, workspace)
        return found

    def enter_import(self, home: Home) -> bool:
        """Begin to look up a name of a module; False where modules import in a circle."""
        depth = self.importing.get(id(home), 0)
        if depth >= MAX_CIRCLES:
            return False
        self.importing[id(home)] = depth + 1
        return True

    def leave_import(self, home: Home) -> None:
        self.importing[id(home)] -= 1

    @contextmanager
    def aside(self, scope: Scope, limit: int) -> Iterator[None]:
        """Evaluate something that is no part of what the kernel does at the moment."""
        logs = self._logs()
        lengths = [len(log) for log in logs]
        keep = (self.scope, self.journal, self.loops, self.budget, self.in_kernel, self.line)
        rest = (self.program, self.guarded_imports, self.foreign_line, self.touched, self.site)
        outer = scope.journal
        self.scope, self.loops, self.in_kernel, self.program = scope, [], False, []
        self.journal = scope.journal = Journal()
        self.budget = Budget(limit=limit)
        self.guarded_imports, self.touched = 0, []
        doubt, self.doubt = self.doubt, 0
        try:
            yield
        finally:
            self.doubt = doubt
            scope.journal = outer
            self.program, self.guarded_imports, self.foreign_line, self.touched, self.site = rest
            self.scope, self.journal, self.loops, self.budget, self.in_kernel, self.line = keep
            for log, length in zip(logs, lengths, strict=True):
                del log[length:]

    def apart(self, home: Home, body: list[ast.stmt]) -> str | None:
        """Run statements of a module, apart from what the kernel does at the moment.

        Returns:
            Why they could not be run; None if they were.
        """
        with self.aside(home.scope, max(0, MODULE_STEPS - home.steps)):
            try:
                self.run(body)
            except OutOfSteps:
                return f"module {home.name} is too large to analyze"
            except (NeedSplit, Undecided, KernelRaises) as why:
                return str(why)
            finally:
                home.steps += self.budget.steps
        return None

    def class_body(self, cls: ClassValue, body: list[ast.stmt]) -> dict[str, Value]:
        """Names that a class body binds."""
        scope = Scope(self.journal, cls.scope)
        with self.aside(scope, MODULE_STEPS):
            for statement in body:
                try:
                    self.run([statement])
                except (OutOfSteps, NeedSplit, Undecided, KernelRaises) as why:
                    for name in stored_names(statement):
                        scope.names[name] = Unknown(str(why))
        for value in scope.names.values():
            for function in functions_of(value):
                if function.scope is scope:
                    function.scope = cls.scope
        return scope.names

    def close(self) -> None:
        """Undo what this run changed in modules that others share."""
        self.journal.rollback(0)

    # -- running -----------------------------------------------------------------

    def eval(self, node: ast.expr) -> Value:
        """Value of an expression; what cannot be known is an :class:`Unknown`."""
        budget = self.budget
        budget.steps += 1
        if budget.steps > budget.limit:
            raise OutOfSteps
        kind = node.__class__
        if self.observer is None:
            # Two of three expressions are names and constants.
            if kind is ast.Name:
                found = self.scope.find(node.id)  # type: ignore[attr-defined]
                if found is not UNBOUND:
                    if isinstance(found, ListValue):
                        self.used_lists.append(found)
                    return found
            elif kind is ast.Constant:
                return node.value  # type: ignore[attr-defined]
        handler = EVALUATORS.get(kind)
        if handler is None:
            return Unknown(f"{kind.__name__} expressions are not analyzed")
        try:
            value = handler(self, node)
        except Undecided as why:
            self.refuse(why, node)
            value = Unknown(str(why))
        except (ArithmeticError, ValueError, TypeError, LookupError, AttributeError) as error:
            value = Unknown(f"{type(error).__name__}: {error}")
        if self.observer is not None:
            self.observer(node, value)
        return value

    def charge(self, items: int) -> None:
        """Count work on many items that Python does at one go: some of it is a step.

        Raises:
            OutOfSteps: the budget is used up.
        """
        budget = self.budget
        budget.steps += items >> 6
        if budget.steps > budget.limit:
            raise OutOfSteps

    def name_value(self, name: str) -> Value:
        """What a name stands for; an import or a builtin where no scope binds it."""
        found = self.scope.find(name)
        return free_name(self, name) if found is UNBOUND else found

    def free_name_in(self, home: Home, name: str) -> Value:
        """A name that a module does not bind: an import from elsewhere, a builtin, or unknown."""
        canonical = home.aliases.canonical(name)
        if canonical is not None:
            if canonical.startswith("."):
                return Unknown(f"{name} comes from {canonical}, which is not found")
            return Ref(canonical)
        if name in BUILTIN_NAMES:
            return Ref(f"builtins.{name}")
        if name == "__name__":
            return home.name
        return Unknown(f"{name} is not defined in {home.name}")

    def run(self, body: list[ast.stmt]) -> Signal | None:
        """Execute statements; gives (``return``, value), (``break``, None) ... or None."""
        own = not self.foreign
        for node in body:
            self.budget.steps += 1
            if self.budget.steps > self.budget.limit:
                raise OutOfSteps
            if own:
                self.line = node.lineno
                self.site = node
            else:
                self.foreign_line = node.lineno
            handler = EXECUTORS.get(type(node))
            if handler is None:
                self.unknown(f"{type(node).__name__} statements are not analyzed")
                continue
            try:
                signal: Signal | None = handler(self, node)
            except Undecided as why:
                self.refuse(why, node)
                self.unknown(str(why), node.lineno)
                continue
            if signal is not None:
                return signal
        return None

    def place(self, node: ast.AST) -> ast.AST:
        """A node of the analyzed file: the given one, or the call that led to other files."""
        return self.site if self.foreign and self.site is not None else node

    # -- writing down --------------------------------------------------------------

    @property
    def times(self) -> int:
        """How often the current statement runs."""
        return prod(var.trips for var in self.loops)

    def unknown(self, reason: str, line: int | None = None) -> None:
        """Note that something on a line could not be counted."""
        if not self.in_kernel:
            return
        if self.foreign:
            home: Home = self.scope.home
            self.unknowns.append((self.line, f"{reason} ({home.name}:{line or self.foreign_line})"))
        else:
            self.unknowns.append((line or self.line, reason))

    def note(
        self,
        node: ast.AST,
        lowered: Lowered,
        views: dict[str, View],
        nodes: dict[str, ast.AST] | None = None,
        *,
        times: int | None = None,
        cuts: tuple[tuple[int, int, int], ...] = (),
    ) -> None:
        """Write down a call that issues instructions."""
        self.records.append(
            Record(
                self.line,
                self.place(node),
                lowered,
                self.times if times is None else times,
                tuple(self.loops),
                views,
                nodes or {},
                cuts=cuts,
                origin=self.origin(node),
                call=node,
                doubtful=self.doubt > 0,
            )
        )

    def find(
        self,
        code: str,
        message: str,
        node: ast.AST,
        severity: Severity | None = None,
        role: str | None = None,
        fix: Fix | None = None,
    ) -> None:
        if self.in_kernel:
            origin = self.origin(node)
            # A fix is of the analyzed file's text.
            fix = fix if origin is None else None
            self.findings.append(
                Finding(code, message, self.place(node), severity, role, origin, fix)
            )

    def refuse(self, why: Undecided, node: ast.AST) -> None:
        """Note the rule that was broken, where that is why something has no value."""
        if isinstance(why, Rejected):
            self.find(why.code, str(why), argument_node(node, *why.at))

    def new_storage(
        self,
        shape: tuple[int, ...],
        dtype: DType,
        buffer: Buffer,
        *,
        name: str = "",
        kind: str = "tensor",
        blocks: int = 0,
        node: ast.AST | None = None,
    ) -> Storage:
        storage = Storage(
            next(self._storage_ids),
            name,
            buffer,
            shape,
            blocks,
            dtype,
            self.line,
            tuple(self.loops),
            kind,
            None if node is None else self.place(node),
            self.origin(node),
        )
        self.storages.append(storage)
        return storage

    def new_dict(self, items: dict[Any, Value]) -> DictValue:
        """A dictionary that remembers in which loops it was created."""
        self.charge(len(items))
        return DictValue(items, tuple(self.loops))

    def reads(self, table: dict[Any, Value], key: Any) -> None:
        """Note that a field or an item is read: loops ask what iterations hand on."""
        if self.touched:
            self.touched[-1].setdefault((id(table), key), True)

    def set_entry(self, owner: Any, table: dict[Any, Value], key: Any, value: Value) -> None:
        """Set a field of an object or an item of a dictionary."""
        origin = getattr(owner, "shadow", None)
        if origin is not None and realize(self.journal, owner):
            origin = None
        if self.touched:
            self.touched[-1].setdefault((id(table), key), False)
        self.journal.set_item(table, key, value, owner)
        if origin is not None:
            inner = origin.fields if isinstance(origin, Instance) else origin
            self.journal.set_item(inner, key, Unknown(CHANGED_COPY), origin)

    def set_items(self, owner: ListValue, items: list[Value]) -> None:
        """Replace what a list holds."""
        if owner.shadow is not None:
            realize(self.journal, owner)
        self.journal.replace(owner.items, items, owner)
        if owner.shadow is not None:
            self.journal.replace(owner.shadow.items, [Unknown(CHANGED_COPY)], owner.shadow)

    def alone(self, born: tuple[Var, ...] = ()) -> None:
        """Ask that loops opened since ``born`` are visited one iteration at a time.

        Raises:
            NeedSplit, Undecided: some of them is not.
        """
        terms = tuple((v, 1) for v in self.loops if v.trips > 1 and v not in born)
        if terms:
            raise split(terms, "something that a loop changes from iteration to iteration")

    def touch(self, view: View, *, written: bool) -> None:
        """Note an access, for lifetimes and reload factors."""
        self.sequence += 1
        self.accesses.append(
            Access(view.storage, self.sequence, tuple(self.loops), view.block, written, self.line)
        )

    def snapshot(self) -> tuple[int, ...]:
        return (self.journal.mark(), *(len(log) for log in self._logs()), self.doubt)

    def restore(self, mark: tuple[int, ...]) -> None:
        """Forget everything since a snapshot."""
        self.journal.rollback(mark[0])
        self.doubt = mark[-1]
        for log, length in zip(self._logs(), mark[1:-1], strict=True):
            del log[length:]

    def notes(self) -> tuple[int, ...]:
        """How much was written down so far."""
        return tuple(len(log) for log in self._logs()[:7])

    def _logs(self) -> tuple[list[Any], ...]:
        return (
            self.records,
            self.accesses,
            self.storages,
            self.visits,
            self.findings,
            self.unknowns,
            self.unsupported,
            self.appended,
            self.used_lists,
            self.outputs,
        )


def stored_names(node: ast.AST) -> list[str]:
    """Names that a statement or a target binds."""
    return [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and n.id] + [
        n.name for n in [node] if isinstance(n, ast.FunctionDef | ast.ClassDef)
    ]


def functions_of(value: Value) -> Iterator[Function]:
    """Functions in what a class body binds to a name."""
    if isinstance(value, Function):
        yield value
    elif isinstance(value, Descriptor):
        yield from functions_of(value.function)
        yield from functions_of(value.setter)


BUILTIN_NAMES = frozenset(
    "abs all any bool dict divmod enumerate float int isinstance len list max min pow print range "
    "reversed round set slice sorted str sum tuple type zip getattr hasattr map filter "
    "property staticmethod classmethod super object callable repr id hash frozenset setattr "
    "issubclass iter next bytes complex Exception BaseException ValueError TypeError KeyError "
    "IndexError RuntimeError AssertionError NotImplementedError AttributeError ImportError "
    "ModuleNotFoundError ArithmeticError ZeroDivisionError NotImplemented Ellipsis".split()
)


def free_name(m: Machine, name: str) -> Value:
    """A name that no function binds: a global, an import, a builtin, or unknown."""
    home: Home = m.scope.home
    known = home.free.get(name)
    if known is not None:
        return known
    found = home.lookup(m, name)
    if found is UNBOUND:
        found = m.free_name_in(home, name)
        if isinstance(found, Ref):
            home.free[name] = found
    return found
