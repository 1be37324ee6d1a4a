"""Data types: names, sizes, promotion."""

from __future__ import annotations

import itertools

import pytest

from accelopt_lsp.nki.dtypes import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    Kind,
    all_dtypes,
    find_dtype,
    get_dtype,
    numpy_dtype,
    promote,
)


@pytest.mark.parametrize("dtype", all_dtypes(), ids=str)
def test_numpy_storage_has_the_declared_size(dtype):
    assert numpy_dtype(dtype).itemsize == dtype.nbytes


@pytest.mark.parametrize("dtype", all_dtypes(), ids=str)
def test_every_spelling_finds_the_type(dtype):
    for name in (dtype.name, dtype.short, *dtype.aliases):
        assert find_dtype(name) is dtype
        assert find_dtype(f"nl.{name}") is dtype


def test_spellings_are_unambiguous():
    spellings = [n for d in all_dtypes() for n in (d.name, d.short, *d.aliases)]
    assert len(spellings) == len(set(spellings))


@pytest.mark.parametrize("name", ["", "float", "f64", "int64", "nl.", "float32 "])
def test_unknown_names_are_none_or_an_error_that_lists_known_ones(name):
    assert find_dtype(name) is None
    with pytest.raises(ValueError, match=r"unknown data type .*bf16"):
        get_dtype(name)


PROMOTIONS = [
    # float with integer
    ("f32", "i8", "f32"),
    ("bf16", "i32", "bf16"),
    ("f8e4m3", "u32", "f8e4m3"),
    # floats of different width
    ("f32", "bf16", "f32"),
    ("f16", "f32", "f32"),
    ("f8e4m3", "bf16", "bf16"),
    ("f8e5m2", "f16", "f16"),
    # floats of one width without a common type
    ("f16", "bf16", "f32"),
    ("f8e4m3", "f8e5m2", "bf16"),
    # integers
    ("i8", "i32", "i32"),
    ("u8", "i16", "i16"),
    ("i8", "u8", "i16"),
    ("i16", "u16", "i32"),
    ("i32", "u32", "f32"),
    ("bool", "i8", "i8"),
    ("u8", "bool", "u8"),
]


@pytest.mark.parametrize(("first", "second", "expected"), PROMOTIONS)
def test_promotion(first, second, expected):
    assert promote(get_dtype(first), get_dtype(second)).short == expected


@pytest.mark.parametrize(
    ("first", "second"), list(itertools.product(all_dtypes(), repeat=2)), ids=lambda d: d.short
)
def test_promotion_is_commutative_idempotent_and_never_narrows(first, second):
    result = promote(first, second)
    assert result == promote(second, first)
    assert promote(result, first) == result or result is FLOAT32
    if first.is_float == second.is_float:
        assert result.nbytes >= max(first.nbytes, second.nbytes)
    if Kind.FLOAT in (first.kind, second.kind):
        assert result.is_float


def test_sixteen_bit_floats():
    assert [d.short for d in all_dtypes() if d.is_16bit_float] == ["bf16", "f16"]
    assert BFLOAT16.is_16bit_float
    assert FLOAT16.is_16bit_float
    assert not get_dtype("u16").is_16bit_float
