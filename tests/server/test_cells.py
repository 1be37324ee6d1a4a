"""Cells as one text: each line of a cell is one line of it, and no cell spoils another."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelopt_lsp.server.cells import Cell, Layout, python_lines, split_lines

PIECES = st.sampled_from(
    [
        *("x", "1", " ", "    ", "(", ")", "[", "}", '"', "'", '"""', "'''", "\\", "#", "?", "="),
        *("\n", "\r\n", "\r", "\u2028", "\f", "é😀", "f'", "%time", "%%bash\n", "!ls"),
        "def f():\n    ",
    ]
)
TEXTS = st.lists(PIECES, max_size=15).map("".join)


@given(st.lists(TEXTS, min_size=1, max_size=5))
def test_lines_and_places_go_back_and_forth(texts):
    layout = Layout.of(Cell(str(n), t) for n, t in enumerate(texts))
    lines = layout.text.split("\n")
    seen = set()
    for number, text in enumerate(texts):
        python, closing = python_lines(text)
        assert len(python) == len(split_lines(text))
        for inside, expected in enumerate(python):
            line = layout.line(str(number), inside)
            assert lines[line] == expected
            assert layout.place(line) == (number, inside)
            assert layout.holds(str(number), line)
            seen.add(line)
        if closing:
            assert lines[line + 1] == closing
            assert layout.place(line + 1) == (number, len(python) - 1)
            seen.add(line + 1)
    assert seen == set(range(len(lines) - 1))


@given(TEXTS)
def test_a_cell_that_breaks_off_leaves_the_next_one_alone(text):
    after = "def whole(x):\n    return x"
    layout = Layout.of([Cell("a", text), Cell("b", after)])
    start = layout.line("b", 0)
    rest = "\n".join(layout.text.split("\n")[start:])
    assert ast.dump(ast.parse(rest)) == ast.dump(ast.parse(after))
    _, closing = python_lines(text)
    try:
        ast.parse("\n".join(layout.text.split("\n")[:start]))
    except (SyntaxError, ValueError):
        return
    assert not closing  # what is open does not look complete


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("%matplotlib inline\nx = 1", ["pass", "x = 1"]),
        ("if x:\n    !ls -la\n    y()", ["if x:", "    pass", "    y()"]),
        ("files = !ls\nt = %timeit -o f()", ["pass", "pass"]),
        ("f?\n?f\nobj.name??", ["pass", "pass", "pass"]),
        ("%%time\nx = 1", ["pass", "x = 1"]),
        ("\n%%bash\nfor i in *; do\n\ndone", ["", "#", "#", "", "#"]),
        ("y = (5\n  % 2)", ["y = (5", "  % 2)"]),
        ("y = 5 \\\n  % 2", ["y = 5 \\", "  % 2"]),
        ('s = """\n%d items\n!\n"""', ['s = """', "%d items", "!", '"""']),
        ("a != b\nx %= 3\nf(a=1) % 2", ["a != b", "x %= 3", "f(a=1) % 2"]),
        ("x = a % b\ny = c != d", ["x = a % b", "y = c != d"]),
    ],
)
def test_magics(text, lines):
    assert python_lines(text) == (lines, "")


@pytest.mark.parametrize(
    ("text", "closing"),
    [
        ("f(", ") $"),
        ("x = {1: [", "]} $"),
        ("'''docs", "''' $"),
        ('g("""a', '""") $'),
        ("x = 'a", ""),
        ("x = 1 \\", " $"),
    ],
)
def test_what_a_cell_leaves_open_is_closed_behind_it(text, closing):
    assert python_lines(text)[1] == closing
