"""Masks as clamped sizes: ``rows = min(128, total - i * 128)``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from attrs import frozen

from accelopt_lsp.analysis.affine import Affine, Linear, Var, add, bounds, scale
from accelopt_lsp.analysis.values import IndexArray, Mask
from accelopt_lsp.rewrites.migrate.indices import _base
from accelopt_lsp.rewrites.migrate.linear import minus, plus, render, tidy
from accelopt_lsp.rewrites.migrate.operands import Cut, Cuts

if TYPE_CHECKING:
    from accelopt_lsp.rewrites.migrate.writer import Writer


@frozen(slots=True)
class Masked:
    """What a mask says: cuts, and conditions under which anything happens at all."""

    cuts: Cuts
    conditions: tuple[str, ...] = ()
    never: bool = False


NOT_MASKED = Masked(Cuts())


def read_mask(w: Writer, node: ast.expr | None) -> Masked:
    """A mask as cuts.

    Raises:
        NotApplicable: it is no comparison along one axis.
    """
    if node is None or (isinstance(node, ast.Constant) and node.value is None):
        return NOT_MASKED
    value = w.obs.value(node)
    if value is None:
        return NOT_MASKED
    if isinstance(value, bool):
        return NOT_MASKED if value else Masked(Cuts(), never=True)
    if not isinstance(value, Mask):
        raise w.refusal(node, "a mask that is not known")
    terms: list[tuple[IndexArray, ast.Compare | None]] = []
    comparisons = _comparisons(w, node)
    visits = [v for v in w.obs.all(node) if isinstance(v, Mask)]
    for number, term in enumerate(value.terms):
        if term is None:
            raise w.refusal(node, "a mask that is no affine comparison")
        matching = comparisons[number] if len(comparisons) == len(value.terms) else None
        terms.append((_widest(w, node, [v.terms[number] for v in visits], term), matching))
    rank = max((len(t.shape) for t, _ in terms), default=0)
    limits: dict[int, tuple[int, str, str, Linear, Linear]] = {}
    conditions: list[str] = []
    for term, compare in terms:
        lead = rank - len(term.shape)
        varying = [a for a, c in enumerate(term.coefficients) if c and term.shape[a] > 1]
        if not varying:
            low, high = bounds(term.base)
            if high < 0:
                return Masked(Cuts(), never=True)
            if low < 0:
                conditions.append(f"{render(term.base)} >= 0")
            continue
        if len(varying) > 1:
            raise w.refusal(
                node,
                "a mask over two axes; select elements with nisa.affine_select instead",
            )
        axis = varying[0]
        size, step = term.shape[axis], term.coefficients[axis]
        if abs(step) != 1:
            raise w.refusal(node, "a mask in steps other than 1")
        old = limits.get(axis + lead, (size, "0", str(size), 0, size))
        limits[axis + lead] = _narrowed(w, old, term, step, compare)
    cuts: dict[int, Cut] = {}
    for axis, (size, low_text, high_text, low_value, high_value) in limits.items():
        if (low_text, high_text) == ("0", str(size)):
            continue
        if _empty(low_value, high_value):
            high_name = w.clamp(node, high_text, axis, rank, size) if high_text != "" else ""
            conditions.append(f"{high_name} > {low_text}")
            cuts[axis] = Cut(size, low_text, high_name)
            continue
        cuts[axis] = Cut(size, low_text, w.clamp(node, high_text, axis, rank, size))
    return Masked(Cuts(rank, cuts), tuple(conditions))


def _widest(
    w: Writer, node: ast.expr, seen: list[IndexArray | None], term: IndexArray
) -> IndexArray:
    """The visit of a term that reaches furthest; a loop that is visited in parts has several."""
    known = [t for t in seen if t is not None]
    ranges = [bounds(t.base) for t in known]
    low, high = min(r[0] for r in ranges), max(r[1] for r in ranges)
    if bounds(term.base) == (low, high):
        return term
    name = next((v.name for t in known if isinstance(t.base, Affine) for v, _ in t.base.terms), "")
    var = Var(name or "?", 0, high - low + 1, 0)
    return IndexArray(term.shape, term.coefficients, Affine(low, ((var, 1),)))


def _empty(low: Linear, high: Linear) -> bool:
    """Whether nothing may be left in some iteration."""
    smallest, _ = bounds(add(high, scale(low, -1)))
    return smallest <= 0


def _narrowed(
    w: Writer,
    old: tuple[int, str, str, Linear, Linear],
    term: IndexArray,
    step: int,
    compare: ast.Compare | None,
) -> tuple[int, str, str, Linear, Linear]:
    size, low_text, high_text, low, high = old
    if step < 0:
        # base - k >= 0: the first base + 1 positions.
        limit = add(term.base, 1)
        smallest, largest = bounds(limit)
        if smallest >= size:
            return old
        text = _limit_text(w, compare, limit)
        if smallest == largest:
            text = str(smallest)
        if high_text != str(size):
            text = f"min({high_text}, {text})"
        elif largest > size or (largest == smallest == size):
            text = f"min({w.size_text(size)}, {text})"
        return size, low_text, text, low, limit
    first = scale(term.base, -1)
    smallest, largest = bounds(first)
    if largest <= 0:
        return old
    text = render(first)
    if smallest < 0:
        text = f"max(0, {text})"
    return size, text, high_text, first, high


def _limit_text(w: Writer, compare: ast.Compare | None, limit: Linear) -> str:
    """The end of what a comparison lets through, in the source's words if it is simple."""
    if isinstance(limit, int):
        return str(limit)
    if compare is not None and len(compare.ops) == 1:
        less = isinstance(compare.ops[0], ast.Lt | ast.LtE)
        small, large = compare.left, compare.comparators[0]
        if not less:
            small, large = large, small
        start, end = _base(w, small, 0), _base(w, large, 0)
        if start is not None and end is not None:
            strict = isinstance(compare.ops[0], ast.Lt | ast.Gt)
            text = minus(end, start)
            return tidy(text if strict else plus(text, "1"))
    if any(var.name == "?" or var.line == 0 for var, _ in limit.terms):
        raise w.refusal(compare, "a mask that could not be followed through its loops")
    return render(limit)


def _comparisons(w: Writer, node: ast.expr) -> list[ast.Compare | None]:
    """Comparisons of a conjunction, in the order in which they become terms."""
    if isinstance(node, ast.Name):
        found = w.definition(node)
        return [None] if found is None else _comparisons(w, found)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd):
        return [*_comparisons(w, node.left), *_comparisons(w, node.right)]
    if isinstance(node, ast.Compare):
        double = isinstance(node.ops[0], ast.Eq)
        return [node, node] if double else [node]
    return [None]


__all__ = ["NOT_MASKED", "Affine", "Masked", "read_mask"]
