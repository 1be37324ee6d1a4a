"""Arithmetic of index arrays: sums, differences and multiples stay linear."""

from __future__ import annotations

from collections.abc import Callable

from accelopt_lsp.analysis.affine import Linear, Undecided, scale
from accelopt_lsp.analysis.values import IndexArray


def combine(
    a: IndexArray | Linear, b: IndexArray | Linear, operation: Callable[[Linear, Linear], Linear]
) -> IndexArray:
    """Broadcasting sum or difference of index arrays.

    Raises:
        Undecided: the shapes do not broadcast.
    """
    left = a if isinstance(a, IndexArray) else IndexArray((), (), a)
    right = b if isinstance(b, IndexArray) else IndexArray((), (), b)
    rank = max(len(left.shape), len(right.shape))
    shape, coefficients = [], []
    for (n, c), (m, d) in zip(_padded(left, rank), _padded(right, rank), strict=True):
        if n != m and 1 not in (n, m):
            raise Undecided(f"index arrays of {n} and {m} do not broadcast")
        shape.append(max(n, m))
        total = operation(c if n > 1 else 0, d if m > 1 else 0)
        coefficients.append(total if isinstance(total, int) else 0)
    return IndexArray(tuple(shape), tuple(coefficients), operation(left.base, right.base))


def _padded(array: IndexArray, rank: int) -> list[tuple[int, int]]:
    missing = rank - len(array.shape)
    return [(1, 0)] * missing + list(zip(array.shape, array.coefficients, strict=True))


def scaled(array: IndexArray, factor: int) -> IndexArray:
    """An index array times a number."""
    return IndexArray(
        array.shape, tuple(c * factor for c in array.coefficients), scale(array.base, factor)
    )
