"""Indices of the legacy dialect as slices, or as access patterns where slices cannot say it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from attrs import frozen

from accelopt_lsp.analysis.affine import Affine
from accelopt_lsp.analysis.dynamic import RunTimeIndex
from accelopt_lsp.analysis.rules.migration.scan import canonical_name
from accelopt_lsp.analysis.values import (
    Blocks,
    DynamicSlice,
    Grid,
    IndexArray,
    View,
)
from accelopt_lsp.nki.operands import DynamicKind, row_major_strides
from accelopt_lsp.rewrites.migrate.linear import minus, plus, render, times
from accelopt_lsp.rewrites.migrate.operands import NO_CUTS, Cut, Cuts, Operand, Span

if TYPE_CHECKING:
    from accelopt_lsp.rewrites.migrate.writer import Writer

WHOLE = slice(None)


@frozen(slots=True, eq=False)
class Element:
    """One element of a subscript: its syntax (None where it was left out) and its value."""

    node: ast.expr | None
    value: Any


def elements_of(w: Writer, index: ast.expr) -> list[Element]:
    nodes = index.elts if isinstance(index, ast.Tuple) else [index]
    found: list[Element] = []
    for node in nodes:
        value = w.obs.value(node)
        if isinstance(value, Grid):
            found += [Element(node, axis) for axis in value.axes]
        elif isinstance(value, tuple) and not isinstance(index, ast.Tuple):
            found += [Element(None, v) for v in value]
        else:
            found.append(Element(node, value))
    return found


def _flatten(w: Writer, node: ast.Subscript) -> tuple[ast.expr, list[Element]]:
    """The tensor and its elements; block indices may stand in subscripts of their own."""
    elements = elements_of(w, node.slice)
    root = node.value
    while isinstance(root, ast.Subscript) and isinstance(w.obs.value(root), Blocks):
        elements = [*elements_of(w, root.slice), *elements]
        root = root.value
    if isinstance(root, ast.Subscript):
        owner = w.obs.value(root.value)
        if isinstance(owner, Blocks):
            inner = elements_of(w, root.slice)
            count = owner.storage.blocks - len(owner.prefix)
            if len(inner) == count:
                return _flatten_more(w, root, elements)
    return root, elements


def _flatten_more(
    w: Writer, node: ast.Subscript, rest: list[Element]
) -> tuple[ast.expr, list[Element]]:
    root, elements = _flatten(w, node)
    return root, [*elements, *rest]


def access(w: Writer, node: ast.Subscript, cuts: Cuts = NO_CUTS) -> Operand:
    """A subscript of a tensor as current text.

    Raises:
        NotApplicable: no current form says the same.
    """
    view = w.obs.place(node)
    if view is None:
        raise w.refusal(node, f"what {w.source.one_line(node)} is could not be found out")
    root, elements = _flatten(w, node)
    owner = w.obs.value(root)
    if isinstance(owner, Blocks):
        count = owner.storage.blocks - len(owner.prefix)
        prefix = w.block_text(root, elements[:count])
        shape = owner.storage.tile_shape
        elements = elements[count:]
        plain_name = prefix if prefix.isidentifier() else None
    else:
        base = w.operand(root)
        prefix, shape, plain_name = base.text, base.shape, base.name
    elements = _padded(elements, len(shape))
    if any(e.value is None for e in elements):
        raise w.refusal(node, "a new axis (None) in the index of a tensor")
    if len(elements) != len(shape):
        raise w.refusal(node, f"{len(elements)} indices for {len(shape)} dimensions")
    found = cuts.of(view.shape)
    if view.dynamic is not None and view.dynamic.kind.run_time:
        return _dynamic(w, node, view, prefix, shape, elements, found)
    if any(isinstance(e.value, IndexArray) for e in elements):
        text, whole = _advanced(w, node, view, prefix, shape, elements, found)
    else:
        text, whole = _basic(w, view, prefix, shape, elements, found)
    name = plain_name if whole else None
    return Operand.of(text, view, name=name, cut=bool(found))


def _padded(elements: list[Element], rank: int) -> list[Element]:
    given = sum(e.value is not None and e.value is not Ellipsis for e in elements)
    missing = [Element(None, WHOLE)] * (rank - given)
    at = next((n for n, e in enumerate(elements) if e.value is Ellipsis), None)
    if at is not None:
        return [*elements[:at], *missing, *elements[at + 1 :]]
    return [*elements, *missing]


def _basic(
    w: Writer,
    view: View,
    prefix: str,
    shape: tuple[int, ...],
    elements: list[Element],
    found: dict[int, Cut],
) -> tuple[str, bool]:
    """Integers and slices: as written, unless a mask cuts them."""
    parts: list[str] = []
    axis = 0
    whole = True
    for dim, element in enumerate(elements):
        value, size = element.value, shape[dim]
        if isinstance(value, slice | DynamicSlice):
            cut = found.get(axis)
            if cut is not None:
                parts.append(_slice_span(w, element, size).cut(cut).text())
            elif element.node is None:
                parts.append(f"0:{size}")
            else:
                parts.append(w.text(element.node))
            entire = value == WHOLE or (
                isinstance(value, slice)
                and value.start in (None, 0)
                and value.step in (None, 1)
                and (value.stop is None or value.stop == size)
            )
            whole = whole and cut is None and entire
            axis += 1
        else:
            whole = False
            parts.append(_index_text(w, element))
            if view.on_chip and dim == 0:
                axis += 1
    while len(parts) > 1 and elements[len(parts) - 1].node is None and not found:
        parts.pop()
    if whole or (len(parts) == 1 and elements[0].node is None and not found):
        return prefix, True
    return f"{prefix}[{', '.join(parts)}]", False


def _slice_span(w: Writer, element: Element, size: int) -> Span:
    node = element.node
    if isinstance(node, ast.Slice):
        start = w.text(node.lower) if node.lower is not None else "0"
        stop = w.text(node.upper) if node.upper is not None else str(size)
        return Span(start, minus(stop, start))
    if isinstance(node, ast.Call) and len(node.args) == 2:
        return Span(w.text(node.args[0]), w.text(node.args[1]))
    return Span("0", str(size))


def _index_text(w: Writer, element: Element) -> str:
    if element.node is not None and not isinstance(element.value, IndexArray):
        return w.text(element.node)
    if isinstance(element.value, IndexArray):
        return base_text(w, element.node, element.value)
    return render(element.value)


def _advanced(
    w: Writer,
    node: ast.Subscript,
    view: View,
    prefix: str,
    shape: tuple[int, ...],
    elements: list[Element],
    found: dict[int, Cut],
) -> tuple[str, bool]:
    """Index arrays: slices if each runs along one axis, in order; else an access pattern."""
    varying = _varying(w, node, view, elements)
    order = [axes[0][0] for axes in varying if axes]
    simple = (
        all(len(axes) <= 1 and all(c > 0 for _, c in axes) for axes in varying)
        and order == sorted(set(order))
        and len(order) == sum(n > 1 for n in view.shape)
    )
    if simple:
        spans = _spans(w, view, shape, elements, varying, found)
        if spans is not None:
            return _sliced(prefix, shape, spans, found)
    return _pattern(w, node, view, prefix, shape, elements, varying, found), False


def _varying(
    w: Writer, node: ast.Subscript, view: View, elements: list[Element]
) -> list[list[tuple[int, int]]]:
    """By dimension: the axes along which its index varies, with the steps."""
    rank = len(view.shape)
    varying: list[list[tuple[int, int]]] = []
    for element in elements:
        axes: list[tuple[int, int]] = []
        if isinstance(element.value, IndexArray):
            lead = rank - len(element.value.shape)
            for axis, (n, c) in enumerate(
                zip(element.value.shape, element.value.coefficients, strict=True)
            ):
                if n > 1 and c:
                    axes.append((axis + lead, c))
        elif not isinstance(element.value, int | Affine):
            raise w.refusal(node, "slices and index arrays in one index")
        varying.append(axes)
    return varying


def _sliced(
    prefix: str, shape: tuple[int, ...], spans: list[Span | str], found: dict[int, Cut]
) -> tuple[str, bool]:
    whole = not found and all(
        isinstance(s, Span) and s.step == 1 and s.start in ("", "0") and s.whole for s in spans
    )
    if whole:
        return prefix, True
    parts = [s.text() if isinstance(s, Span) else s for s in spans]
    return f"{prefix}[{', '.join(parts)}]", False


def _spans(
    w: Writer,
    view: View,
    shape: tuple[int, ...],
    elements: list[Element],
    varying: list[list[tuple[int, int]]],
    found: dict[int, Cut],
) -> list[Span | str] | None:
    """One entry a dimension; None if axes of size 1 find no dimension."""
    entries: list[Span | str] = []
    for dim, element in enumerate(elements):
        if not varying[dim]:
            entries.append(_index_text(w, element))
            continue
        axis, step = varying[dim][0]
        n = view.shape[axis]
        start = base_text(w, element.node, element.value)
        count = count_text(w, element.node, n)
        span = Span(start, count, step, whole=n == shape[dim])
        cut = found.get(axis)
        entries.append(span if cut is None else span.cut(cut))
    covered = {varying[d][0][0]: d for d in range(len(elements)) if varying[d]}
    low = 0
    for axis in range(len(view.shape)):
        if axis in covered:
            low = covered[axis] + 1
            continue
        later = [d for a, d in covered.items() if a > axis]
        high = min(later, default=len(elements))
        free = [d for d in range(low, high) if isinstance(entries[d], str)]
        missing = sum(a not in covered for a in range(axis, _next(covered, axis, len(view.shape))))
        if len(free) < missing:
            return None
        at = free[len(free) - missing]
        text = entries[at]
        assert isinstance(text, str)
        entries[at] = Span(text, "1", whole=shape[at] == 1)
        low = at + 1
    spans = sum(isinstance(e, Span) for e in entries)
    return entries if spans == len(view.shape) else None


def _next(covered: dict[int, int], axis: int, rank: int) -> int:
    return min((a for a in covered if a > axis), default=rank)


def reordered(w: Writer, node: ast.Subscript, order: list[int]) -> str:
    """An indexed tensor with its axes in another order, as an access pattern.

    Raises:
        NotApplicable: it is a part of a part.
    """
    view = w.obs.place(node)
    root, elements = _flatten(w, node)
    owner = w.obs.value(root)
    if view is None or not isinstance(owner, View) or not isinstance(root, ast.Name):
        raise w.refusal(node, "axes in another order of a tensor that has no name")
    elements = _padded(elements, len(owner.shape))
    if not all(isinstance(e.value, IndexArray | int | Affine) for e in elements):
        raise w.refusal(node, "axes in another order of slices")
    varying = _varying(w, node, view, elements)
    text = w.operand(root).text
    return _pattern(w, node, view, text, owner.shape, elements, varying, {}, order)


def _pattern(
    w: Writer,
    node: ast.Subscript,
    view: View,
    prefix: str,
    shape: tuple[int, ...],
    elements: list[Element],
    varying: list[list[tuple[int, int]]],
    found: dict[int, Cut],
    order: list[int] | None = None,
) -> str:
    """``tensor.ap(pattern=[[step, count], ...], offset=...)``."""
    if not prefix.replace("[", "").replace("]", "").replace("_", "a").isalnum():
        raise w.refusal(node, "an access pattern of a part of a tensor; give the tensor a name")
    strides = row_major_strides(shape)
    steps = [0] * len(view.shape)
    for dim, axes in enumerate(varying):
        for axis, coefficient in axes:
            steps[axis] += coefficient * strides[dim]
    if view.on_chip:
        if varying[0] not in ([], [(0, 1)]):
            raise w.refusal(node, "partitions that do not follow each other")
        steps[0] = strides[0]
    offset = "0"
    for dim, element in enumerate(elements):
        start = (
            base_text(w, element.node, element.value)
            if isinstance(element.value, IndexArray)
            else _index_text(w, element)
        )
        offset = plus(offset, times(start, str(strides[dim])))
    counts: list[str] = []
    for axis, n in enumerate(view.shape):
        cut = found.get(axis)
        if cut is None:
            counts.append(count_text(w, node.slice, n))
            continue
        counts.append(minus(cut.high, cut.low))
        offset = plus(offset, times(cut.low, str(steps[axis])))
    pairs = [f"[{s}, {n}]" for s, n in zip(steps, counts, strict=True)]
    pattern = ", ".join(pairs if order is None else [pairs[a] for a in order])
    tail = f", offset={offset}" if offset != "0" else ""
    return f"{prefix}.ap(pattern=[{pattern}]{tail})"


def _dynamic(
    w: Writer,
    node: ast.Subscript,
    view: View,
    prefix: str,
    shape: tuple[int, ...],
    elements: list[Element],
    found: dict[int, Cut],
) -> Operand:
    """One index is read from a tile: an access pattern with a run-time offset."""
    if not prefix.isidentifier():
        raise w.refusal(node, "a run-time index into a part of a tensor; give the tensor a name")
    rank = len(view.shape)
    strides = row_major_strides(shape)
    steps = [0] * rank
    offset = "0"
    index: ast.expr | None = None
    dim_of_index = 0
    vector = view.dynamic is not None and view.dynamic.kind is DynamicKind.VECTOR
    for dim, element in enumerate(elements):
        value = element.value
        if isinstance(value, View | RunTimeIndex):
            dim_of_index = dim
            index, shift, start = _run_time_parts(w, element)
            for axis, (n, c) in enumerate(zip(shift.shape, shift.coefficients, strict=True)):
                if n > 1:
                    steps[axis + rank - len(shift.shape)] += c * strides[dim]
            offset = plus(offset, times(start, str(strides[dim])))
            if vector:
                steps[0] = strides[dim]
            continue
        if isinstance(value, IndexArray):
            lead = rank - len(value.shape)
            for axis, (n, c) in enumerate(zip(value.shape, value.coefficients, strict=True)):
                if n > 1:
                    steps[axis + lead] += c * strides[dim]
        elif not isinstance(value, int | Affine):
            raise w.refusal(node, "a run-time index beside slices")
        offset = plus(offset, times(_index_text(w, element), str(strides[dim])))
    if index is None:
        raise w.refusal(node, "a run-time index whose form is not known")
    if view.on_chip:
        steps[0] = strides[0]
    counts = []
    for axis, n in enumerate(view.shape):
        cut = found.get(axis)
        if cut is not None and cut.low != "0":
            raise w.refusal(node, "a mask that cuts the beginning of a run-time index")
        counts.append(count_text(w, node.slice, n) if cut is None else cut.high)
    pattern = ", ".join(f"[{s}, {n}]" for s, n in zip(steps, counts, strict=True))
    parts = [f"pattern=[{pattern}]"]
    if offset != "0":
        parts.append(f"offset={offset}")
    limited = Cuts(rank, {0: found[0]}) if vector and 0 in found else NO_CUTS
    tile = w.operand(index, limited)
    parts.append(f"{'vector' if vector else 'scalar'}_offset={tile.text}")
    parts.append(f"indirect_dim={dim_of_index}")
    return Operand.of(f"{prefix}.ap({', '.join(parts)})", view, cut=bool(found))


def _run_time_parts(w: Writer, element: Element) -> tuple[ast.expr, IndexArray, str]:
    """Tile, what is added to it along the axes, and the start, of a run-time index."""
    node, value = element.node, element.value
    assert node is not None
    if isinstance(value, View):
        return node, IndexArray((), (), 0), "0"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        for tile, shift in ((node.left, node.right), (node.right, node.left)):
            if isinstance(w.obs.value(tile), View):
                found = w.obs.value(shift)
                if isinstance(found, IndexArray):
                    return tile, found, base_text(w, shift, found)
    raise w.refusal(node, "a run-time index of this form")


def base_text(w: Writer, node: ast.expr | None, value: IndexArray) -> str:
    """Where an index array begins, as the source says it where that is possible."""
    found = _base(w, node, 0)
    if found is not None:
        return found
    texts = {render(v.base) for v in w.obs.all(node) if isinstance(v, IndexArray)} if node else ()
    if len(texts) > 1:
        raise w.refusal(node, "an index that could not be followed through its loops")
    return render(value.base)


def _base(w: Writer, node: ast.expr | None, depth: int) -> str | None:
    if node is None or depth > 12:
        return None
    value = w.obs.value(node)
    if isinstance(value, int | Affine) and not isinstance(value, bool):
        return w.text(node)
    if not isinstance(value, IndexArray):
        return None
    if all(v.base == 0 for v in w.obs.all(node) if isinstance(v, IndexArray)):
        return "0"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        left, right = _base(w, node.left, depth + 1), _base(w, node.right, depth + 1)
        if left is None or right is None:
            return None
        return plus(left, right) if isinstance(node.op, ast.Add) else minus(left, right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _base(w, node.left, depth + 1), _base(w, node.right, depth + 1)
        return None if left is None or right is None else times(left, right)
    if isinstance(node, ast.Subscript):
        return _base(w, node.value, depth + 1)
    if isinstance(node, ast.Name):
        definition = w.definition(node)
        return None if definition is None else _base(w, definition, depth + 1)
    if isinstance(node, ast.Call) and len(node.args) == 2:
        return w.text(node.args[0])
    return None


def count_text(w: Writer, node: ast.expr | None, n: int) -> str:
    """The number of positions, by the name that ``nl.arange`` was given for it."""
    names: set[str] = set()
    seen: set[str] = set()
    stack: list[ast.AST] = [node] if node is not None else []
    while stack:
        current = stack.pop()
        if isinstance(current, ast.Call):
            if canonical_name(current.func, w.aliases) == "nl.arange" and len(current.args) == 1:
                size = current.args[0]
                if isinstance(size, ast.Name | ast.Attribute) and w.obs.value(size) == n:
                    names.add(w.text(size))
                continue
        if isinstance(current, ast.Slice) and isinstance(current.upper, ast.Name):
            if w.obs.value(current.upper) == n and current.lower is not None:
                if w.obs.value(current.lower) == 0:
                    names.add(w.text(current.upper))
        if isinstance(current, ast.Name) and current.id not in seen:
            seen.add(current.id)
            definition = w.definition(current)
            if definition is not None:
                stack.append(definition)
            continue
        stack.extend(ast.iter_child_nodes(current))
    return names.pop() if len(names) == 1 else str(n)
