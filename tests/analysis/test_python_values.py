"""Values of plain Python: what static analysis finds is what Python finds."""

from __future__ import annotations

import importlib
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from accelopt_lsp.analysis.runner import new_machine
from accelopt_lsp.analysis.scope import UNBOUND
from accelopt_lsp.analysis.sequences import items_of
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.values import ListValue, Value

FOLDER = Path(__file__).parent / "packages" / "python"
FILES = sorted(p for p in FOLDER.glob("*.py") if p.name != "__init__.py")


def plain(value: Value) -> Any:
    """A value of the interpreter as Python's own."""
    if isinstance(value, ListValue):
        items = [plain(v) for v in items_of(value) or ()]
        return tuple(items) if value.fixed else items
    if isinstance(value, tuple):
        return tuple(plain(v) for v in value)
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, bool | int | float | str | None):
        return value
    return value


def cases() -> list[tuple[Path, str]]:
    found = []
    for path in FILES:
        module = importlib.import_module(f"tests.analysis.packages.python.{path.stem}")
        for name, value in vars(module).items():
            if name.isupper() and not any(isinstance(k, Enum) for k in _keys(value)):
                found.append((path, name))
    return found


def _keys(value: Any) -> list[Any]:
    return list(value) if isinstance(value, dict) else []


@pytest.mark.parametrize(("path", "name"), cases(), ids=lambda v: getattr(v, "stem", v))
def test_values(path, name):
    module = importlib.import_module(f"tests.analysis.packages.python.{path.stem}")
    machine = new_machine(Document.parse(path.read_text("utf-8")), path=path)
    found = machine.home.lookup(machine, name)
    assert found is not UNBOUND
    assert getattr(found, "reason", None) is None
    wanted = getattr(module, name)
    assert plain(found) == wanted
    assert type(plain(found)) is type(wanted)
