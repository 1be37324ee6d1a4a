"""Diagnostics on small files: what is expected stands in comments at the lines.

``# expect: R023 P01`` names the codes that start on this line, ``# expect-above:`` those of a
call that ended on the line before or of the statement above. Adding a case is adding a file.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from accelopt_lsp.analysis import AnalysisOptions, analyze
from accelopt_lsp.analysis.rules import all_rules
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.rules import rule_table

FOLDER = Path(__file__).parent / "cases"
CASES = sorted(FOLDER.glob("*.py"))
_EXPECT = re.compile(r"#\s*expect(-above)?:\s*([A-Z]\d+(?:\s+[A-Z]\d+)*)")


def _statement_start(tree: ast.Module | None, line: int) -> int:
    """First line of the innermost statement or argument that ends at a line."""
    found = line
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            if node.lineno <= line <= (node.end_lineno or node.lineno):
                found = node.lineno
    return found


def expected(text: str) -> set[tuple[int, str]]:
    try:
        tree = ast.parse(text)
    except SyntaxError:
        tree = None
    found = set()
    for number, line in enumerate(text.splitlines(), 1):
        for above, codes in _EXPECT.findall(line):
            at = number
            if above:
                own = line.split("#")[0].strip()
                at = _statement_start(tree, number if own else number - 1)
            found |= {(at, code) for code in codes.split()}
    return found


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_case(path):
    text = path.read_text("utf-8")
    found = analyze(Document.parse(text), path=path).diagnostics
    places = {(d.span.start.line, d.code) for d in found}
    listed = "\n".join(f"{d.span.start.line}: {d.code} {d.message}" for d in found)
    assert places == expected(text), listed


def test_every_limit_has_a_case():
    covered = {code for path in CASES for _, code in expected(path.read_text("utf-8"))}
    # test_trips.py asks for cases of these.
    covered |= set(rule_table())
    assert {rule.code for rule in all_rules()} - covered == set()


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_ignored_codes_are_not_reported(path):
    text = path.read_text("utf-8")
    codes = {code for _, code in expected(text)}
    options = AnalysisOptions(ignore=tuple(codes))
    found = analyze(Document.parse(text), path=path, options=options).diagnostics
    assert not codes & {d.code for d in found}
