"""Which names outside of itself a function can get at: globals, and attributes of modules."""

from __future__ import annotations

import dis
import functools
import sys
from types import CodeType, FunctionType, ModuleType
from typing import Any

from accelopt_lsp.profiler.simulator.hook import StandIn
from accelopt_lsp.profiler.simulator.source import PACKAGE


class Unprovable(Exception):
    """Something is in reach that snapshots do not see through."""


class NotLoaded(Unprovable):
    """A function imports a module that is not loaded yet."""


class TypesTold(Unprovable):
    """A function may tell the variable of an abridged loop from an integer."""


_EFFECTS = frozenset(
    "__import__ _getframe currentframe dir eval exec f_locals get_objects get_referrers globals "
    "import_module input locals modules open print random vars".split()
)
"""Names whose use may do something that a snapshot does not see."""
_TYPES = frozenset({"type"})
"""Built-in functions that tell a loop variable from an integer."""


class Reach:
    """Which globals, class attributes and module attributes a function can get at by name."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], list[tuple[Any, str]] | type[Unprovable]] = {}
        self._kept: list[Any] = []

    def of(self, code: CodeType, namespace: dict[str, Any]) -> list[tuple[Any, str]]:
        """Pairs of a namespace and a name in it.

        Raises:
            Unprovable: a name stands for something with effects of its own.
        """
        key = (id(code), id(namespace))
        if key not in self._known:
            self._kept.append((code, namespace))
            found: dict[tuple[int, str], tuple[Any, str]] = {}
            try:
                self._collect(code, namespace, found, set(), set())
            except NotLoaded:
                raise
            except Unprovable as error:
                self._known[key] = type(error)
            else:
                self._known[key] = list(found.values())
        pairs = self._known[key]
        if isinstance(pairs, type):
            raise pairs
        return pairs

    def hidden(self, code: CodeType, namespace: dict[str, Any]) -> bool:
        """Whether a function can do something that no snapshot sees."""
        try:
            self.of(code, namespace)
        except NotLoaded:
            return False
        except Unprovable:
            return True
        return False

    def _collect(
        self,
        code: CodeType,
        namespace: dict[str, Any],
        found: dict[tuple[int, str], tuple[Any, str]],
        seen: set[tuple[int, int]],
        classes: set[int],
    ) -> None:
        if (id(code), id(namespace)) in seen:
            return
        seen.add((id(code), id(namespace)))
        names, used, imported = _names(code)
        if not _TYPES.isdisjoint(used - namespace.keys()) and users(namespace.get("__name__")):
            raise TypesTold
        if not _EFFECTS.isdisjoint(names):
            raise Unprovable
        for name in names:
            if name in namespace:
                self._add(namespace, name, names, found, seen, classes)
        for level, name in imported:
            for module in _imported(level, name, namespace):
                self._follow(module, names, found, seen, classes)

    def _add(
        self,
        space: Any,
        name: str,
        names: frozenset[str],
        found: dict[tuple[int, str], tuple[Any, str]],
        seen: set[tuple[int, int]],
        classes: set[int],
    ) -> None:
        key = (id(space), name)
        if key in found:
            return
        found[key] = (space, name)
        self._follow(space[name], names, found, seen, classes)

    def _follow(
        self,
        value: Any,
        names: frozenset[str],
        found: dict[tuple[int, str], tuple[Any, str]],
        seen: set[tuple[int, int]],
        classes: set[int],
    ) -> None:
        if isinstance(value, staticmethod | classmethod):
            value = value.__func__
        while not isinstance(value, FunctionType | type | ModuleType):
            inner = getattr(value, "function", None) or getattr(value, "__wrapped__", None)
            if inner is None:
                return
            value = inner
        if isinstance(value, FunctionType):
            if not ours(value.__module__):
                self._collect(value.__code__, value.__globals__, found, seen, classes)
        elif isinstance(value, type):
            # Its attributes are visited with the class.
            for kind in value.__mro__:
                if users(kind.__module__) and id(kind) not in classes:
                    classes.add(id(kind))
                    for part in vars(kind).values():
                        self._follow(part, names, found, seen, classes)
        elif isinstance(value, StandIn) or users(value.__name__):
            space = vars(value)
            for name in names:
                if name in space:
                    self._add(space, name, names, found, seen, classes)


@functools.cache
def _names(code: CodeType) -> tuple[frozenset[str], frozenset[str], frozenset[tuple[int, str]]]:
    """What a function and those inside it name: in any way, as globals, in imports.

    Names may also be given as strings, to ``getattr`` for instance.
    """
    names = set(code.co_names)
    used: set[str] = set()
    imported: set[tuple[int, str]] = set()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = _names(constant)
            names |= inner[0]
            used |= inner[1]
            imported |= inner[2]
        elif isinstance(constant, str) and constant not in _EFFECTS:
            names.add(constant)
    parts = list(dis.get_instructions(code))
    for number, part in enumerate(parts):
        if part.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            used.add(part.argval)
        elif part.opname == "IMPORT_NAME":
            # Its operands are the level, a constant, and the names that are wanted.
            level = next(p.argval for p in parts[number - 1 :: -1] if isinstance(p.argval, int))
            imported.add((level, part.argval))
    return frozenset(names), frozenset(used), frozenset(imported)


def _imported(level: int, name: str, namespace: dict[str, Any]) -> list[ModuleType]:
    """The modules that a function's own import names, from the outermost package on.

    Raises:
        NotLoaded: one of them will only be loaded by the import.
    """
    if level:
        package = str(namespace.get("__package__") or "").split(".")
        name = ".".join([*package[: len(package) - level + 1], *([name] if name else [])])
    parts = name.split(".")
    found = [sys.modules.get(".".join(parts[: n + 1])) for n in range(len(parts))]
    if None in found:
        raise NotLoaded
    return [module for module in found if module is not None]


def ours(module: str | None) -> bool:
    return (module or "").partition(".")[0] == PACKAGE


@functools.cache
def users(module: str | None) -> bool:
    """Whether a module is the user's: none of Python's, of ours, or installed."""
    root = (module or "").partition(".")[0]
    if root == PACKAGE or root in sys.stdlib_module_names or root in ("numpy", "ml_dtypes"):
        return False
    loaded = sys.modules.get(root)
    place = getattr(loaded, "__file__", None) or ""
    return "site-packages" not in place
