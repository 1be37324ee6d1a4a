"""Rules are documented alike, and their pages can be looked up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from accelopt_lsp.analysis import analyze
from accelopt_lsp.analysis.rules import all_rules, explain, find_rule
from accelopt_lsp.analysis.rules.names import known_names
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.apis import APIS

HEADINGS = ["What it does", "Why", "Example", "Use instead"]


@pytest.mark.parametrize("rule", all_rules(), ids=lambda r: r.code)
def test_every_rule_has_its_page(rule):
    page = explain(rule.code)
    assert page.startswith(f"# {rule.code}: {rule.name}\n")
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == HEADINGS
    assert find_rule(rule.name) is rule


def test_codes_and_names_are_unique():
    codes = [r.code for r in all_rules()]
    names = [r.name for r in all_rules()]
    assert codes == sorted(set(codes))
    assert len(names) == len(set(names))


def test_unknown_codes_name_those_that_look_alike():
    with pytest.raises(KeyError, match="like it: R099; accelopt explain lists all"):
        explain("R999")


def test_every_name_of_the_table_is_known():
    assert set(APIS) <= known_names()


def test_an_unknown_name_is_taken_for_one_that_the_target_has():
    path = Path(__file__).parent / "cases" / "r103_name_of_this_target.py"
    found = analyze(Document.parse(path.read_text("utf-8"))).diagnostics
    assert [d.message for d in found] == [
        "nisa.activate is no name of NKI; did you mean nisa.activation?"
    ]
