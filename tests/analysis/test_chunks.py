"""Typed trees by top-level statement: the same as CPython's, and kept over edits."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from accelopt_lsp.analysis.chunks import chunks_of
from accelopt_lsp.analysis.limited import LimitedCache
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.tree import module_of

HERE = Path(__file__).parent
FILES = sorted((*HERE.glob("kernels/*.py"), *HERE.glob("*.py")))

TEXT = """\
import nki

SIZE = 128; HALF = 64


@nki.jit
def first(x):
    return x


def second(x):
    y = x + SIZE
    return y
"""


def dump(module: ast.Module) -> str:
    return ast.dump(ast.Module(module.body, []), include_attributes=True)


def body(text: str) -> list[ast.stmt]:
    return module_of(Document.parse(text)).body


@pytest.mark.parametrize("file", FILES, ids=lambda p: p.name)
def test_the_same_tree_as_cpython(file):
    text = file.read_text("utf-8")
    assert dump(module_of(Document.parse(text))) == dump(ast.parse(text))


def test_statements_on_one_line_are_one_chunk():
    assert [(c.line, c.end_line) for c in chunks_of(Document.parse(TEXT))] == [
        (1, 1),
        (3, 3),
        (6, 8),
        (11, 13),
    ]


def test_an_edit_parses_only_the_statement_it_is_in():
    before = Document.parse(TEXT)
    after = before.updated(TEXT.replace("x + SIZE", "x + HALF"))
    old, new = module_of(before).body, module_of(after).body
    assert [a is b for a, b in zip(old, new, strict=True)] == [True, True, True, True, False]
    assert dump(module_of(after)) == dump(ast.parse(after.text))


def test_moved_statements_have_their_new_lines_and_old_documents_theirs():
    before = Document.parse(TEXT)
    module_of(before)
    after = before.updated("# moved\n" + TEXT)
    assert dump(module_of(after)) == dump(ast.parse(after.text))
    assert dump(module_of(before)) == dump(ast.parse(TEXT))


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        ("    return x\n", "    return (\n", ["nki", "SIZE", "HALF", "second"]),
        ("y = x + SIZE", "y = x +", ["nki", "SIZE", "HALF", "first", "second"]),
        ("import nki", "print 'hello'", ["SIZE", "HALF", "first", "second"]),
        ("y = x + SIZE", "print y", ["nki", "SIZE", "HALF", "first", "second"]),
        ("SIZE = 128; HALF", "  SIZE = 128; HALF", ["nki", "first", "second"]),
    ],
)
def test_broken_text_costs_what_is_broken(old, new, kept):
    names = []
    for node in body(TEXT.replace(old, new, 1)):
        if isinstance(node, ast.Import):
            names.append(node.names[0].name)
        elif isinstance(node, ast.Assign):
            names.append(ast.unparse(node.targets[0]))
        elif isinstance(node, ast.FunctionDef):
            names.append(node.name)
    assert set(kept) <= set(names)


def test_a_statement_that_only_cpython_refuses_leaves_the_rest_of_its_function():
    tree = body(TEXT.replace("y = x + SIZE", "print y"))[-1]
    assert isinstance(tree, ast.FunctionDef)
    assert [type(n) for n in tree.body] == [ast.Pass, ast.Return]


@pytest.mark.parametrize("text", ["", "\ufeffx = 1\n", "x = 1\r\ny = 2\r\n", "\x0cx = 1\n"])
def test_marks_and_line_ends(text):
    expected = [ast.unparse(n) for n in ast.parse(text.lstrip("\ufeff")).body]
    assert [ast.unparse(n) for n in body(text)] == expected


@pytest.mark.parametrize("text", ["x = '\r'\ny = 1\n", "# a\rb\n\n\ny = 1\n"])
def test_a_lone_carriage_return_ends_no_line(text):
    document = Document.parse(text)
    last = module_of(document).body[-1]
    assert document.lines[last.lineno - 1] == "y = 1"


@pytest.mark.parametrize(
    "text",
    [
        "x = '\0'\n",
        "(" * 500 + ")" * 500,
        "x = " + "-" * 5000 + "1",
        "def f(:\n" * 200,
        "\udcff = 1\n",
    ],
)
def test_nothing_is_too_odd_to_parse(text):
    assert isinstance(body(text), list)


@pytest.mark.parametrize("text", ["", "x", TEXT, TEXT[:40] + "é" + TEXT[40:], TEXT * 2])
def test_any_update_is_the_new_text(text):
    before = Document.parse(TEXT)
    after = before.updated(text)
    assert after.text == text
    assert str(after.root) == str(Document.parse(text).root)


def test_a_limited_cache_forgets_what_was_not_used_for_longest():
    cache: LimitedCache[str, int] = LimitedCache(3)
    for name in "abc":
        cache.put(name, ord(name))
    assert cache.get("a") == ord("a")
    cache.put("d", 4)
    assert [cache.get(name) for name in "abcd"] == [ord("a"), None, ord("c"), 4]
    cache.put("heavy", 1, weight=4)
    assert cache.get("heavy") is None
    cache.put("d", 5, weight=3)
    assert (len(cache), cache.weight, cache.get("d")) == (1, 3, 5)
