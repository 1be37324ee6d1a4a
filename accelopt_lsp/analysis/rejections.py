"""How the interpreter says that a text is refused: while it evaluates, at the argument at fault."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from accelopt_lsp.analysis.affine import Undecided
from accelopt_lsp.nki.diagnostics import Fix

NOT_AFFINE = "an expression of indices that is not affine"
"""Reason of what no mask may be made of."""
Place = int | str
"""An argument of a call: its position, or its keyword."""


class Rejected(Undecided):
    """A rule is broken, so the expression has no value. The message says how, with the figures.

    Attributes:
        code: the rule.
        at: which argument of the call it is about, first that is given; nothing for all of it.
    """

    def __init__(self, code: str, message: str, *at: Place) -> None:
        super().__init__(message)
        self.code = code
        self.at = at


def argument_node(node: ast.AST, *places: Place) -> ast.AST:
    """Syntax of the first of these arguments that a call has, or the call itself."""
    if isinstance(node, ast.Call):
        given: Mapping[str | None, ast.AST] = {k.arg: k.value for k in node.keywords}
        for place in places:
            if isinstance(place, str) and place in given:
                return given[place]
            if isinstance(place, int) and 0 <= place < len(node.args):
                return node.args[place]
    return node


def fix_at(node: ast.AST, title: str, rewrite: str, *, safe: bool = False, **more: object) -> Fix:
    """A rewrite that finds its place by line and column (in bytes, from 0)."""
    place = {"line": getattr(node, "lineno", 1), "column": getattr(node, "col_offset", 0)}
    return Fix(title, rewrite, {**place, **more}, safe)
