"""The tables of names, parameters and pages are complete and agree with each other."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from accelopt_lsp.nki.apis import APIS
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.reference.names import children, constant_value, find_name, names
from accelopt_lsp.nki.reference.pages import page, short_page
from accelopt_lsp.nki.reference.parameters import Passing, about, parameters_of, signature_text
from accelopt_lsp.nki.reference.published import page_address
from accelopt_lsp.nki.reference.values import values_of
from accelopt_lsp.nki.targets import get_target, target_names
from accelopt_lsp.nki.writing.completion import complete
from accelopt_lsp.nki.writing.place import Place
from accelopt_lsp.nki.writing.scan import masked, where
from accelopt_lsp.nki.writing.signatures import shown_call

CALLS = [(name, dialect) for name in names().values() for dialect in name.calls]
_ORDER = "greater greater_equal less less_equal not_equal"
KERNELS = Path(__file__).parents[1] / "server" / "kernels"


def test_every_call_of_the_instruction_table_has_a_name() -> None:
    assert set(APIS) <= set(names())
    assert {"nl.sbuf", "nl.bfloat16", "nisa.engine.vector", "tensor.ap", "nki.jit"} <= set(names())


def test_every_parameter_is_explained() -> None:
    unknown = {
        (name.path, parameter.name)
        for name, dialect in CALLS
        for parameter in parameters_of(name.path, name.calls[dialect])
        if not about(name.path, parameter.name).text
    }
    assert unknown == set()


def test_values_of_parameters_are_names_of_the_dialect() -> None:
    for name, dialect in CALLS:
        for parameter in parameters_of(name.path, name.calls[dialect]):
            for path in values_of(name, parameter.name, dialect):
                value = find_name(path)
                assert path in ("True", "False") or dialect in value.dialects, (name.path, path)


@pytest.mark.parametrize(
    ("call", "parameter", "taken"),
    [
        ("nisa.activation", "reduce_op", "add"),
        ("nisa.activate2", "reduce_op", "abs_max abs_min add maximum minimum"),
        ("nisa.select_reduce", "reduce_op", "maximum"),
        ("nisa.affine_select", "cmp_op", f"equal {_ORDER}"),
        ("nisa.dma_copy", "engine", "sync scalar unknown"),
        ("nisa.nc_matmul", "perf_mode", "double_row none"),
    ],
)
def test_what_a_parameter_takes(call: str, parameter: str, taken: str) -> None:
    found = values_of(find_name(call), parameter, Dialect.CURRENT)
    assert [path.rpartition(".")[2] for path in found] == taken.split()


def test_signatures_are_shown_as_one_writes_them() -> None:
    ndarray = find_name("nl.ndarray").calls
    assert signature_text("nl.ndarray", ndarray[Dialect.LEGACY]) == (
        "(shape, dtype, *, buffer=None, name='')"
    )
    assert "buffer=nl.sbuf" in signature_text("nl.ndarray", ndarray[Dialect.CURRENT])
    copy = signature_text("nisa.tensor_copy", "(dst, src, engine='unknown', name=None)")
    assert copy == "(dst, src, engine=nisa.engine.unknown, name=None)"
    (many,) = parameters_of("nl.arange", "(*args)")
    assert (many.passing, many.text) == (Passing.MANY, "*args")


def test_replacements_of_deprecated_names_exist() -> None:
    old = [name for name in names().values() if name.deprecated]
    assert old
    for name in old:
        assert find_name(name.deprecated) is not None, name.path
    fmax = find_name("nl.tile_size.psum_fmax")
    assert [fmax.is_deprecated(v) for v in (None, "0.3", "0.4", "0.6")] == [True, False, True, True]


@pytest.mark.parametrize("dialect", list(Dialect))
def test_every_name_has_pages(dialect: Dialect) -> None:
    for name in names().values():
        text = page(name, dialect)
        assert text.startswith("# ") and name.summary in text
        assert name.summary in short_page(name, dialect, "trn2")
        for one in name.dialects:
            if not name.path.startswith(("tensor.", "nt.")):
                assert page_address(name.path, one) or name.path.startswith("nki."), name.path


def test_what_is_missing_says_why() -> None:
    quantize = find_name("nisa.quantize_mx")
    assert "v4" in quantize.missing(Dialect.CURRENT, "trn2")
    assert quantize.missing(Dialect.CURRENT, "trn3") == ""
    assert "not part of" in find_name("nl.arange").missing(Dialect.CURRENT, "trn2")
    load = find_name("nl.load")
    assert "from NKI 0.3.0 on" in load.missing(Dialect.CURRENT, "trn2", "0.2")
    assert load.missing(Dialect.CURRENT, "trn2", "0.3") == ""


def test_constants_have_the_value_of_the_target() -> None:
    assert constant_value("nl.tile_size.pmax", get_target("trn1")) == 128
    sizes = {constant_value("nl.tile_size.sbuf_fmax_bytes", get_target(t)) for t in target_names()}
    assert None not in sizes and len(sizes) > 1
    assert {c.path for c in children("nl.tile_size")} >= {"nl.tile_size.pmax"}


@pytest.mark.parametrize("file", sorted(KERNELS.glob("*.py")), ids=lambda f: f.stem)
def test_any_place_of_any_text_has_an_answer(file: Path) -> None:
    """Also where the rest is missing, and where a line is cut out."""
    text = file.read_text("utf-8")
    chosen = random.Random(file.stem)
    lines = text.splitlines(keepends=True)
    for _ in range(60):
        offset = chosen.randrange(len(text) + 1)
        cut = chosen.randrange(len(lines))
        for given in (text, text[:offset], "".join(lines[:cut] + lines[cut + 1 :])):
            assert len(masked(given)) == len(given)
            place = Place(given, min(offset, len(given)))
            complete(place)
            shown_call(place)
            where(given, place.offset)


@pytest.mark.parametrize(
    "line",
    [
        "x = [" + "(1, f(2)), " * 5000 + "nl.",
        "a." * 10_000 + "nl.",
        'x = "' + '\\"' * 20_000,
        "nl.load(" * 1000,
        "x = " + "[" * 10_000 + "nl.",
        '"' * 20_001,
    ],
    ids=["data", "dots", "quotes", "calls", "brackets", "strings"],
)
def test_one_long_line_has_an_answer(line: str) -> None:
    """Generated files: work grows with the line, not with its square."""
    text = f"import nki.language as nl\n{line}"
    place = Place(text, len(text))
    complete(place)
    shown_call(place)
