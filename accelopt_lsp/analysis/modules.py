"""Modules while they are analyzed: names are evaluated when they are asked for.

A module's scope is shared by all kernels that are analyzed with the same workspace; what a
kernel changes in it is undone after its run. Values that a module binds do not depend on the
kernel, only on the target and the dialect.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from accelopt_lsp.analysis.names import Aliases
from accelopt_lsp.analysis.scope import UNBOUND, Journal, Scope
from accelopt_lsp.analysis.values import ModuleValue, Unknown, Value
from accelopt_lsp.analysis.workspace import Dependency, Parsed, Workspace
from accelopt_lsp.nki.reference.paths import path_dialect

if TYPE_CHECKING:
    from accelopt_lsp.analysis.machine import Machine

MODULE_STEPS = 20_000
_NO_ALIASES = Aliases()
LAST = sys.maxsize
"""No statement runs: what all of them leave counts."""


class ImportFails(Exception):  # noqa: N818 - a control signal, no error
    """An import that finds no module of the checkout: Python would raise here."""


class ImportUnsure(Exception):  # noqa: N818 - a control signal, no error
    """An import of a package that may be installed or not, where failing is expected."""


@frozen(slots=True, eq=False)
class Origin:
    """A place in another file than the analyzed one, with what stands there."""

    path: str
    line: int
    node: ast.AST | None = None


@define(slots=True, eq=False)
class Home:
    """A module: its statements, and the names evaluated so far.

    Attributes:
        parsed: its statements; None for a folder without ``__init__.py``.
        path: of its file or folder; None where nobody says.
        workspace: where its imports are looked for.
        scope: names that are evaluated.
        reads: files that its imports looked for, with digests.
        imports: modules that it took names from.
        done: statements that ran, by number.
        current: number of the statement that runs now.
        steps: spent on its statements.
        free: names that it takes from elsewhere, such as ``nl`` and ``len``.
        partial: names that statements bind or change which have not run yet.
        results: of calls of its functions that change nothing (:mod:`~.repeated`).
        failures: how often calls of a function turned out to change something.
    """

    parsed: Parsed | None
    path: Path | None
    workspace: Workspace
    scope: Scope = field(init=False)
    reads: dict[str, str | None] = field(factory=dict)
    imports: dict[Path, Home] = field(factory=dict)
    done: set[int] = field(factory=set)
    current: int = LAST
    steps: int = 0
    free: dict[str, Value] = field(factory=dict)
    partial: set[str] = field(factory=set)
    results: dict[Any, Any] = field(factory=dict)
    failures: dict[ast.AST, int] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.scope = Scope(Journal())
        self.scope.home = self

    @property
    def aliases(self) -> Aliases:
        return self.parsed.aliases if self.parsed is not None else _NO_ALIASES

    @property
    def name(self) -> str:
        """Name for messages."""
        if self.path is None:
            return "this file"
        return self.path.parent.name if self.path.name == "__init__.py" else self.path.stem

    def dependencies(self) -> tuple[Dependency, ...]:
        """Files that what was evaluated so far rests on, in the order of their paths."""
        found: dict[str, str | None] = {}
        seen: set[int] = set()
        pending = [self]
        while pending:
            home = pending.pop()
            if id(home) not in seen:
                seen.add(id(home))
                found.update(home.reads)
                pending.extend(home.imports.values())
        return tuple(Dependency(path, digest) for path, digest in sorted(found.items()))

    def lookup(self, m: Machine, name: str) -> Value:
        """Value of a global name, or :data:`UNBOUND`; its statements run now if they have not."""
        parsed = self.parsed
        numbers = parsed.bindings.get(name) if parsed is not None else None
        if parsed is None or numbers is None:
            found = self.scope.names.get(name, UNBOUND)
            if found is UNBOUND and parsed is not None and parsed.stars:
                return self._from_stars(m, name)
            return found
        if len(numbers) > 1:
            # Bound more than once: who reads it in between must see the earlier value.
            earlier = [n for n in numbers if n < self.current] or numbers
            (self.partial.add if earlier[-1] < numbers[-1] else self.partial.discard)(name)
            numbers = tuple(
                n
                for n in range(numbers[0], earlier[-1] + 1)
                if n in numbers or isinstance(parsed.tree.body[n], ast.Assign | ast.AnnAssign)
            )
        for number in numbers:
            if number not in self.done:
                if number not in parsed.bindings[name]:
                    # It runs on the way: what else binds its names has not run.
                    self.partial.update(
                        other
                        for other, all_of in parsed.bindings.items()
                        if all_of[0] <= number < all_of[-1] and number in all_of
                    )
                self._evaluate(m, parsed.tree.body[number], number, name)
        if self.partial and self.current == LAST:
            self._complete(m)
        return self.scope.names.get(name, UNBOUND)

    def _complete(self, m: Machine) -> None:
        """Run what changes names that were read already, up to the statement that runs now."""
        bindings = self.parsed.bindings if self.parsed is not None else {}
        for name in sorted(self.partial):
            if bindings[name][0] < self.current:
                self.lookup(m, name)

    def _evaluate(self, m: Machine, statement: ast.stmt, number: int, name: str) -> None:
        if isinstance(statement, ast.ImportFrom):
            # Only the name that is asked for: others may be costly, and unused.
            if name not in self.scope.names:
                aliases = [a for a in statement.names if (a.asname or a.name) == name]
                one = ast.ImportFrom(statement.module, aliases, statement.level)
                m.apart(self, [ast.copy_location(one, statement)])
            return
        self.done.add(number)
        outer, self.current = self.current, number
        try:
            self._complete(m)
            problem = m.apart(self, [statement])
        except RecursionError:
            self.done.discard(number)
            raise
        finally:
            self.current = outer
        if problem is not None:
            self.scope.names.setdefault(name, Unknown(problem))

    def _from_stars(self, m: Machine, name: str) -> Value:
        assert self.parsed is not None
        if name.startswith("_"):
            return UNBOUND
        for node in reversed(self.parsed.stars):
            other = self.imported(m, node.level, node.module or "")
            if other is None or other is self or not m.enter_import(other):
                continue
            try:
                found = other.lookup(m, name)
            finally:
                m.leave_import(other)
            if found is not UNBOUND:
                self.scope.names[name] = found
                return found
        return UNBOUND

    def imported(self, m: Machine, level: int, dotted: str) -> Home | None:
        """A module of the checkout by its path as this one imports it."""
        if self.path is None or (not level and path_dialect(dotted) is not None):
            return None
        found = self.workspace.locate(self.path, level, dotted, self.reads)
        return None if found is None else self._enter(m, found)

    def _enter(self, m: Machine, path: Path) -> Home:
        home = self.imports[path] = m.home_of(path)
        return home

    def member(self, m: Machine, level: int, dotted: str, name: str) -> Value:
        """What ``from MODULE import NAME`` binds; :data:`UNBOUND` if no such module is here."""
        module = self.imported(m, level, dotted)
        if module is None:
            return UNBOUND
        found = module.attribute(m, name)
        if found is UNBOUND:
            return Unknown(f"{module.name} has no {name!r} that analysis knows")
        return found

    def attribute(self, m: Machine, name: str) -> Value:
        """A name that the module binds, or a module below it; else :data:`UNBOUND`."""
        if not m.enter_import(self):
            return Unknown(f"modules that import each other: {self.name}.{name}")
        try:
            found = self.lookup(m, name)
            if found is UNBOUND and name in self.aliases.table:
                found = m.free_name_in(self, name)
        finally:
            m.leave_import(self)
        if found is not UNBOUND:
            return found
        return self.submodule(m, name)

    def submodule(self, m: Machine, name: str) -> Value:
        """A module below a package, or :data:`UNBOUND`."""
        if self.path is None or (self.parsed is not None and self.path.name != "__init__.py"):
            return UNBOUND
        folder = self.path.parent if self.parsed is not None else self.path
        found = self.workspace.locate(folder / "__init__.py", 1, name, self.reads)
        return UNBOUND if found is None else ModuleValue(self._enter(m, found))


def run_import(m: Machine, node: ast.Import | ast.ImportFrom) -> None:
    """Bind what comes from modules of the checkout; other imports are known by their path.

    Raises:
        ImportFails: inside a ``try`` that expects it, if the checkout has no such module.
    """
    home: Home = m.scope.home
    if isinstance(node, ast.ImportFrom):
        for alias in node.names:
            if alias.name == "*":
                continue
            value = home.member(m, node.level, node.module or "", alias.name)
            if value is UNBOUND or isinstance(value, Unknown):
                if m.guarded_imports and (node.level or value is not UNBOUND):
                    raise ImportFails
                if value is UNBOUND and not node.level:
                    _expect(m, node.module or "")
                    continue
            if value is UNBOUND:
                value = Unknown(f"module {'.' * node.level}{node.module or ''} is not found")
            m.scope.assign(alias.asname or alias.name, value)
        return
    for alias in node.names:
        dotted = alias.name if alias.asname is not None else alias.name.partition(".")[0]
        module = home.imported(m, 0, dotted)
        if module is not None:
            m.scope.assign(alias.asname or dotted, ModuleValue(module))
        else:
            _expect(m, alias.name)


def _expect(m: Machine, dotted: str) -> None:
    """An import of something outside the checkout.

    Raises:
        ImportUnsure: where it may fail, and nobody knows whether it does.
    """
    head = dotted.partition(".")[0]
    sure = head in sys.stdlib_module_names or head in _ALWAYS or path_dialect(dotted) is not None
    if m.guarded_imports and not sure:
        raise ImportUnsure(head)


_ALWAYS = frozenset({"numpy", "ml_dtypes", "nki", "neuronxcc"})
"""Packages that there are wherever kernels run."""


def catches_imports(handlers: list[ast.ExceptHandler]) -> bool:
    """Whether a ``try`` expects that an import fails."""
    return any(name in _IMPORT_ERRORS for handler in handlers for name in _caught(handler))


_IMPORT_ERRORS = frozenset(
    {"ImportError", "ModuleNotFoundError", "Exception", "BaseException", "AttributeError"}
)


def _caught(handler: ast.ExceptHandler) -> Iterator[str]:
    if handler.type is None:
        yield "BaseException"
        return
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    for kind in kinds:
        if isinstance(kind, ast.Name):
            yield kind.id
