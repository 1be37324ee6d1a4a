"""Positions in the client's code units, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types as lsp

from accelopt_lsp.nki.diagnostics import Position, Span
from accelopt_lsp.server.positions import LineIndex, code_points, units

ENCODINGS = ("utf-8", "utf-16", "utf-32")
TEXTS = st.text(st.sampled_from("ab é€𝄞\t\n\r\u2028\x0c"), max_size=40)


@pytest.mark.parametrize(("encoding", "expected"), [("utf-8", 7), ("utf-16", 5), ("utf-32", 4)])
def test_units_of_an_emoji(encoding, expected):
    assert units('x="😋', encoding) == expected
    assert code_points('x="😋"', expected, encoding) == 4


def test_count_inside_a_character_rounds_down():
    assert code_points("😋x", 1, "utf-16") == 0
    assert code_points("😋x", 3, "utf-8") == 0


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(text=TEXTS, data=st.data())
def test_offsets_survive_the_way_there_and_back(encoding, text, data):
    index = LineIndex(text, encoding)
    offset = data.draw(st.integers(0, len(text)))
    there = index.position(offset)
    back = index.offset(there)
    # Only a place between the CR and LF of one line end has no position of its own.
    between = text[max(offset - 1, 0) : offset + 1] == "\r\n"
    assert back == offset or (between and back == offset - 1)


@given(text=TEXTS, data=st.data())
def test_spans_count_lines_by_newlines_only(text, data):
    index = LineIndex(text, "utf-32")
    offset = data.draw(st.integers(0, len(text)))
    line = text.count("\n", 0, offset) + 1
    column = offset - (text.rfind("\n", 0, offset) + 1) + 1
    assert index.span_offset(Position(line, column)) == offset
    assert index.span_range(Span(Position(line, column), Position(line, column))).start == (
        index.position(offset)
    )


def test_lines_end_where_lsp_says():
    # A form feed and a line separator end no line; a lone CR does.
    index = LineIndex("a\x0cb\u2028c\rd\r\ne\n")
    assert [index.line(i) for i in range(index.line_count)] == ["a\x0cb\u2028c", "d", "e", ""]


def test_places_outside_the_text_are_clamped():
    index = LineIndex("ab\ncd")
    assert index.offset(lsp.Position(0, 99)) == 2
    assert index.offset(lsp.Position(99, 0)) == 5
    assert index.span_offset(Position(99, 99)) == 5
    assert index.span_offset(Position(1, 99)) == 2


def test_utf16_range_of_a_span():
    index = LineIndex("x = '😋'; bad()\n", "utf-16")
    span = Span(Position(1, 10), Position(1, 13))
    assert index.span_range(span) == lsp.Range(lsp.Position(0, 10), lsp.Position(0, 13))
