"""Variables and an undo log, so that a loop body can be visited again from the same state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field

Undo = Callable[[], None]
UNBOUND = object()
"""No value: the name is not bound."""


@define(slots=True)
class Journal:
    """Undo log of everything that a visit changes.

    Every change of interpreter state goes through here; :meth:`rollback` restores the state
    at a mark.
    """

    entries: list[Undo] = field(factory=list)

    def mark(self) -> int:
        return len(self.entries)

    def rollback(self, mark: int) -> None:
        while len(self.entries) > mark:
            self.entries.pop()()

    def set_item(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        """``table[key] = value``, undoable."""
        if key in table:
            old = table[key]
            self.entries.append(lambda: table.__setitem__(key, old))
        else:
            self.entries.append(lambda: table.pop(key, None))
        table[key] = value

    def append(self, items: list[Any], value: Any) -> None:
        """``items.append(value)``, undoable."""
        length = len(items)
        self.entries.append(lambda: items.__delitem__(slice(length, None)))
        items.append(value)

    def replace(self, items: list[Any], new: list[Any]) -> None:
        """``items[:] = new``, undoable."""
        old = list(items)
        self.entries.append(lambda: items.__setitem__(slice(None), old))
        items[:] = new


@define(slots=True, eq=False)
class Scope:
    """Names of one function (or of the module), with the scope around it.

    ``home``: the module that the code stands in (:class:`~accelopt_lsp.analysis.modules.Home`).
    """

    journal: Journal
    parent: Scope | None = None
    names: dict[str, Any] = field(factory=dict)
    outer_names: set[str] = field(factory=set)
    home: Any = None

    def __attrs_post_init__(self) -> None:
        if self.parent is not None:
            self.home = self.parent.home

    def find(self, name: str) -> Any:
        """Value of a name, or :data:`UNBOUND` if it is bound neither here nor further out."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.names.get(name, UNBOUND)
            if found is not UNBOUND:
                return found
            scope = scope.parent
        return UNBOUND

    def assign(self, name: str, value: Any) -> None:
        scope: Scope = self
        if name in self.outer_names:
            candidate = self.parent
            while candidate is not None:
                if name in candidate.names:
                    scope = candidate
                    break
                candidate = candidate.parent
        self.journal.set_item(scope.names, name, value)

    def remove(self, name: str) -> None:
        if name in self.names:
            names, old = self.names, self.names[name]
            self.journal.entries.append(lambda: names.__setitem__(name, old))
            del self.names[name]
