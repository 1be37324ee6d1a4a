"""Python's own parser, for several threads."""

from __future__ import annotations

import ast
import threading

_lock = threading.Lock()


def parse_python(text: str) -> ast.Module:
    """``ast.parse(text)``, one at a time.

    Up to CPython 3.12 all threads share one counter of the depth of the tree under construction,
    and a garbage collection in between lets them take turns: two parses at once may then end with
    ``SystemError: AST constructor recursion depth mismatch``.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: as ``ast.parse``.
    """
    with _lock:
        return ast.parse(text)


def parse_expression(text: str) -> ast.expr:
    """The one expression that a text is; raises like :func:`parse_python`."""
    with _lock:
        return ast.parse(text, mode="eval").body
