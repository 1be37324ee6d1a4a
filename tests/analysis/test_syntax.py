"""Documents: incremental parsing, positions, and texts that do not parse."""

from __future__ import annotations

import pickle
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tree_sitter import Node

from accelopt_lsp.analysis import analyze
from accelopt_lsp.analysis.kernels import find_kernels
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.tree import module_of
from accelopt_lsp.nki.diagnostics import Position

KERNELS = sorted((Path(__file__).parent / "kernels").glob("*.py"))
TEXTS = [p.read_text("utf-8") for p in KERNELS]
ALPHABET = st.characters(codec="utf-8") | st.sampled_from(list("()[]{}:=#'\"\\\n\t@,.é漢😀"))


def shape(node: Node) -> list[tuple[str, int, int, bool]]:
    found, stack = [], [node]
    while stack:
        current = stack.pop()
        found.append((current.type, current.start_byte, current.end_byte, current.is_missing))
        stack.extend(current.children)
    return found


@settings(deadline=None, max_examples=60)
@given(
    text=st.sampled_from(TEXTS) | st.text(ALPHABET, max_size=80),
    places=st.tuples(st.floats(0, 1), st.floats(0, 0.2)),
    piece=st.text(ALPHABET, max_size=12),
)
def test_incremental_parse_equals_fresh_parse(text, places, piece):
    start = int(places[0] * len(text))
    end = min(len(text), start + int(places[1] * len(text)))
    before = Document.parse(text)
    edited = before.replaced(len(text[:start].encode()), len(text[:end].encode()), piece)
    fresh = Document.parse(text[:start] + piece + text[end:])
    assert edited.text == fresh.text
    assert shape(edited.root) == shape(fresh.root)
    assert before.text == text


@given(text=st.text(ALPHABET, max_size=60), line=st.integers(-1, 8), column=st.integers(-1, 20))
def test_positions_are_code_points_and_stay_inside(text, line, column):
    document = Document.parse(text)
    byte = document.byte_at(Position(line, column))
    assert 0 <= byte <= len(document.data)
    place = document.position_at(byte)
    assert document.byte_at(place) == byte
    lines = text.split("\n")
    assert 1 <= place.line <= len(lines)
    assert 1 <= place.column <= len(lines[place.line - 1]) + 1


@settings(deadline=None, max_examples=40)
@given(text=st.text(ALPHABET, max_size=200))
def test_any_text_can_be_analyzed(text):
    analyze(Document.parse(text))


@pytest.mark.parametrize("text", ["\ud800", "x = '\udcff'", "\x00", "def f(\x00):", "\r\r\n\r"])
def test_texts_that_are_no_valid_unicode_can_be_analyzed(text):
    document = Document.parse(text)
    analyze(document)
    document.syntax_errors()


@settings(deadline=None, max_examples=80)
@given(
    text=st.sampled_from(TEXTS),
    cut=st.tuples(st.floats(0, 1), st.integers(1, 60)),
    piece=st.text(ALPHABET, max_size=6),
)
def test_kernels_with_pieces_missing_can_be_analyzed(text, cut, piece):
    start = int(cut[0] * len(text))
    broken = text[:start] + piece + text[start + cut[1] :]
    document = Document.parse(broken)
    found = analyze(document)
    for diagnostic in found.diagnostics:
        assert diagnostic.span.start <= diagnostic.span.end
        assert 1 <= diagnostic.span.start.line <= document.line_count
    pickle.loads(pickle.dumps(found))


def test_one_broken_statement_leaves_the_rest_typed():
    text = "import nki\n\n\ndef f(:\n    pass\n\n\ndef g(x):\n    y = = 2\n    return x\n"
    document = Document.parse(text)
    assert document.syntax_errors()
    names = {getattr(n, "name", None) for n in module_of(document).body}
    assert "g" in names


def test_errors_carry_pythons_own_words():
    (error, *_) = Document.parse("x = [1, 2\n").syntax_errors()
    assert "never closed" in error.message


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("f(a=1, b)\n", 1, 9, "positional argument follows keyword argument"),
        ("def f():\n    x = nl.\n    y = 2\n", 2, 12, "invalid syntax"),
        ("return 1\n", 1, 1, "'return' outside function"),
        ("def f(a, a):\n    pass\n", 1, 10, "duplicate argument 'a'"),
        ("def f():\n\tx\n        y\n", 3, 9, "inconsistent use of tabs"),
        ("def f():\n    '''one\n    '''\n      two\n    '''\n", 4, 7, "unexpected indent"),
        ("x = f(\n", 1, 6, "'(' was never closed"),
        ("x = '\N{ROCKET}' + 3 3\n", 1, 13, "invalid syntax"),
    ],
)
def test_the_first_error_is_where_python_has_it(text, line, column, message):
    first = Document.parse(text).syntax_errors()[0]
    assert message in first.message
    assert first.span.start == Position(line, column)
    assert first.span.start < first.span.end


@pytest.mark.parametrize("text", ["await x\n", "f'{x['a']}'\n", "x = '\\d'\n"])
def test_what_another_python_or_a_notebook_allows_is_no_error(text):
    assert Document.parse(text).syntax_errors() == ()


@pytest.mark.parametrize("seed", [12, 21, 113, 117])
def test_broken_text_has_the_same_errors_however_it_came_about(seed):
    """With these seeds the grammar takes the edited text otherwise than the whole one."""
    chance = random.Random(seed)
    path = Path(__file__).parents[1] / "server" / "kernels" / "product.py"
    document = Document.parse(path.read_text("utf-8"))
    for _ in range(12):
        text = document.text
        at = chance.randrange(len(text) + 1)
        piece = chance.choice(
            ("", "(", ")", "\n", ":", "'", '"""', "x", "[", "for i in", "@", "\\")
        )
        document = document.updated(text[:at] + piece + text[at + chance.choice((0, 0, 1, 20)) :])
        fresh = Document.parse(document.text)
        assert document.syntax_errors() == fresh.syntax_errors()


def test_errors_behind_the_first_are_listed_too():
    lines = [d.span.start.line for d in Document.parse("x = 1 1\n\ny = (2 2\nz\n)").syntax_errors()]
    assert lines == sorted(set(lines))
    assert len(lines) > 1


def test_columns_count_code_points():
    document = Document.parse("é = '漢😀'; y = 1\n")
    assert document.position_at(len("é = '漢😀'; ".encode())) == Position(1, 11)


def test_kernels_survive_pickling_without_their_nodes():
    kernels = find_kernels(Document.parse(TEXTS[0]))
    copied = pickle.loads(pickle.dumps(kernels))
    assert copied[0].qualname == kernels[0].qualname
    assert copied[0].node is None
