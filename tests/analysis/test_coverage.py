"""Distinct elements of strided accesses, against counting them one by one."""

from __future__ import annotations

from itertools import product
from math import prod

from hypothesis import given
from hypothesis import strategies as st

from accelopt_lsp.analysis.affine import Affine, Var
from accelopt_lsp.analysis.coverage import count_sums, distinct_elements, free_loops
from accelopt_lsp.analysis.values import Storage, View
from accelopt_lsp.nki.dtypes import FLOAT32
from accelopt_lsp.nki.operands import Buffer


def brute(steps: list[tuple[int, int]]) -> int:
    return len({sum(c) for c in product(*([s * i for i in range(n)] for s, n in steps))})


@given(
    tile=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    trips=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    hop=st.tuples(st.integers(1, 5), st.integers(1, 5)),
)
def test_windows_of_a_matrix_are_counted_exactly(tile, trips, hop):
    """Tiles that move by any number of rows and columns, overlapping or with gaps."""
    row = 64
    steps = [
        (1, tile[1]),
        (row, tile[0]),
        (hop[1], trips[1]),
        (row * hop[0], trips[0]),
    ]
    kept = [(s, n) for s, n in steps if n > 1]
    exact = brute(kept)
    found = count_sums(kept)
    if hop[1] <= tile[1] or tile[1] == 1 or trips[1] == 1:
        if hop[0] <= tile[0] or tile[0] == 1 or trips[0] == 1:
            assert found == exact
    assert found >= exact


@given(steps=st.lists(st.tuples(st.integers(1, 30), st.integers(2, 4)), max_size=4))
def test_between_the_true_number_and_all_combinations(steps):
    assert brute(steps) <= count_sums(steps) <= prod(n for _, n in steps)


def test_a_loop_that_does_not_move_the_address_reads_the_same_bytes():
    i, j = Var("i", 0, 4, 1), Var("j", 0, 8, 2)
    storage = Storage(0, "x", Buffer.HBM, (512, 256), 0, FLOAT32, 1, (), "input")
    view = View(storage, (128, 256), (256, 1), Affine(0, ((i, 128 * 256),)), FLOAT32)
    assert free_loops(view, (i, j)) == (j,)
    assert distinct_elements(view) == 512 * 256
