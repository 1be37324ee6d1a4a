"""Views of tensors: chains of them, other data types and writes through them, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelopt_lsp.nki.dtypes import FLOAT32, DType, all_dtypes, get_dtype
from accelopt_lsp.nki.operands import Buffer, row_major_strides
from accelopt_lsp.profiler.simulator.bits import STORAGE, from_bits, to_bits
from accelopt_lsp.profiler.simulator.elements import CARRIERS, ELEMENTS, ROUNDERS, Array
from accelopt_lsp.profiler.simulator.errors import KernelRejected
from accelopt_lsp.profiler.simulator.memory import FULL, PARTIAL, Memory
from accelopt_lsp.profiler.simulator.tensors import Tensor
from accelopt_lsp.profiler.simulator.values import write

INT32 = get_dtype("int32")
BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32}


def make(shape: tuple[int, ...], element: DType, buffer: Buffer, values: Any = None) -> Tensor:
    """A tensor that holds these bits; without any, one that nothing was written to."""
    memory = Memory(0, buffer, element, shape[0], prod(shape[1:]), "t", 1)
    if values is not None:
        memory.adopt(from_bits(values.view(STORAGE[element.name]), element))
    return Tensor(memory, shape, row_major_strides(shape), 0, element, buffer)


def numbered(shape: tuple[int, ...], buffer: Buffer) -> tuple[Tensor, Array]:
    values = np.arange(prod(shape), dtype=np.int32).reshape(shape)
    return make(shape, INT32, buffer, values.copy()), values


# Chains of views.

Pair = tuple[Tensor, Array]
Step = Callable[[Any, Tensor, Array], Pair]


def _axis(draw: Any, tensor: Tensor) -> int | None:
    """A dimension that view methods may touch."""
    first = 1 if tensor.buffer.on_chip else 0
    if tensor.ndim <= first:
        return None
    return int(draw(st.integers(first, tensor.ndim - 1)))


def _slice(draw: Any, tensor: Tensor, array: Array) -> Pair:
    axis = draw(st.integers(0, tensor.ndim - 1))
    size = tensor.shape[axis]
    start = draw(st.integers(0, size - 1))
    stop = draw(st.integers(start + 1, size))
    step = 1 if axis == 0 and tensor.buffer.on_chip else draw(st.integers(1, 3))
    key = (*[slice(None)] * axis, slice(start, stop, step))
    if draw(st.booleans()):
        return tensor.slice(axis, start, stop, step), array[key]
    return tensor[key], array[key]


def _index(draw: Any, tensor: Tensor, array: Array) -> Pair:
    """Integers and the like in one index; on chip the partition and one more dimension stay."""
    key: list[Any] = []
    for axis, size in enumerate(tensor.shape):
        kept = tensor.buffer.on_chip and axis < 2
        whole = kept or draw(st.booleans())
        key.append(slice(None) if whole else draw(st.integers(-size, size - 1)))
    if all(not isinstance(part, slice) for part in key):
        key[0] = slice(None)
    if draw(st.booleans()) and key[-1] == slice(None):
        key = [*key[:-1], Ellipsis]
    return tensor[tuple(key)], array[tuple(key)]


def _select(draw: Any, tensor: Tensor, array: Array) -> Pair:
    axis = _axis(draw, tensor)
    if axis is None or tensor.ndim <= (2 if tensor.buffer.on_chip else 1):
        return tensor, array
    at = draw(st.integers(0, tensor.shape[axis] - 1))
    return tensor.select(axis, at), array[(*[slice(None)] * axis, at)]


def _permute(draw: Any, tensor: Tensor, array: Array) -> Pair:
    first = 1 if tensor.buffer.on_chip else 0
    order = (*range(first), *draw(st.permutations(range(first, tensor.ndim))))
    return tensor.permute(order), array.transpose(order)


def _expand(draw: Any, tensor: Tensor, array: Array) -> Pair:
    if tensor.ndim > 4:
        return tensor, array
    axis = draw(st.integers(1 if tensor.buffer.on_chip else 0, tensor.ndim))
    wide, view = tensor.expand_dim(axis), np.expand_dims(array, axis)
    if draw(st.booleans()):
        size = draw(st.integers(1, 3))
        shape = (*view.shape[:axis], size, *view.shape[axis + 1 :])
        return wide.broadcast(axis, size), np.broadcast_to(view, shape)
    if draw(st.booleans()):
        return wide.squeeze_dim(axis), array
    return wide, view


def _split(draw: Any, tensor: Tensor, array: Array) -> Pair:
    axis = _axis(draw, tensor)
    if axis is None or tensor.ndim > 4:
        return tensor, array
    size = tensor.shape[axis]
    factor = draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
    given = (factor, -1) if draw(st.booleans()) else (factor, size // factor)
    shape = (*array.shape[:axis], factor, size // factor, *array.shape[axis + 1 :])
    return tensor.reshape_dim(axis, given), array.reshape(shape)


def _without_copy(array: Array, shape: tuple[int, ...]) -> Array | None:
    """NumPy's reshape, or None where it would have to copy."""
    view = array.view()
    try:
        view.shape = shape
    except AttributeError:
        return None
    return view


def _flatten(draw: Any, tensor: Tensor, array: Array) -> Pair:
    axis = _axis(draw, tensor)
    if axis is None:
        return tensor, array
    last = draw(st.integers(axis, tensor.ndim - 1))
    shape = (*array.shape[:axis], prod(array.shape[axis : last + 1]), *array.shape[last + 1 :])
    wanted = _without_copy(array, shape)
    if wanted is None:
        with pytest.raises(KernelRejected):
            tensor.flatten_dims(axis, last)
        return tensor, array
    return tensor.flatten_dims(axis, last), wanted


def _rearrange(draw: Any, tensor: Tensor, array: Array) -> Pair:
    """Split the last dimension by names, and move its halves."""
    if not 2 <= tensor.ndim <= 4:
        return tensor, array
    size = tensor.shape[-1]
    factor = draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
    names = [f"d{i}" for i in range(tensor.ndim - 1)]
    moved = tensor.rearrange(
        (*names, ("outer", "inner")), (*names, "inner", "outer"), {"outer": factor}
    )
    split = array.reshape(*array.shape[:-1], factor, size // factor)
    return moved, split.swapaxes(-1, -2)


STEPS: tuple[Step, ...] = (
    _slice, _index, _select, _permute, _expand, _split, _flatten, _rearrange
)  # fmt: skip


@st.composite
def chains(draw: Any) -> tuple[Tensor, Array, Tensor, Array]:
    """A tensor and a view of it, each with NumPy's."""
    buffer = draw(st.sampled_from((Buffer.HBM, Buffer.SBUF)))
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=2, max_size=4)))
    whole, values = numbered(shape, buffer)
    view, array = whole, values
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=5)):
        view, array = step(draw, view, array)
    return whole, values, view, array


@given(chains())
def test_chains_of_views_are_numpys(case: tuple[Tensor, Array, Tensor, Array]) -> None:
    _, _, view, array = case
    assert view.shape == array.shape
    assert np.array_equal(view.array(), array)
    assert view.get_pattern() == [[s, n] for s, n in zip(view.strides, view.shape, strict=True)]


@given(chains())
def test_a_pattern_of_a_view_is_the_view(case: tuple[Tensor, Array, Tensor, Array]) -> None:
    whole, _, view, array = case
    pattern = view.get_pattern()
    if whole.buffer.on_chip:
        pattern[0][0] = whole.strides[0]
    again = whole.ap(pattern=pattern, offset=view.offset)
    assert np.array_equal(again.array(), array)
    assert np.array_equal(view.ap(pattern=pattern).array(), array)


@given(chains(), st.integers(0, 2**31 - 1))
def test_writes_through_views_are_numpys(
    case: tuple[Tensor, Array, Tensor, Array], seed: int
) -> None:
    whole, values, view, array = case
    if 0 in array.strides or not array.size:
        return
    given = np.random.default_rng(seed).integers(0, 1000, array.shape).astype(np.int32)
    if not array.flags.writeable:
        return
    array[...] = given
    write(view, given, True, None, False)
    assert np.array_equal(whole.array(), values)


@given(chains())
def test_regions_cover_views(case: tuple[Tensor, Array, Tensor, Array]) -> None:
    whole, values, view, array = case
    _, first, end, low, high = view.region()
    flat = values.reshape(values.shape[0], -1)
    assert np.isin(array, flat[first:end, low // 4 : -(-high // 4)]).all()
    assert end <= whole.settle().rows and high <= whole.settle().row * 4


# Other data types.


def _random_bits(seed: int, shape: tuple[int, ...]) -> Array:
    """Bytes of all kinds: any number, infinities and NaNs of every type among them."""
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


@pytest.mark.parametrize("element", [d for d in all_dtypes() if d.nbytes < 4], ids=str)
def test_all_bits_survive(element: DType) -> None:
    """Carriers of every possible element give the same bits back, NaNs' payloads included."""
    kind = BITS[element.nbytes]
    bits = np.arange(1 << 8 * element.nbytes).astype(kind).view(STORAGE[element.name])
    assert np.array_equal(to_bits(from_bits(bits, element), element).view(kind), bits.view(kind))


@given(
    st.sampled_from(all_dtypes()),
    st.sampled_from(all_dtypes()),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 2**31 - 1),
)
def test_views_as_other_types_are_numpys(
    old: DType, new: DType, rows: int, words: int, seed: int
) -> None:
    stored = _random_bits(seed, (rows, 4 * words))
    tensor = make((rows, 4 * words // old.nbytes), old, Buffer.SBUF, stored)
    view = tensor.view(ELEMENTS[new])
    wanted = stored.view(BITS[new.nbytes])
    assert view.shape == wanted.shape and view.dtype == ELEMENTS[new]
    assert np.array_equal(to_bits(view.array(), new).view(BITS[new.nbytes]), wanted)
    # What is written through one view is seen by the other, and nothing else changes.
    half = view[:, : max(1, view.shape[1] // 2)]
    fresh = _random_bits(seed + 1, (rows, half.shape[1] * new.nbytes))
    carrier = from_bits(fresh.view(STORAGE[new.name]), new)
    write(half, carrier, True, None, False)
    stored[:, : fresh.shape[1]] = fresh
    assert np.array_equal(
        to_bits(tensor.array(), old).view(BITS[old.nbytes]), stored.view(BITS[old.nbytes])
    )


def test_a_view_needs_whole_elements_in_a_row() -> None:
    tensor, _ = numbered((4, 6), Buffer.SBUF)
    bytes_of = tensor.view("uint8")
    assert bytes_of.shape == (4, 24)
    for view, target in (
        (bytes_of[:, 0:6], "int32"),
        (bytes_of[:, 2:6], "int32"),
        (tensor[:, 0:6:2], "uint8"),
        (tensor.permute((0, 1)).expand_dim(2).broadcast(2, 4), "int16"),
    ):
        with pytest.raises(KernelRejected):
            view.view(target)


def test_patterns_count_in_elements_of_their_own_type() -> None:
    stored = _random_bits(7, (4, 64))
    tensor = make((4, 16), FLOAT32, Buffer.SBUF, stored)
    view = tensor.ap(pattern=[[32, 4], [2, 8]], offset=1, dtype="bfloat16")
    wanted = stored.view(np.uint16)[:, 1:17:2]
    assert np.array_equal(to_bits(view.array(), get_dtype("bfloat16")), wanted)


# What was never written.


@given(
    st.sampled_from(all_dtypes()),
    st.integers(2, 4),
    st.lists(st.tuples(st.integers(0, 7), st.integers(1, 8)), min_size=1, max_size=4),
    st.booleans(),
)
def test_unwritten_elements_are_known(
    element: DType, rows: int, parts: list[tuple[int, int]], exposed: bool
) -> None:
    tensor = make((rows, 8), element, Buffer.SBUF)
    memory = tensor.settle()
    if exposed:
        memory.expose()
    written = np.zeros((rows, 8), dtype=bool)
    for start, size in parts:
        part = tensor[:, start : min(8, start + size)]
        zeros = np.zeros(part.shape, dtype=CARRIERS[element.name])
        write(part, ROUNDERS[element.name](zeros), True, None, False)
        written[:, start : start + size] = True
    missing = memory.poisoned(tensor.array(), tensor)
    found = np.zeros_like(written) if missing is None else missing
    assert np.array_equal(found, ~written)
    assert memory.reads_unwritten(tensor.array(), tensor) is not bool(written.all())
    assert memory.state == (FULL if written.all() else PARTIAL)


def test_bytes_written_as_one_type_are_unwritten_as_another() -> None:
    tensor = make((2, 4), FLOAT32, Buffer.SBUF)
    halves = tensor.view("uint16")
    write(halves[:, 0:3], np.ones((2, 3), dtype=np.uint16), True, None, False)
    memory = tensor.settle()
    missing = memory.poisoned(tensor.array(), tensor)
    assert missing is not None and missing.tolist() == [[False, True, True, True]] * 2


# What views must leave alone.

ON_CHIP: dict[str, Callable[[Tensor], Any]] = {
    "permute": lambda t: t.permute((1, 0, 2)),
    "broadcast": lambda t: t[0:1].broadcast(0, 4),
    "expand_dim": lambda t: t.expand_dim(0),
    "squeeze_dim": lambda t: t[0:1].squeeze_dim(0),
    "reshape_dim": lambda t: t.reshape_dim(0, (2, -1)),
    "flatten_dims": lambda t: t.flatten_dims(0, 1),
    "reshape": lambda t: t.reshape((2, 4, 6)),
    "rearrange": lambda t: t.rearrange(("p", "a", "b"), ("a", "p", "b")),
    "rearrange in parts": lambda t: t.rearrange((("p", "q"), "a", "b"), ("p", "q", "a", "b")),
    "stride": lambda t: t[0:4:2],
    "ap": lambda t: t.ap([[24, 2], [1, 6]]),
    "outside": lambda t: t.ap([[12, 4], [1, 12]], offset=1).typed(),
    "negative step": lambda t: t[:, 2:0:-1],
    "empty": lambda t: t[:, 1:1],
    "too many": lambda t: t[0, 0, 0, 0],
    "end": lambda t: t.slice(1, 0, 4),
    "index": lambda t: t.select(1, 3),
    "merge": lambda t: t.permute((0, 2, 1)).flatten_dims(1, 2),
}


@pytest.mark.parametrize("name", ON_CHIP)
def test_partitions_and_bounds_are_kept(name: str) -> None:
    tensor, _ = numbered((4, 3, 4), Buffer.SBUF)
    with pytest.raises(KernelRejected) as error:
        ON_CHIP[name](tensor)
    assert error.value.code in ("R014", "R028", "R080", "R081", "R082", None)


def test_a_partition_dimension_may_be_named_whole() -> None:
    tensor, values = numbered((4, 6), Buffer.SBUF)
    assert np.array_equal(tensor.reshape_dim(0, (4,)).array(), values)
    assert np.array_equal(tensor.rearrange(("p", "f"), ("p", "f")).array(), values)


INDEXED: dict[str, Callable[[Tensor], Any]] = {
    "permute": lambda t: t.permute((1, 0, 2)),
    "expand_dim": lambda t: t.expand_dim(0),
    "reshape_dim": lambda t: t.reshape_dim(0, (2, 2)),
    "flatten_dims": lambda t: t.flatten_dims(0, 1),
    "select": lambda t: t.select(0, 1),
    "index": lambda t: t[1],
    "slice": lambda t: t[1:3],
    "again": lambda t: t.vector_select(0, numbered((4, 1), Buffer.SBUF)[0]),
    "view": lambda t: t.view("int16"),
}


@pytest.mark.parametrize("name", INDEXED)
def test_rows_that_are_indexed_stay_first(name: str) -> None:
    table, _ = numbered((4, 4, 4), Buffer.HBM)
    offsets, _ = numbered((4, 1), Buffer.SBUF)
    rows = table.vector_select(0, offsets)
    assert rows.is_indirect() and rows.shape == (4, 4, 4) and not table.is_indirect()
    with pytest.raises(KernelRejected):
        INDEXED[name](rows)
    for view in (rows[:, 1:3], rows[:, :, 0], rows.permute((0, 2, 1)), rows.flatten_dims(1, 2)):
        assert view.is_indirect() and view.shape[0] == 4
