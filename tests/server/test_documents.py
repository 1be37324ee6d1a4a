"""Edits, and where older lines are now."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types as lsp

from accelopt_lsp.server.documents import MOST_EDITS, Document, path_of
from accelopt_lsp.server.edits import text_edits
from accelopt_lsp.server.positions import LineIndex


def document(text: str, encoding: str = "utf-16") -> Document:
    return Document("file:///tmp/k.py", Path("/tmp/k.py"), text, 1, encoding)


def edit(start, end, text):
    return lsp.TextDocumentContentChangePartial(
        range=lsp.Range(lsp.Position(*start), lsp.Position(*end)), text=text
    )


def test_partial_edits_apply_in_order():
    found = document("one\ntwo\nthree\n")
    found.apply([edit((1, 0), (1, 3), "2"), edit((1, 1), (2, 0), " and ")], 2)
    assert found.text == "one\n2 and three\n"
    assert found.version == 2


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_edit_after_an_astral_character(encoding):
    found = document("'😋'x\n", encoding)
    column = {"utf-8": 6, "utf-16": 4, "utf-32": 3}[encoding]
    found.apply([edit((0, column), (0, column + 1), "y")], 2)
    assert found.text == "'😋'y\n"


def test_lines_below_an_insertion_move():
    found = document("a\nb\nc\n")
    before = found.generation
    found.apply([edit((1, 0), (1, 0), "new\nnew\n")], 2)
    assert [found.current_line(n, before) for n in (1, 2, 3)] == [1, 4, 5]
    assert [found.earlier_line(n, before) for n in (1, 2, 3, 4, 5)] == [1, None, None, 2, 3]


def test_typing_in_a_line_keeps_it_and_a_deleted_line_is_gone():
    found = document("a\nb\nc\nd\n")
    before = found.generation
    found.apply([edit((1, 1), (1, 1), "!")], 2)
    assert found.current_line(2, before) == 2
    found.apply([edit((1, 0), (3, 0), "")], 3)
    assert found.current_line(3, before) is None
    assert found.current_line(4, before) is None or found.current_line(4, before) == 2
    assert found.current_line(5, before) == 3


def test_a_full_replacement_only_moves_what_differs():
    text = "".join(f"line {n}\n" for n in range(100))
    found = document(text)
    before = found.generation
    new = text.replace("line 50\n", "line 50\ninserted\n")
    found.apply([lsp.TextDocumentContentChangeWholeDocument(text=new)], 2)
    assert found.text == new
    assert found.current_line(10, before) == 10
    assert found.current_line(90, before) == 91


LINES = st.lists(st.sampled_from(["a", "b", "  c", "", "é😋"]), max_size=12)
EDITS = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.integers(0, 8),
        st.sampled_from(["", "x", "\n", "new\n", "p\nq\n", "tail\nhead"]),
    ),
    max_size=6,
)


@given(lines=LINES, edits=EDITS)
def test_a_mapped_line_is_where_its_text_went(lines, edits):
    """Unique lines that no edit touched are found at the place that the mapping gives."""
    text = "\n".join(f"{n}:{line}" for n, line in enumerate(lines)) + "\n"
    found = document(text)
    before, old = found.generation, text.split("\n")
    for start, length, new in edits:
        start = min(start, len(found.text))
        end = min(start + length, len(found.text))
        there = found.index.range(start, end)
        found.apply([lsp.TextDocumentContentChangePartial(range=there, text=new)], 2)
    now = found.text.split("\n")
    for number, line in enumerate(old, 1):
        place = found.current_line(number, before)
        if place is not None:
            assert 1 <= place <= len(now)
            assert found.earlier_line(place, before) in (number, None)
        if line.endswith(("a", "b")) and place is not None and line in now:
            assert now[place - 1] == line or now.count(line) >= 1


@given(old=st.text(st.sampled_from("ab\né😋\r"), max_size=60), new=st.text(max_size=60))
def test_text_edits_give_the_new_text(old, new):
    index = LineIndex(old)
    result = old
    for item in reversed(text_edits(index, new)):
        start, end = index.offset(item.range.start), index.offset(item.range.end)
        result = result[:start] + item.new_text + result[end:]
    assert result == new


def test_text_edits_leave_unchanged_lines_alone():
    index = LineIndex("a\nb\nc\nd\n")
    assert [e.range.start.line for e in text_edits(index, "a\nB\nc\nd\ne\n")] == [1, 4]


def test_unsaved_documents_have_a_name():
    assert path_of("untitled:Untitled-1").name == "Untitled-1.py"
    assert path_of("file:///a/b.py") == Path("/a/b.py")


@given(
    text=st.text(st.sampled_from("a\r\n"), max_size=12),
    edits=st.lists(
        st.tuples(
            st.integers(0, 12), st.integers(0, 4), st.text(st.sampled_from("b\r\n"), max_size=3)
        ),
        max_size=5,
    ),
)
def test_returns_end_lines_where_the_client_ends_them(text, edits):
    found = document(text)
    for start, length, new in edits:
        start = min(start, len(text))
        end = min(start + length, len(text))
        there = LineIndex(text).range(start, end)
        # Positions name no place within a line's end: the client has none either.
        start, end = LineIndex(text).offset(there.start), LineIndex(text).offset(there.end)
        found.apply([lsp.TextDocumentContentChangePartial(range=there, text=new)], 2)
        text = text[:start] + new + text[max(start, end) :]
    assert len(found.text) == len(text)
    assert found.text.replace("\r\n", "\n") == re.sub("\r\n|\r", "\n", text)
    found.apply([lsp.TextDocumentContentChangeWholeDocument(text="x\ry\r\n")], 3)
    assert found.text == "x\ny\r\n"


def test_what_is_no_longer_remembered_is_not_known() -> None:
    before_opening = document("a\nb\n").generation
    found = document("a\nb\n")
    assert found.current_line(1, before_opening) is None
    first = found.generation
    assert found.current_line(2, first) == 2
    for number in range(MOST_EDITS + 1):
        change = lsp.TextDocumentContentChangePartial(
            lsp.Range(lsp.Position(0, 0), lsp.Position(0, 0)), "\n"
        )
        found.apply([change], number)
    assert found.current_line(2, first) is None
    assert found.earlier_line(2 + MOST_EDITS, first) is None
