"""Python's own parser, for several threads."""

from __future__ import annotations

import ast
import threading
import warnings

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


def check_python(text: str) -> None:
    """Compile a text, and forget the result: that is quicker than making a tree of it.

    ``await`` may stand outside functions, as it may in a notebook.

    Raises:
        SyntaxError: it is not Python, or not at that place (``return`` outside a function).
        ValueError, RecursionError, MemoryError: as ``compile``.
    """
    with _lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compile(text, "<kernel>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def parse_expression(text: str) -> ast.expr:
    """The one expression that a text is; raises like :func:`parse_python`."""
    with _lock:
        return ast.parse(text, mode="eval").body
