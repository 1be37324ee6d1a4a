"""Linear forms agree with plain integers, iteration by iteration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelopt_lsp.analysis.affine import (
    Affine,
    Linear,
    NeedSplit,
    Undecided,
    Var,
    add,
    bounds,
    build,
    compare,
    floordiv,
    larger,
    modulo,
    multiply,
    scale,
    smaller,
    substitute,
    subtract,
    symbol,
)

VARS = (Var("i", 0, 5, 1), Var("j", 2, 4, 2), Var("k", 0, 3, 3))


def linears() -> st.SearchStrategy[Linear]:
    coefficients = st.tuples(*(st.integers(-6, 6) for _ in VARS))
    return st.builds(
        lambda const, found: build(const, zip(VARS, found, strict=True)),
        st.integers(-20, 20),
        coefficients,
    )


def assignments() -> Iterator[dict[Var, int]]:
    for values in product(*(range(v.low, v.high) for v in VARS)):
        yield dict(zip(VARS, values, strict=True))


def value(linear: Linear, at: dict[Var, int]) -> int:
    if isinstance(linear, int):
        return linear
    return linear.const + sum(c * at[v] for v, c in linear.terms)


def agrees(
    result: Linear, a: Linear, b: Linear | int, operation: Callable[[int, int], int]
) -> None:
    for at in assignments():
        assert value(result, at) == operation(value(a, at), value(b, at))


@given(a=linears(), b=linears())
def test_sums_and_differences(a, b):
    agrees(add(a, b), a, b, lambda x, y: x + y)
    agrees(subtract(a, b), a, b, lambda x, y: x - y)


@given(a=linears(), factor=st.integers(-5, 5))
def test_multiples(a, factor):
    agrees(scale(a, factor), a, factor, lambda x, y: x * y)
    agrees(multiply(a, factor), a, factor, lambda x, y: x * y)


@given(a=linears(), divisor=st.integers(-6, 6).filter(bool))
def test_division_is_exact_or_asks_for_a_split(a, divisor):
    try:
        quotient, rest = floordiv(a, divisor), modulo(a, divisor)
    except NeedSplit as need:
        assert need.var in VARS
        return
    agrees(quotient, a, divisor, lambda x, y: x // y)
    agrees(rest, a, divisor, lambda x, y: x % y)


@given(a=linears(), b=linears(), operator=st.sampled_from(["<", "<=", ">", ">=", "==", "!="]))
def test_comparisons_hold_for_all_iterations_or_ask_for_a_split(a, b, operator):
    truth = {
        "<": int.__lt__,
        "<=": int.__le__,
        ">": int.__gt__,
        ">=": int.__ge__,
        "==": int.__eq__,
        "!=": int.__ne__,
    }[operator]
    outcomes = {truth(value(a, at), value(b, at)) for at in assignments()}
    try:
        found = compare(operator, a, b)
    except NeedSplit as need:
        assert need.var in VARS
        if operator not in ("==", "!="):
            assert outcomes == {True, False}
        return
    assert outcomes == {found}


@given(
    coefficient=st.integers(-6, 6).filter(bool),
    const=st.integers(-40, 40),
    operator=st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
    trips=st.integers(2, 9),
)
def test_cuts_separate_the_iterations_of_one_variable(coefficient, const, operator, trips):
    var = Var("i", 0, trips, 1)
    form = build(const, [(var, coefficient)])
    try:
        compare(operator, form, 0)
    except NeedSplit as need:
        edges = [0, *sorted({c for c in need.cuts or () if 0 < c < trips}), trips]
        if len(edges) == 2:
            return
        for low, high in zip(edges, edges[1:], strict=False):
            part = Var("i", low, high, 1)
            assert compare(operator, add(scale(symbol(part), coefficient), const), 0) in (
                True,
                False,
            )


@given(a=linears())
def test_bounds_are_reached(a):
    values = [value(a, at) for at in assignments()]
    assert bounds(a) == (min(values), max(values))


@given(a=linears(), b=linears())
def test_minimum_and_maximum(a, b):
    try:
        low, high = smaller(a, b), larger(a, b)
    except NeedSplit:
        return
    agrees(low, a, b, min)
    agrees(high, a, b, max)


@given(a=linears(), replacement=st.integers(-5, 5))
def test_substitution(a, replacement):
    changed = substitute(a, VARS[0], replacement)
    for at in assignments():
        assert value(changed, at) == value(a, {**at, VARS[0]: replacement})


def test_a_loop_that_may_not_be_split_is_undecided():
    var = Var("i", 0, 10, 1, opaque=True)
    with pytest.raises(Undecided, match="depends on the iteration"):
        compare("<", Affine(0, ((var, 1),)), 5)
    with pytest.raises(Undecided):
        multiply(Affine(0, ((var, 1),)), Affine(0, ((var, 1),)))


def test_forms_read_like_source():
    i, j, _ = VARS
    assert str(build(-3, [(i, 128), (j, -1)])) == "128 * i - j - 3"
