"""What is remembered of a tree does not keep the tree: an editor's process sees many."""

from __future__ import annotations

import ast
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from accelopt_lsp.analysis.in_place import _changed_places
from accelopt_lsp.analysis.tree import nodes_by_kind, nodes_of, walk
from accelopt_lsp.analysis.uses import uses_of

TEXT = "@jit\ndef kernel(x):\n    x.shape[0] = nl.load(x)\n    def inner():\n        return x\n"


@pytest.mark.parametrize(
    "ask", [nodes_by_kind, lambda s: nodes_of(s, ast.FunctionDef), uses_of, _changed_places]
)
def test_a_tree_goes_once_nobody_has_it(ask: Callable[[ast.stmt], Any]) -> None:
    statement = ast.parse(TEXT).body[0]
    assert ask(statement) is not None
    gone = weakref.ref(statement)
    del statement
    assert gone() is None


def test_what_is_remembered_is_what_was_found() -> None:
    statement = ast.parse(TEXT).body[0]
    nodes = set(walk(statement))
    for _ in range(2):
        by_kind = nodes_by_kind(statement)
        assert {n for found in by_kind.values() for n in found} == nodes
        assert all(type(n) is kind for kind, found in by_kind.items() for n in found)
        assert len(nodes_of(statement, ast.FunctionDef)) == 2
        assert set(nodes_of(statement, ast.Name)) == set(by_kind[ast.Name])
    first, second = uses_of(statement), uses_of(statement)
    assert (first.nodes, first.calls, first.names, first.loads) == (
        second.nodes,
        second.calls,
        second.names,
        second.loads,
    )
    assert statement in second.nodes
