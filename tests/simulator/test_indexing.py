"""Index expressions and views: laws against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelopt_lsp.nki.dtypes import FLOAT32
from accelopt_lsp.nki.operands import Buffer, row_major_strides
from accelopt_lsp.profiler.simulator.errors import KernelRejected
from accelopt_lsp.profiler.simulator.indexing import Affine, MeshGrid, arange, loop_range
from accelopt_lsp.profiler.simulator.layouts import reshape
from accelopt_lsp.profiler.simulator.masks import Mask, holds
from accelopt_lsp.profiler.simulator.memory import FULL, Memory
from accelopt_lsp.profiler.simulator.tensors import Tensor

sizes = st.integers(1, 6)


def tensor(shape: tuple[int, ...], buffer: Buffer = Buffer.HBM) -> Tensor:
    """A tensor whose elements are numbered."""
    rows, row = shape[0], int(np.prod(shape[1:]))
    memory = Memory(0, buffer, FLOAT32, rows, row, "t", 1)
    memory.array = np.arange(rows * row, dtype=np.float32)
    memory.state = FULL
    return Tensor(memory, shape, row_major_strides(shape), 0, FLOAT32, buffer)


@st.composite
def slices(draw: Any, size: int) -> slice:
    start = draw(st.integers(0, size - 1))
    stop = draw(st.integers(start + 1, size))
    return slice(start, stop, draw(st.integers(1, 3)))


@st.composite
def sliced(draw: Any) -> tuple[tuple[int, ...], tuple[slice, ...]]:
    shape = tuple(draw(st.lists(sizes, min_size=1, max_size=4)))
    return shape, tuple(draw(slices(n)) for n in shape)


@given(sliced())
def test_slices_are_numpys(case: tuple[tuple[int, ...], tuple[slice, ...]]) -> None:
    shape, key = case
    view = tensor(shape)[key]
    assert np.array_equal(view.array(), tensor(shape).array()[key])


@given(sliced())
def test_a_region_covers_its_view_and_stays_in_its_memory(
    case: tuple[tuple[int, ...], tuple[slice, ...]],
) -> None:
    shape, key = case
    view = tensor(shape)[key]
    memory = view.settle()
    touched = view.array().astype(int).ravel()
    _, first, last, begin, end = view.region()
    assert 0 <= first < last <= memory.rows
    assert 0 <= begin < end <= memory.row * 4
    for element in touched:
        row, column = divmod(int(element), memory.row)
        assert first <= row < last
        assert begin <= column * 4 < end


@given(
    st.integers(1, 8), st.integers(1, 8), st.integers(0, 5), st.integers(1, 3), st.integers(0, 5)
)
def test_affine_indices_are_numpys(
    rows: int, columns: int, shift: int, factor: int, offset: int
) -> None:
    shape = (rows + shift, columns * factor + offset)
    index = (arange(rows)[:, None] + shift, factor * arange(columns)[None, :] + offset)
    dense = (
        np.arange(rows)[:, None] + shift,
        factor * np.arange(columns)[None, :] + offset,
    )
    assert np.array_equal(tensor(shape)[index].array(), tensor(shape).array()[dense])


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6))
def test_one_dimension_may_be_indexed_by_several_axes(p: int, a: int, b: int) -> None:
    source = tensor((p, a * b))
    index = (
        arange(p)[:, None, None],
        b * arange(a)[None, :, None] + arange(b)[None, None, :],
    )
    assert np.array_equal(source[index].array(), source.array().reshape(p, a, b))


def test_mesh_grids_name_their_axes() -> None:
    grid = MeshGrid()[0:4, 2:8:2]
    p, x = grid
    assert p is grid.p
    assert x is grid.x
    assert np.array_equal(x.values(), np.mgrid[0:4, 2:8:2][1])
    with pytest.raises(KernelRejected, match=r"no \.y"):
        _ = grid.y


@st.composite
def terms(draw: Any) -> Affine:
    rows, columns = draw(sizes), draw(sizes)
    coefficients = draw(st.tuples(st.integers(-3, 3), st.integers(-3, 3)))
    constant = draw(st.integers(-8, 8))
    base = arange(6)[:, None] * coefficients[0] + arange(5)[None, :] * coefficients[1]
    del rows, columns
    found: Affine = base + constant
    return found


@given(st.lists(terms(), min_size=1, max_size=3))
def test_a_mask_splits_into_bounds_and_the_rest(found: list[Affine]) -> None:
    truth = np.ones((6, 5), dtype=bool)
    for term in found:
        truth &= term.values() >= 0
    split = Mask(tuple(found)).split()
    rebuilt = np.zeros((6, 5), dtype=bool)
    if split is not None:
        bounds, rest = split
        (_, top, bottom) = bounds.get(0, (6, 0, 6))
        (_, left, right) = bounds.get(1, (5, 0, 5))
        rebuilt[top:bottom, left:right] = True
        rebuilt &= holds(rest, (6, 5))
    assert np.array_equal(truth, rebuilt)


@pytest.mark.parametrize(
    ("comparison", "expected"),
    [
        (lambda i: i < 3, [0, 1, 2]),
        (lambda i: i <= 3, [0, 1, 2, 3]),
        (lambda i: i > 3, [4, 5]),
        (lambda i: i >= 3, [3, 4, 5]),
        (lambda i: i == 3, [3]),
        (lambda i: i + 1 < 4, [0, 1, 2]),
        (lambda i: (i > 1) & (i < 4), [2, 3]),
    ],
)
def test_comparisons(comparison: Any, expected: list[int]) -> None:
    split = comparison(arange(6)[:, None]).split()
    assert split is not None
    _, low, high = split[0][0]
    assert list(range(low, high)) == expected


@given(st.sampled_from([(12,), (3, 4), (2, 2, 3), (1, 12), (4, 1, 3), (12, 1), (2, 6)]), sizes)
def test_reshapes_keep_the_order_of_elements(shape: tuple[int, ...], rows: int) -> None:
    source = tensor((rows, 12))
    view = reshape(source, (rows, *shape))
    assert np.array_equal(view.array(), source.array().reshape(rows, *shape))


def test_a_reshape_never_moves_data() -> None:
    with pytest.raises(KernelRejected, match="move data"):
        reshape(tensor((4, 6))[:, 0:3], (12,))
    with pytest.raises(KernelRejected, match="partitions"):
        reshape(tensor((4, 6), Buffer.SBUF), (8, 3))


def test_view_methods_of_the_current_dialect() -> None:
    source = tensor((4, 6, 5), Buffer.SBUF)
    values = source.array()
    assert np.array_equal(source.permute(0, 2, 1).array(), values.transpose(0, 2, 1))
    assert source.expand_dim(1).shape == (4, 1, 6, 5)
    assert source[:, 0:1].broadcast(1, 3).array().shape == (4, 3, 5)
    assert np.array_equal(source.reshape_dim(1, (2, -1)).array(), values.reshape(4, 2, 3, 5))
    assert np.array_equal(source.flatten_dims(1, 2).array(), values.reshape(4, 30))
    assert np.array_equal(source.slice(2, 1, 5, 2).array(), values[:, :, 1:5:2])
    assert np.array_equal(source.select(1, 2).array(), values[:, 2])
    pattern = [[30, 4], [5, 6], [1, 5]]
    assert np.array_equal(source.ap(pattern).array(), values)
    with pytest.raises(KernelRejected, match="partition"):
        source.permute(1, 0, 2)


def test_the_partition_dimension_of_a_tile_stays() -> None:
    tile = tensor((4, 6), Buffer.SBUF)
    assert tile[2].shape == (1, 6)
    assert tile[:, 3].shape == (4, 1)
    assert tensor((4, 6))[2].shape == (6,)


def test_loop_variables_know_their_first_iteration() -> None:
    assert [(int(i), i.first) for i in loop_range(2, 8, 3)] == [(2, True), (5, False)]
    assert list(loop_range(3)) == [0, 1, 2]
    with pytest.raises(KernelRejected, match="integers"):
        loop_range(2.5)


@st.composite
def tile_indices(draw: Any) -> tuple[tuple[int, int], tuple[Any, ...]]:
    """A tile's shape, and an index of it by a column and a line or a number."""
    rows, row = draw(sizes), draw(sizes)
    low, start = draw(st.integers(0, rows - 1)), draw(st.integers(0, row - 1))
    column = low + arange(draw(st.integers(1, rows - low)))[:, None]
    if draw(st.booleans()):
        return (rows, row), (column, start)
    step = draw(st.integers(1, 3))
    count = draw(st.integers(1, (row - 1 - start) // step + 1))
    return (rows, row), (column, start + step * arange(count)[None, :])


@given(st.lists(tile_indices(), min_size=1, max_size=4))
def test_views_found_again_are_those_selected_first(
    cases: list[tuple[tuple[int, int], tuple[Any, ...]]],
) -> None:
    shape = cases[0][0]
    tile = tensor(shape, Buffer.SBUF)
    for _ in range(2):
        for other, key in cases:
            if other != shape:
                continue
            view = tile[key]
            at = tuple(k.values() if isinstance(k, Affine) else k for k in key)
            assert np.array_equal(view.array(), tensor(shape).array()[at].reshape(view.shape))
            fresh = view.derived(view.shape, view.strides, view.offset)
            assert view.region() == fresh.region()
            assert view.typed() is fresh.typed()


def test_equal_indices_are_one_object() -> None:
    line = arange(8)[None, :]
    assert 3 + line is line + 1 + 2
    assert 2 * line - line is line
    assert (line + 4 >= 0) is (4 + line >= 0)


@pytest.mark.parametrize("number", [0.0, np.float32(0), "0", None])
def test_what_equals_a_number_is_no_index(number: Any) -> None:
    tile = tensor((4, 8), Buffer.SBUF)
    column = arange(4)[:, None]
    assert tile[column, 0].shape == (4, 1)
    with pytest.raises(KernelRejected):
        tile[column, number]


def test_the_empty_index_after_others() -> None:
    tile = tensor((4, 8), Buffer.SBUF)
    assert tile[arange(2)[:, None], arange(8)[None, :]].shape == (2, 8)
    assert tile[()].shape == (4, 8)
