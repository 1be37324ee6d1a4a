"""Linear forms as source text."""

from __future__ import annotations

import ast
import re

from accelopt_lsp.analysis.affine import Affine, Linear
from accelopt_lsp.nki.python_source import parse_expression

_NUMBER = re.compile(r"-?\d+")


def is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def render(value: Linear) -> str:
    """``10944 - 128 * i0``: a linear form over loop variables, positive terms first."""
    if isinstance(value, int):
        return str(value)
    terms = [(c, var.name) for var, c in value.terms]
    pieces: list[tuple[int, str]] = []
    for coefficient, name in terms:
        size = abs(coefficient)
        pieces.append((1 if coefficient > 0 else -1, name if size == 1 else f"{size} * {name}"))
    if value.const:
        constant = (1 if value.const > 0 else -1, str(abs(value.const)))
        pieces = [*pieces, constant]
    pieces.sort(key=lambda p: p[0] < 0)
    text = ""
    for sign, piece in pieces:
        if not text:
            text = piece if sign > 0 else f"-{piece}"
        else:
            text += f" {'+' if sign > 0 else '-'} {piece}"
    return text


def atom(text: str) -> str:
    """The text in parentheses where it is a sum or product, for use in a product."""
    try:
        node = parse_expression(text)
    except SyntaxError:
        return f"({text})"
    simple = (ast.Name, ast.Constant, ast.Attribute, ast.Call, ast.Subscript)
    return text if isinstance(node, simple) else f"({text})"


def term(text: str) -> str:
    """The text in parentheses where it binds weaker than a sum's right side."""
    try:
        node = parse_expression(text)
    except SyntaxError:
        return f"({text})"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        return f"({text})"
    if isinstance(node, ast.BinOp | ast.Name | ast.Constant | ast.Attribute | ast.Call):
        return text
    return text if isinstance(node, ast.Subscript) else f"({text})"


def plus(left: str, right: str) -> str:
    """``left + right``, with numbers added up."""
    left, right = left or "0", right or "0"
    if right == "0":
        return left
    if left == "0":
        return right
    if is_number(left) and is_number(right):
        return str(int(left) + int(right))
    head, sign, tail = _last_number(left)
    if is_number(right) and tail is not None:
        total = (tail if sign == "+" else -tail) + int(right)
        if total == 0:
            return head
        return f"{head} {'+' if total > 0 else '-'} {abs(total)}"
    if is_number(right) and int(right) < 0:
        return f"{left} - {-int(right)}"
    if right.startswith("-") and not is_number(right):
        return f"{left} - {term(right[1:])}" if _simple_negative(right) else f"{left} + ({right})"
    return f"{left} + {right}"


def minus(left: str, right: str) -> str:
    """``left - right``, with numbers subtracted."""
    left, right = left or "0", right or "0"
    if right == "0":
        return left
    if is_number(left) and is_number(right):
        return str(int(left) - int(right))
    if is_number(right):
        return plus(left, str(-int(right)))
    if left == right:
        return "0"
    if left == "0":
        return f"-{atom(right)}"
    return f"{left} - {term(right)}"


def times(left: str, right: str) -> str:
    """``left * right``, with numbers multiplied."""
    if "0" in (left, right):
        return "0"
    if left == "1":
        return right
    if right == "1":
        return left
    if is_number(left) and is_number(right):
        return str(int(left) * int(right))
    return f"{atom(left)} * {atom(right)}"


def tidy(text: str) -> str:
    """A sum with its positive terms first and its numbers added up: ``10944 - 128 * i``.

    What begins with a positive term stays as it is written.
    """
    if not text.startswith("-") and "+ -" not in text:
        return text
    terms: dict[str, int] = {}
    try:
        _collect(parse_expression(text), 1, terms)
    except (SyntaxError, ValueError):
        return text
    constant = terms.pop("", 0)
    pieces = [(c, n if abs(c) == 1 else f"{abs(c)} * {n}") for n, c in terms.items() if c]
    if constant:
        pieces.append((constant, str(abs(constant))))
    pieces.sort(key=lambda p: p[0] < 0)
    result = ""
    for sign, piece in pieces:
        if result:
            result += f" {'+' if sign > 0 else '-'} {piece}"
        else:
            result = piece if sign > 0 else f"-{piece}"
    return result or "0"


def _collect(node: ast.expr, factor: int, terms: dict[str, int]) -> None:
    """Add a sum's terms up.

    Raises:
        ValueError: a product that is not linear.
    """
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        _collect(node.left, factor, terms)
        _collect(node.right, factor if isinstance(node.op, ast.Add) else -factor, terms)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        _collect(node.operand, -factor, terms)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        terms[""] = terms.get("", 0) + factor * node.value
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        number = _constant(node.left)
        if number is None:
            raise ValueError("not linear")
        _collect(node.right, factor * number, terms)
    else:
        name = ast.unparse(node)
        terms[name] = terms.get(name, 0) + factor


def _constant(node: ast.expr) -> int | None:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if isinstance(value, int) else None


def _last_number(text: str) -> tuple[str, str, int | None]:
    """``a + 3`` as ("a", "+", 3)."""
    found = re.fullmatch(r"(.*\S) ([+-]) (\d+)", text)
    if found is None or text.count("(") != text.count(")"):
        return text, "+", None
    head = found[1]
    if head.count("(") != head.count(")") or head.count("[") != head.count("]"):
        return text, "+", None
    return head, found[2], int(found[3])


def _simple_negative(text: str) -> bool:
    """Whether the text is the negation of one product: ``-128 * i``."""
    try:
        node = parse_expression(text)
    except SyntaxError:
        return False
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        node = node.left
    return isinstance(node, ast.UnaryOp)


__all__ = ["Affine", "atom", "is_number", "minus", "plus", "render", "term", "tidy", "times"]
