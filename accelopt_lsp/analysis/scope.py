"""Variables and an undo log, so that a loop body can be visited again from the same state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field

UNBOUND: Any = object()
"""No value: the name is not bound."""


@define(slots=True)
class Journal:
    """Undo log of everything that a visit changes.

    Every change of interpreter state goes through here; :meth:`rollback` restores the state
    at a mark. An entry is (owner, container, key, old): for a dictionary the old value of a
    key, :data:`UNBOUND` if it had none; for a list its old length (key None), or all its old
    items (key is :data:`UNBOUND`). The owner is the value (or scope) that holds the container.
    """

    entries: list[tuple[Any, Any, Any, Any]] = field(factory=list)

    def mark(self) -> int:
        return len(self.entries)

    def rollback(self, mark: int) -> None:
        entries = self.entries
        while len(entries) > mark:
            _, container, key, old = entries.pop()
            if isinstance(container, list):
                if key is None:
                    del container[old:]
                else:
                    container[:] = old
            elif callable(container):
                container()
            elif old is UNBOUND:
                container.pop(key, None)
            else:
                container[key] = old

    def set_item(self, table: dict[Any, Any], key: Any, value: Any, owner: Any = None) -> None:
        """``table[key] = value``, undoable."""
        self.entries.append((owner, table, key, table.get(key, UNBOUND)))
        table[key] = value

    def remove(self, table: dict[Any, Any], key: Any, owner: Any = None) -> None:
        """``del table[key]``, undoable."""
        self.entries.append((owner, table, key, table.pop(key)))

    def undo_with(self, undo: Callable[[], None]) -> None:
        """Note how to take back a change of something else."""
        self.entries.append((None, undo, None, None))

    def append(self, items: list[Any], value: Any, owner: Any = None) -> None:
        """``items.append(value)``, undoable."""
        self.entries.append((owner, items, None, len(items)))
        items.append(value)

    def replace(self, items: list[Any], new: list[Any], owner: Any = None) -> None:
        """``items[:] = new``, undoable."""
        self.entries.append((owner, items, UNBOUND, list(items)))
        items[:] = new


@define(slots=True, eq=False)
class Scope:
    """Names of one function (or of the module), with the scope around it.

    ``home``: the module that the code stands in (:class:`~accelopt_lsp.analysis.modules.Home`);
    ``inner``: a comprehension's, which walrus names go out of.
    """

    journal: Journal
    parent: Scope | None = None
    names: dict[str, Any] = field(factory=dict)
    outer_names: set[str] = field(factory=set)
    home: Any = None
    inner: bool = False

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
        self.journal.set_item(scope.names, name, value, scope)

    def remove(self, name: str) -> None:
        if name in self.names:
            self.journal.remove(self.names, name, self)
