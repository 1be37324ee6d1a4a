"""Source texts up to white space and comments: what deduplication and tags are based on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from tree_sitter import Node

from accelopt_lsp.analysis.syntax import Document


def _root(text: str) -> Node:
    return Document.parse(text).root


def tokens(text: str) -> Iterator[str]:
    """Tokens of a Python text without comments; ``{`` and ``}`` stand for indented blocks.

    Never raises: what is no Python still has tokens.
    """
    stack: list[tuple[Node, bool]] = [(_root(text), False)]
    while stack:
        node, done = stack.pop()
        if done:
            yield "\x03}"
            continue
        if node.type in ("comment", "line_continuation"):
            continue
        if node.type == "block":
            yield "\x02{"
            stack.append((node, True))
        if node.child_count == 0 or node.type == "string":
            raw = node.text or b""
            if raw:
                yield raw.decode("utf-8", "replace")
            continue
        if node.type.endswith("_statement") or node.type == "module":
            yield "\n"
        stack.extend((child, False) for child in reversed(node.children))


def fingerprint(text: str) -> str:
    """Hash that two texts share if they differ in white space and comments only."""
    digest = hashlib.sha256()
    for token in tokens(text):
        digest.update(token.encode("utf-8", "surrogatepass"))
        digest.update(b"\0")
    return digest.hexdigest()[:24]


def _functions(text: str) -> Iterator[tuple[str, Node]]:
    """(qualified name, node including decorators) of every function."""
    stack: list[tuple[Node, str]] = [(_root(text), "")]
    while stack:
        node, prefix = stack.pop()
        inner = prefix
        if node.type in ("function_definition", "class_definition"):
            name_node = node.child_by_field_name("name")
            name = (name_node.text or b"").decode() if name_node else ""
            qualified = f"{prefix}{name}"
            if node.type == "function_definition":
                whole = node.parent
                decorated = whole is not None and whole.type == "decorated_definition"
                yield qualified, whole if decorated and whole is not None else node
                inner = f"{qualified}.<locals>."
            else:
                inner = f"{qualified}."
        stack.extend((child, inner) for child in reversed(node.children))


def _find(text: str, function: str) -> Node | None:
    plain = function.replace(".<locals>.", ".")
    for name, node in _functions(text):
        if name == function or name.replace(".<locals>.", ".") == plain:
            return node
    return None


def function_text(text: str, function: str) -> str:
    """Source of one function with its decorators; the whole text if it is not found."""
    node = _find(text, function)
    return text if node is None else (node.text or b"").decode("utf-8", "replace")


def around_function(text: str, function: str) -> tuple[str, str, str] | None:
    """The text before a function, the function with its decorators, and the text after it.

    None if there is no such function.
    """
    node = _find(text, function)
    if node is None:
        return None
    data = text.encode("utf-8", "surrogatepass")
    parts = data[: node.start_byte], data[node.start_byte : node.end_byte], data[node.end_byte :]
    before, inside, after = (part.decode("utf-8", "surrogatepass") for part in parts)
    return before, inside, after


def loop_depth(text: str, function: str) -> int:
    """Depth of the deepest loop nest of a function."""
    start = _find(text, function)
    if start is None:
        return 0
    deepest = 0
    stack = [(start, 0)]
    while stack:
        node, depth = stack.pop()
        if node.type in ("for_statement", "while_statement"):
            depth += 1
            deepest = max(deepest, depth)
        stack.extend((child, depth) for child in node.children)
    return deepest
