"""Lines of a text that holds other separators than ends of lines."""

from __future__ import annotations

import ast

import pytest

from accelopt_lsp.nki.lines import split_lines
from accelopt_lsp.rewrites.source import SourceText
from accelopt_lsp.workbench.fixes import fix_text
from accelopt_lsp.workbench.settings import Settings

HEAD = "# a\x0cb \u2028 c\x0b \x1c \x85 d\n"
KERNEL = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, *, scale=2.0):
    tile = nl.load(x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=scale)
    return tile
"""


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_those_of_the_tree(end):
    text = (HEAD + KERNEL).replace("\n", end)
    assert "".join(split_lines(text)) == text
    assert len(split_lines(text)) == 11
    source = SourceText(text)
    names = [source.of(n) for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)]
    assert {"nki", "tile", "scale", "x"} <= set(names)


@pytest.mark.parametrize("before", [HEAD, "\n" + HEAD])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_fixes_touch_only_their_place(before, end, tmp_path):
    path = tmp_path / "kernel.py"
    text = KERNEL.replace("\n", end)
    fixed, count = fix_text(text, path, Settings())
    assert count
    assert fix_text(before + text, path, Settings()) == (before + fixed, count)
    assert fix_text(fixed, path, Settings()) == (fixed, 0)
