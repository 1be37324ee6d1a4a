"""Indexing, view methods and operators of tensors."""

from __future__ import annotations

import ast
from math import prod
from typing import Any

from attrs import evolve

from accelopt_lsp.analysis import affine, dynamic
from accelopt_lsp.analysis.affine import Affine, Linear, Undecided, add, bounds, scale, subtract
from accelopt_lsp.analysis.issue import call_api
from accelopt_lsp.analysis.machine import Machine
from accelopt_lsp.analysis.registers import Register
from accelopt_lsp.analysis.rejections import Rejected
from accelopt_lsp.analysis.sequences import part_of
from accelopt_lsp.analysis.values import (
    Blocks,
    ClassValue,
    DynamicSlice,
    Fault,
    Grid,
    HostArray,
    IndexArray,
    Instance,
    ListValue,
    ParDim,
    Ref,
    Unknown,
    Value,
    View,
    item_at,
    list_item,
)
from accelopt_lsp.nki.dialects import Dialect

FULL = slice(None)
_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "nl.add",
    ast.Sub: "nl.subtract",
    ast.Mult: "nl.multiply",
    ast.Div: "nl.divide",
    ast.Pow: "nl.power",
    ast.Eq: "nl.equal",
    ast.NotEq: "nl.not_equal",
    ast.Lt: "nl.less",
    ast.LtE: "nl.less_equal",
    ast.Gt: "nl.greater",
    ast.GtE: "nl.greater_equal",
    ast.Mod: "nl.mod",
    ast.BitAnd: "nl.bitwise_and",
    ast.BitOr: "nl.bitwise_or",
    ast.BitXor: "nl.bitwise_xor",
    ast.LShift: "nl.left_shift",
    ast.RShift: "nl.right_shift",
}


def tensor_binary(m: Machine, node: ast.AST, op: ast.AST, left: Value, right: Value) -> Value:
    """``a + b`` on tiles is ``nl.add`` and so on."""
    if isinstance(left, IndexArray) or isinstance(right, IndexArray):
        return dynamic.combined(op, left, right)
    name = _OPERATORS.get(type(op))
    if name is None:
        m.unknown(f"operator {type(op).__name__} on tensors is not analyzed")
        return Unknown("this operator on tensors is not analyzed")
    _check_partitions(m, node, left, right, name)
    return call_api(m, node, name, [left, right], {})


def _check_partitions(m: Machine, node: ast.AST, left: Value, right: Value, name: str) -> None:
    """R045: legacy operators broadcast along free axes only."""
    if m.dialect is not Dialect.LEGACY or not (isinstance(left, View) and isinstance(right, View)):
        return
    first, second = left.shape[0], right.shape[0]
    if len(left.shape) == len(right.shape) and first != second and 1 in (first, second):
        m.find(
            "R045",
            f"operators do not broadcast partitions ({first} and {second}); "
            f"call {name} or broadcast_to",
            node,
        )


def tensor_unary(m: Machine, node: ast.UnaryOp, value: View) -> Value:
    if isinstance(node.op, ast.USub):
        return call_api(m, node, "nl.negative", [value], {})
    if isinstance(node.op, ast.Invert):
        return call_api(m, node, "nl.invert", [value], {})
    return value if isinstance(node.op, ast.UAdd) else Unknown("not analyzed on tensors")


def subscript_value(m: Machine, node: ast.Subscript, owner: Value, index: ast.expr) -> Value:
    """``owner[index]``."""
    if isinstance(owner, Unknown):
        return owner
    parts = index_parts(m, index)
    if isinstance(owner, View):
        _notice_single(m, node, owner, parts)
        return select(owner, parts)
    if isinstance(owner, Blocks):
        return select_block(owner, parts)
    if isinstance(owner, Ref):
        return _indexed_name(m, owner, parts)
    if isinstance(owner, IndexArray):
        return _expand(owner, parts)
    if isinstance(owner, Grid):
        return owner.axes[parts[0]] if isinstance(parts[0], int) else _unknown_index()
    if isinstance(owner, HostArray):
        return _host_item(owner, parts)
    key = parts[0] if len(parts) == 1 else parts
    if isinstance(owner, dict):
        from accelopt_lsp.analysis.expressions import hashable

        place = hashable(key)
        m.reads(owner, place)
        found = owner.get(place, _MISSING)
        return Unknown(f"no key {key!r}") if found is _MISSING else found
    if isinstance(owner, ClassValue):
        from accelopt_lsp.analysis.enums import named_member

        return named_member(owner, key) if owner.kind == "enum" else owner
    if isinstance(owner, Instance):
        from accelopt_lsp.analysis.builtins import call_special

        return call_special(m, owner, "__getitem__", [key])
    if isinstance(owner, tuple | ListValue):
        return _sequence_item(m, owner, key)
    if isinstance(owner, str) and isinstance(key, int | slice):
        return owner[key]
    return _unknown_index()


def _notice_single(m: Machine, node: ast.AST, owner: View, parts: tuple[Value, ...]) -> None:
    """R042: a legacy tile ``[N, 1]`` or ``[1, M]`` with one index, a known issue."""
    if m.dialect is Dialect.LEGACY and owner.on_chip and len(owner.shape) == 2:
        if 1 in owner.shape and len(parts) == 1 and isinstance(parts[0], int | slice):
            m.find(
                "R042",
                f"a tile {list(owner.shape)} is indexed with both indices, such as [:, 0]: one "
                "alone is a known issue",
                node,
            )


_MISSING = object()


def _unknown_index() -> Unknown:
    return Unknown("this index is not analyzed")


def index_parts(m: Machine, index: ast.expr) -> tuple[Value, ...]:
    """Parts of a subscript.

    Raises:
        Undecided: one of them is not known.
    """
    nodes = index.elts if isinstance(index, ast.Tuple) else [index]
    parts: list[Value] = []
    for node in nodes:
        value = m.eval(node)
        if isinstance(value, Unknown):
            raise Undecided(value.reason)
        if isinstance(value, slice):
            for end in (value.start, value.stop, value.step):
                if isinstance(end, Unknown):
                    raise Undecided(end.reason)
        if isinstance(value, ParDim):
            value = value.size
        if isinstance(value, Grid):
            parts.extend(value.axes)
        elif isinstance(value, tuple) and not isinstance(index, ast.Tuple):
            parts.extend(value)
        else:
            parts.append(value)
    return tuple(parts)


def _sequence_item(m: Machine, owner: tuple[Value, ...] | ListValue, key: Value) -> Value:
    items = owner if isinstance(owner, tuple) else owner.items
    m.charge(len(items))
    if isinstance(key, bool | int | Affine):
        try:
            return item_at(owner, key) if isinstance(owner, ListValue) else list_item(items, key)
        except IndexError as error:
            return Unknown(str(error))
    if isinstance(key, slice):
        part = part_of(m, owner, key)
        return tuple(part) if isinstance(owner, tuple) else ListValue(part, tuple(m.loops))
    return _unknown_index()


def _host_item(owner: HostArray, parts: tuple[Value, ...]) -> Value:
    shape: list[int] = []
    dim = 0
    for part in parts:
        if part is None:
            shape.append(1)
            continue
        if part is Ellipsis or dim >= len(owner.shape):
            return _unknown_index()
        if isinstance(part, slice):
            if not all(e is None or isinstance(e, int) for e in (part.start, part.stop, part.step)):
                return _unknown_index()
            shape.append(len(range(*part.indices(owner.shape[dim]))))
        elif not isinstance(part, int):
            return _unknown_index()
        dim += 1
    return HostArray((*shape, *owner.shape[dim:]), owner.dtype)


def _indexed_name(m: Machine, owner: Ref, parts: tuple[Value, ...]) -> Value:
    if owner.path == "nl.mgrid":
        return mesh_grid(parts)
    if owner.path in ("nt.tensor", "nt.mutable_tensor"):
        return Unknown("an annotation")
    return Unknown(f"{owner.path}[...] is not analyzed")


def mesh_grid(parts: tuple[Value, ...]) -> Value:
    """``nl.mgrid[parts]``.

    Raises:
        Undecided: a part is no slice with a known step.
    """
    spans: list[tuple[Linear, int, int]] = []
    for part in parts:
        if not isinstance(part, slice) or part.stop is None:
            raise Undecided("nl.mgrid takes slices with an end")
        start = 0 if part.start is None else part.start
        step = 1 if part.step is None else part.step
        if not isinstance(step, int) or step < 1:
            raise Undecided("the step of nl.mgrid is not known")
        spans.append((start, _extent(start, part.stop, step), step))
    shape = tuple(count for _, count, _ in spans)
    axes = []
    for number, (start, _, step) in enumerate(spans):
        coefficients = tuple(step if a == number else 0 for a in range(len(spans)))
        axes.append(IndexArray(shape, coefficients, start))
    return Grid(tuple(axes))


def _extent(start: Linear, stop: Linear, step: int = 1) -> int:
    """Number of positions from start to stop.

    Raises:
        NeedSplit, Undecided: it depends on the iteration.
    """
    span = subtract(stop, start)
    if isinstance(span, Affine):
        raise affine.split(span.terms, f"the size {span} depends on the iteration")
    return max(0, -(-span // step))


def _expand(array: IndexArray, parts: tuple[Value, ...]) -> IndexArray:
    """``nl.arange(128)[:, None]``."""
    if Ellipsis in [p for p in parts if p is Ellipsis]:
        at = [p is Ellipsis for p in parts].index(True)
        kept = sum(p is not None for p in parts) - 1
        parts = (*parts[:at], *[FULL] * (len(array.shape) - kept), *parts[at + 1 :])
    shape, coefficients = [], []
    base = array.base
    axis = 0
    for part in parts:
        if part is None:
            shape.append(1)
            coefficients.append(0)
            continue
        if axis >= len(array.shape):
            raise Undecided("too many axes for an index array")
        size, step = array.shape[axis], array.coefficients[axis]
        if isinstance(part, slice):
            span = range(*part.indices(size))
            shape.append(len(span))
            coefficients.append(step * span.step)
            base = add(base, span.start * step)
        elif isinstance(part, int | Affine):
            base = add(base, scale(part, step))
        else:
            raise Undecided("this index of an index array is not analyzed")
        axis += 1
    return IndexArray(
        (*shape, *array.shape[axis:]), (*coefficients, *array.coefficients[axis:]), base
    )


def select_block(owner: Blocks, parts: tuple[Value, ...]) -> Value:
    """Block dimensions are indexed first, each by an integer."""
    wanted = owner.storage.blocks - len(owner.prefix)
    if wanted and parts and parts[0] is Ellipsis:
        raise Undecided("block dimensions that are not indexed one by one")
    numbers: list[Linear] = []
    for part in parts[:wanted]:
        if isinstance(part, IndexArray) and part.shape == ():
            part = part.base
        if not isinstance(part, int | Affine):
            raise Undecided("block dimensions are indexed by integers and loop variables")
        numbers.append(part)
    prefix = (*owner.prefix, *numbers)
    if len(prefix) < owner.storage.blocks:
        return Blocks(owner.storage, prefix)
    view = View.whole(owner.storage, prefix)
    terms = tuple(
        (dim, size, index, (0,) * len(view.shape))
        for dim, (index, size) in enumerate(zip(prefix, owner.storage.shape, strict=False))
    )
    fault = Fault(terms)
    if fault.describe(view.shape):
        view = evolve(view, fault=fault)
    return select(view, parts[wanted:]) if parts[wanted:] else view


def select(view: View, parts: tuple[Value, ...]) -> View:
    """``view[parts]``.

    Raises:
        Undecided: an index is not known, or mixes forms.
        NeedSplit: a size depends on the iteration.
    """
    if parts == (Ellipsis,):
        return view
    if any(isinstance(p, View | dynamic.RunTimeIndex) for p in parts) and not any(
        isinstance(p, slice | DynamicSlice) for p in parts
    ):
        return dynamic.indexed(view, parts, _advanced)
    if any(isinstance(p, IndexArray) for p in parts):
        return _advanced(view, parts)
    return _basic(view, parts)


def _basic(view: View, parts: tuple[Value, ...]) -> View:
    rank = len(view.shape)
    given = sum(p is not None for p in parts)
    if any(p is Ellipsis for p in parts):
        at = [p is Ellipsis for p in parts].index(True)
        parts = (*parts[:at], *[FULL] * (rank - given + 1), *parts[at + 1 :])
    elif given > rank:
        raise Rejected(
            "R028", f"{given} indices for a tensor with {rank} dimensions {list(view.shape)}"
        )
    shape: list[int] = []
    strides: list[int] = []
    offset = view.offset
    terms: list[tuple[int, int, Linear, int, int]] = []
    index: dynamic.RunTimeOffset | None = None
    dim = 0
    for part in parts:
        if part is None:
            if view.on_chip and dim == 0:
                raise Rejected("R014", "no dimension can stand before the partitions of a tile")
            shape.append(1)
            strides.append(0)
            continue
        size, stride = view.shape[dim], view.strides[dim]
        start: Linear
        if isinstance(part, slice):
            start, count, step = _bounds_of(part, size)
            if step != 1 and view.on_chip and dim == 0:
                raise Rejected(
                    "R082",
                    f"partitions cannot be strided (step {step}); take a run of them, or spread "
                    "them by a transfer from HBM",
                )
            terms.append((dim, size, start, step, count))
            shape.append(count)
            strides.append(stride * step)
        elif isinstance(part, Register | DynamicSlice) and not isinstance(
            getattr(part, "start", None), int | Affine
        ):
            index = dynamic.offset_of(part.start if isinstance(part, DynamicSlice) else part)
            start = index.known
            if isinstance(part, DynamicSlice) or (view.on_chip and dim == 0):
                shape.append(part.size if isinstance(part, DynamicSlice) else 1)
                strides.append(stride)
        elif isinstance(part, DynamicSlice):
            start = part.start
            terms.append((dim, size, start, 1, part.size))
            shape.append(part.size)
            strides.append(stride)
        elif isinstance(part, int | Affine):
            start = add(part, size) if bounds(part)[1] < 0 else part
            terms.append((dim, size, start, 0, 1))
            if view.on_chip and dim == 0:
                shape.append(1)
                strides.append(stride)
        else:
            raise Undecided("an index that is no integer (indirect access)")
        offset = add(offset, scale(start, stride))
        dim += 1
    shape.extend(view.shape[dim:])
    strides.extend(view.strides[dim:])
    while len(shape) < (2 if view.on_chip else 1):
        shape.append(1)
        strides.append(1)
    fault = view.fault or _basic_fault(terms, len(shape))
    made = evolve(view, shape=tuple(shape), strides=tuple(strides), offset=offset, fault=fault)
    return made if index is None else index.attached(made)


def _basic_fault(terms: list[tuple[int, int, Linear, int, int]], rank: int) -> Fault | None:
    """A fault if some index is sure to leave its dimension; masks do not trim slices."""
    none = (0,) * rank
    for dim, size, start, step, count in terms:
        for edge in (start, add(start, step * (count - 1))):
            fault = Fault(((dim, size, edge, none),))
            if fault.describe(none):
                return fault
    return None


def _bounds_of(part: slice, size: int) -> tuple[Linear, int, int]:
    start: Linear = 0 if part.start is None else _linear(part.start)
    stop: Linear = size if part.stop is None else _linear(part.stop)
    step = 1 if part.step is None else part.step
    if not isinstance(step, int) or step < 1:
        raise Undecided("a slice whose step is not known")
    if bounds(start)[1] < 0:
        start = add(start, size)
    if bounds(stop)[1] < 0:
        stop = add(stop, size)
    return start, _extent(start, stop, step), step


def _linear(value: Value) -> Linear:
    if isinstance(value, int | Affine):
        return value
    raise Undecided("an index that is no integer (indirect access)")


def _advanced(view: View, parts: tuple[Value, ...]) -> View:
    if any(isinstance(part, slice) for part in parts):
        raise Rejected(
            "R035",
            "slices and nl.arange stand in one index; write all of it with nl.arange (nl.mgrid), "
            "or all of it with slices",
        )
    if len(parts) != len(view.shape):
        raise Undecided(f"{len(parts)} indices for a tensor with {len(view.shape)} dimensions")
    forms: list[IndexArray] = []
    for part in parts:
        if isinstance(part, IndexArray):
            forms.append(part)
        elif isinstance(part, int | Affine):
            forms.append(IndexArray((), (), part))
        else:
            raise Undecided("slices and index arrays in one index")
    rank = max(len(f.shape) for f in forms)
    shape = [1] * rank
    strides = [0] * rank
    offset = view.offset
    terms: list[tuple[int, int, Linear, tuple[int, ...]]] = []
    for dim, form in enumerate(forms):
        lead = rank - len(form.shape)
        own = [0] * rank
        for axis, (count, step) in enumerate(zip(form.shape, form.coefficients, strict=True)):
            if count > 1:
                if shape[axis + lead] not in (1, count):
                    raise Undecided("index arrays that do not broadcast")
                shape[axis + lead] = count
                strides[axis + lead] += step * view.strides[dim]
                own[axis + lead] = step
        offset = add(offset, scale(form.base, view.strides[dim]))
        terms.append((dim, view.shape[dim], form.base, tuple(own)))
    if view.on_chip:
        if rank < 2:
            size = max((f.shape[0] for f in forms if f.shape), default=1)
            raise Rejected(
                "R001",
                f"a tile on chip is indexed with nl.arange({size}) of one dimension; it takes two "
                f"dimensions: nl.arange({size})[:, None] for partitions, [None, :] for columns",
            )
        strides[0] = view.strides[0]
    fault = Fault(tuple(terms))
    return evolve(
        view,
        shape=tuple(shape),
        strides=tuple(strides),
        offset=offset,
        fault=fault if fault.describe(tuple(shape)) else None,
    )


def sizes(values: tuple[Value, ...]) -> tuple[int, ...]:
    """Sizes given as one sequence or as several integers.

    Raises:
        NeedSplit, Undecided: they are not known.
    """
    given: Any = values[0] if len(values) == 1 else values
    if isinstance(given, ListValue):
        given = given.items
    if isinstance(given, int | Affine | ParDim):
        given = (given,)
    if not isinstance(given, tuple | list):
        raise Undecided("a shape that is not known")
    return tuple(size(v) for v in given)


def size(value: Value) -> int:
    """One size as a number."""
    if isinstance(value, ParDim):
        return value.size
    if isinstance(value, Affine):
        raise affine.split(value.terms, f"the size {value} depends on the iteration")
    if isinstance(value, Unknown):
        raise Undecided(value.reason)
    if not isinstance(value, int):
        raise Undecided("a size that is no integer")
    return value


def reshape(view: View, shape: tuple[int, ...]) -> View:
    """The same elements in another shape.

    Raises:
        Undecided: element counts differ, or it would move data.
    """
    total = prod(view.shape)
    if -1 in shape:
        known = -prod(shape)
        shape = tuple((total // known if known else 0) if n == -1 else n for n in shape)
    if prod(shape) != total or not shape:
        raise Rejected(
            "R080",
            f"cannot reshape {list(view.shape)} ({total} elements) into {list(shape)} "
            f"({prod(shape)})",
            0,
            "shape",
        )
    if view.on_chip:
        if shape[0] != view.shape[0]:
            raise Rejected(
                "R080",
                f"reshape must keep the {view.shape[0]} partitions, got {list(shape)}",
                0,
                "shape",
            )
        inner = _merge(view.shape[1:], view.strides[1:], shape[1:])
        return evolve(view, shape=shape, strides=(view.strides[0], *inner))
    return evolve(view, shape=shape, strides=_merge(view.shape, view.strides, shape))


def _merge(old: tuple[int, ...], strides: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a reshape without copy."""
    runs: list[tuple[int, int]] = []
    for n, s in zip(old, strides, strict=True):
        if n == 1:
            continue
        if runs and runs[-1][1] == n * s:
            runs[-1] = (runs[-1][0] * n, s)
        else:
            runs.append((n, s))
    result: list[int] = []
    left, stride = 1, 1
    position = 0
    for n in new:
        if n == 1:
            result.append(1)
            continue
        if left == 1:
            if position >= len(runs):
                raise Undecided("this reshape would move data")
            left, stride = runs[position]
            position += 1
        if left % n:
            raise Undecided("this reshape would move data")
        left //= n
        result.append(stride * left)
    return tuple(result)
