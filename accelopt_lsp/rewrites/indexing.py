"""Parts of tensors: from index expressions to regions and shapes."""

from __future__ import annotations

import ast

from accelopt_lsp.rewrites.affine import Affine, Dim, Symbol
from accelopt_lsp.rewrites.values import TileList, Value, View


def placed_axis(base: Affine, elements: list[ast.expr]) -> Value:
    """``nl.arange(n)[:, None]``: where the axis varies."""
    axes = base.symbols("axis")
    if len(axes) != 1 or not elements:
        return None
    position = next((i for i, e in enumerate(elements) if isinstance(e, ast.Slice)), None)
    if position is None or not all(
        isinstance(e, ast.Slice) or (isinstance(e, ast.Constant) and e.value is None)
        for e in elements
    ):
        return None
    (axis,) = axes
    placed = Symbol(axis.name, "axis", axis.extent, position)
    return base.replaced(axis, Affine.of(placed))


def list_element(base: TileList, index: Value) -> Value:
    if base.broken or base.element is None or not isinstance(index, Affine):
        return None
    instance = dict(base.instance)
    if base.filler is not None:
        if not base.filler.plain:
            return None
        instance[base.filler.symbol] = index
    if isinstance(base.element, TileList):
        inner = base.element
        return TileList(
            inner.name, inner.loops, inner.element, inner.filler, inner.broken, instance
        )
    return View(base.element.tensor, base.element.region, base.element.shape, instance)


def _as_dim(value: Value) -> Dim | None:
    """A dimension from an index: a slice, an index array, or a single index."""
    if isinstance(value, Dim):
        return value
    if not isinstance(value, Affine):
        return None
    axes = sorted(value.symbols("axis"), key=value.coefficient)
    if not axes:
        return Dim(value, 1, point=True)
    start = value.without(*axes)
    step = value.coefficient(axes[0])
    extent = axes[0].extent
    if step <= 0 or extent is None:
        return None
    for axis in axes[1:]:
        if value.coefficient(axis) != step * extent or axis.extent is None:
            return None
        extent *= axis.extent
    return Dim(start, extent, step, axis=axes[0] if len(axes) == 1 else None)


def indexed(base: View, elements: list[ast.expr], indices: list[Value]) -> View:
    """A part of a view."""
    unknown = View(base.tensor, None, None, base.instance)
    if base.region is None:
        if base.shape is None:
            return unknown
        stand_in = View(base.tensor, tuple(Dim(Affine(), s) for s in base.shape), base.shape)
        return View(base.tensor, None, indexed(stand_in, elements, indices).shape, base.instance)
    kept = [i for i, d in enumerate(base.region) if not d.point]
    ellipsis = [
        i for i, e in enumerate(elements) if isinstance(e, ast.Constant) and e.value is Ellipsis
    ]
    dims: list[Value] = list(indices)
    if ellipsis:
        missing = len(kept) - (len(dims) - 1)
        if len(ellipsis) > 1 or missing < 0:
            return unknown
        at = ellipsis[0]
        dims[at : at + 1] = [Dim(Affine(), None)] * missing
    dims += [Dim(Affine(), None)] * (len(kept) - len(dims))
    if len(dims) != len(kept):
        return unknown
    region = list(base.region)
    axes: list[tuple[int, int]] = []
    shape: list[int | None] = []
    for position, index in zip(kept, dims, strict=True):
        found = _as_dim(index)
        if found is None:
            return unknown
        outer = base.region[position]
        extent = found.extent
        if extent is None and not found.point:
            left = found.start.value
            extent = outer.extent - left if outer.extent is not None and left is not None else None
        region[position] = Dim(
            outer.start.plus(found.start.times(outer.step)),
            extent,
            outer.step * found.step,
            found.point,
            found.axis,
        )
        if not found.point:
            shape.append(extent)
            if found.axis is not None and found.axis.position is not None:
                axes.append((found.axis.position, len(shape) - 1))
    if axes and len(axes) == len(shape):
        shape = [shape[i] for _, i in sorted(axes)]
    if axes and len(shape) == 1:
        shape = [*shape, 1] if axes[0][0] == 0 else [1, *shape]
    return View(base.tensor, tuple(region), tuple(shape), base.instance)
