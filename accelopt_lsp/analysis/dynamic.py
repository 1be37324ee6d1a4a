"""Views whose place is known at run time only: offsets in SBUF, index vectors, other types."""

from __future__ import annotations

import ast
from collections.abc import Callable
from math import prod

from attrs import evolve, frozen

from accelopt_lsp.analysis.affine import Linear, Undecided, add, floordiv, scale, split
from accelopt_lsp.analysis.grids import combine, scaled
from accelopt_lsp.analysis.registers import Register
from accelopt_lsp.analysis.rejections import Rejected
from accelopt_lsp.analysis.values import Fault, IndexArray, ListValue, Unknown, Value, View
from accelopt_lsp.nki.dtypes import DType
from accelopt_lsp.nki.operands import Buffer, Dynamic, DynamicKind, row_major_strides

Static = Callable[[View, tuple[Value, ...]], View]
"""Indexing by affine index arrays alone."""


@frozen(slots=True, eq=False)
class RunTimeIndex:
    """A number in SBUF plus an index array, as in ``offsets[0, i] + i_f`` (legacy dialect)."""

    tile: View
    shift: IndexArray


def combined(op: ast.AST, left: Value, right: Value) -> Value:
    """``tile + index`` and ``tile - index``.

    Raises:
        Undecided: any other operator.
    """
    if isinstance(op, ast.Add):
        tile, shift = (left, right) if isinstance(left, View) else (right, left)
    elif isinstance(op, ast.Sub) and isinstance(left, View):
        tile, shift = left, scaled(right, -1)
    else:
        raise Undecided("an index computed from a tile and an index array")
    return RunTimeIndex(tile, shift)


@frozen(slots=True, eq=False)
class RunTimeOffset:
    """An offset from a register, or from one number in SBUF.

    Attributes:
        kind: where it comes from.
        tile: the tile that holds it; None for registers.
        known: what of it is known already, in units of the index.
    """

    kind: DynamicKind
    tile: View | None = None
    known: Linear = 0

    def attached(self, view: View) -> View:
        """The view at this offset."""
        if self.tile is not None:
            return _attached(view, self.kind, self.tile)
        if view.dynamic is not None:
            raise Undecided("two run-time indices of one view")
        return evolve(view, dynamic=Dynamic(self.kind))


def offset_of(source: Value) -> RunTimeOffset:
    """What a register or a tile with one number adds to an address.

    Raises:
        Undecided: it is neither.
    """
    if isinstance(source, Register):
        number = source.number()
        place = number if source.frozen and not isinstance(number, Unknown) else 0
        return RunTimeOffset(DynamicKind.REGISTER, known=place)
    if isinstance(source, View) and prod(source.shape) == 1:
        return RunTimeOffset(DynamicKind.SCALAR, source)
    raise Undecided("a run-time offset that is no register and no single number in SBUF")


def _attached(view: View, kind: DynamicKind, index: View) -> View:
    if view.dynamic is not None:
        raise Rejected("R083", "a view can have one run-time index only, this one has it already")
    return evolve(view, dynamic=Dynamic(kind, index.operand()), index=index)


def indexed(view: View, parts: tuple[Value, ...], static: Static) -> View:
    """``t[tile, i_f]``: one index is a tile, the others are affine (legacy dialect).

    Raises:
        Undecided: other forms.
    """
    at = [n for n, part in enumerate(parts) if isinstance(part, View | RunTimeIndex)]
    if len(at) != 1 or len(parts) != len(view.shape):
        raise Undecided("these run-time indices are not analyzed")
    dim = at[0]
    given = parts[dim]
    if isinstance(given, View):
        rank = len(given.shape)
        given = RunTimeIndex(given, IndexArray((1,) * rank, (0,) * rank, 0))
    tile, shift = given.tile, given.shift
    single = prod(tile.shape) == 1
    if tile.buffer is not Buffer.SBUF:
        raise Rejected(
            "R083", f"indices must be in SBUF, these are in {tile.buffer.upper()}; load them first"
        )
    if not single and prod(tile.shape[1:]) != 1:
        raise Rejected(
            "R017",
            f"indices of shape {list(tile.shape)}: one index a partition is what a DMA takes; "
            "index the tile with nl.arange(n)[:, None], not with nl.mgrid",
        )
    if not single and view.on_chip:
        raise Rejected(
            "R011",
            f"{tile.shape[0]} run-time indices address a tensor in HBM by load, store or DMA; "
            "within a tile use nisa.tensor_copy_dynamic_src with one index, or nl.gather_flattened",
        )
    rank = max(len(p.shape) for p in (tile, shift, *parts) if isinstance(p, View | IndexArray))
    own = tile.shape
    if not single and len(own) < rank:
        own = (tile.shape[0], *(1,) * (rank - 1))
    grid = combine(IndexArray(own, (0,) * len(own), 0), shift, add)
    base = IndexArray(grid.shape, grid.coefficients, 0)
    found = static(view, (*parts[:dim], base, *parts[dim + 1 :]))
    if found.fault is not None:
        fault = Fault(tuple(t for t in found.fault.terms if t[0] != dim))
        found = evolve(found, fault=fault if fault.describe(found.shape) else None)
    offset = add(found.offset, scale(grid.base, view.strides[dim]))
    kind = DynamicKind.SCALAR if single else DynamicKind.VECTOR
    return _attached(evolve(found, offset=offset), kind, tile)


def select(view: View, dim: int, index: View | Register) -> View:
    """``t.select(dim, register_or_number_in_sbuf)``."""
    shape = (*view.shape[:dim], *view.shape[dim + 1 :])
    strides = (*view.strides[:dim], *view.strides[dim + 1 :])
    while len(shape) < (2 if view.on_chip else 1):
        shape, strides = (*shape, 1), (*strides, 1)
    offset = offset_of(index)
    moved = add(view.offset, scale(offset.known, view.strides[dim]))
    return offset.attached(evolve(view, shape=shape, strides=strides, offset=moved))


def vector_select(view: View, index: View) -> View:
    """``t.vector_select(0, offsets)``."""
    shape = (index.shape[0], *view.shape[1:])
    made = evolve(view, shape=shape, strides=(0, *view.strides[1:]))
    return _attached(made, DynamicKind.VECTOR, index)


def access_pattern(
    view: View,
    pairs: list[tuple[int, ...]],
    offset: Linear,
    scalar: Value,
    vector: Value,
    dtype: DType | None,
    dim: int = 0,
) -> View:
    """``t.ap(pattern, offset, scalar_offset, vector_offset, indirect_dim, dtype=)``."""
    shape, strides = tuple(p[1] for p in pairs), tuple(p[0] for p in pairs)
    kind = dtype or view.dtype
    start = view.offset
    if kind.nbytes != view.dtype.nbytes:
        start = _rescaled(start, view.dtype.nbytes, kind.nbytes)
    if vector is not None and not isinstance(vector, View):
        raise Undecided("a vector of offsets that is no tile")
    if vector is not None:
        strides = (0, *strides[1:])
    if scalar is not None and vector is not None:
        raise Rejected(
            "R083",
            "scalar_offset and vector_offset cannot be combined; add the one to the other first",
            "scalar_offset",
            2,
        )
    if vector is not None and view.on_chip:
        raise Rejected("R083", "vector_offset needs a tensor in HBM", "vector_offset", 3)
    row = view.storage.row * view.storage.dtype.nbytes // kind.nbytes
    if view.on_chip and shape and shape[0] > 1 and strides[0] != row:
        raise Rejected(
            "R082",
            f"the first stride of a pattern on chip is the free size {row}, got {strides[0]}: "
            "partitions cannot be strided",
            "pattern",
            0,
        )
    while len(shape) < 2 and view.on_chip:
        shape, strides = (*shape, 1), (*strides, 1)
    made = evolve(
        view, shape=shape, strides=strides, offset=add(start, offset), dtype=kind,
        fault=None, dynamic=None, index=None,
    )  # fmt: skip
    if scalar is not None:
        moving = offset_of(scalar)
        moved = _rescaled(scale(moving.known, view.strides[dim]), view.dtype.nbytes, kind.nbytes)
        return moving.attached(evolve(made, offset=add(made.offset, moved)))
    return made if vector is None else _attached(made, DynamicKind.VECTOR, vector)


def indirect(view: View, index: View, count: int | None) -> View:
    """``t.indirect(index, count)``: columns gathered or scattered by the engine."""
    number = prod(index.shape) if count is None else count
    made = evolve(view, shape=(view.shape[0], number), strides=(view.strides[0], 0))
    return _attached(made, DynamicKind.GATHER, index)


def _rescaled(offset: Linear, old: int, new: int) -> Linear:
    """An offset counted in elements of another size.

    Raises:
        Undecided, NeedSplit: it is none of these elements' beginnings for sure.
    """
    nbytes = scale(offset, old)
    if isinstance(nbytes, int):
        if nbytes % new:
            raise Undecided("a view as another type between two elements")
        return nbytes // new
    if any(n % new for n in (nbytes.const, *(step for _, step in nbytes.terms))):
        raise split(nbytes.terms, "a view as a wider type whose place depends on the iteration")
    return floordiv(nbytes, new)


def reinterpret(view: View, dtype: DType) -> View:
    """``t.view(dtype)``."""
    old, new = view.dtype.nbytes, dtype.nbytes
    if view.dynamic is not None:
        raise Undecided("a run-time index before a change of type")
    if old == new:
        return evolve(view, dtype=dtype)
    # A dimension of one element has no step.
    outer = zip(view.shape[:-1], view.strides[:-1], strict=True)
    sizes = (*(step for count, step in outer if count > 1), view.shape[-1])
    if any(n * old % new for n in sizes) or (view.shape[-1] > 1 and view.strides[-1] != 1):
        raise Undecided("a view as another type that does not fit")
    return evolve(
        view,
        shape=(*view.shape[:-1], view.shape[-1] * old // new),
        strides=(*[s * old // new for s in view.strides[:-1]], 1),
        offset=_rescaled(view.offset, old, new),
        dtype=dtype,
        fault=None,
    )


def rearrange(
    view: View, source: Value, target: Value, sizes: dict[str, int]
) -> tuple[View, tuple[int, ...]]:
    """``t.rearrange(...)`` before dimensions are merged, and the shape that merging leaves.

    Raises:
        Undecided: patterns that are not known, or do not fit.
    """
    named: dict[str, tuple[int, int]] = {}
    groups = [_names(g) for g in _names(source)]
    if len(groups) != len(view.shape):
        raise Undecided("a pattern that does not fit its tensor")
    for group, size, stride in zip(groups, view.shape, view.strides, strict=True):
        known = [sizes.get(n, -1) for n in group]
        rest = prod(n for n in known if n != -1)
        parts = tuple(size // max(rest, 1) if n == -1 else n for n in known)
        if known.count(-1) > 1 or prod(parts) != size:
            raise Undecided("a pattern whose sizes are not known")
        for name, part, step in zip(group, parts, row_major_strides(parts), strict=True):
            named[name] = (part, step * stride)
    wanted = [_names(g) for g in _names(target)]
    flat = [named[n] for g in wanted for n in g if n in named]
    if len(flat) != len(named):
        raise Undecided("patterns that name different dimensions")
    made = evolve(view, shape=tuple(n for n, _ in flat), strides=tuple(s for _, s in flat))
    return made, tuple(prod(named[n][0] for n in g) for g in wanted)


def _names(group: Value) -> tuple[Value, ...]:
    if isinstance(group, ListValue):
        return tuple(group.items)
    return group if isinstance(group, tuple) else (group,)
