"""Every rule on rejections that reading decides: a kernel that trips it, and a near miss.

``rules/DIALECT/CODE_topic.py`` has a function ``trip``, in which ``# expect: CODE TEXT`` stands on
the line where the finding starts (TEXT is part of its message), and a function ``near`` that
differs little and is not found. Where running decides as well, the cases are those of
``tests/rejections``, whose functions are called ``broken`` and ``valid``. Adding a case is adding a
file.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from accelopt_lsp.analysis import AnalysisOptions, analyze
from accelopt_lsp.analysis.rules import find_rule
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.diagnostics import Diagnostic, Severity
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.rules import rule_table

HERE = Path(__file__).parent
TRIPS = sorted(p for d in Dialect for p in (HERE / "rules" / d.value).glob("*.py"))
RUNS = sorted(p for d in Dialect for p in (HERE.parent / "rejections" / d.value).glob("*.py"))
IDS = {"ids": lambda p: f"{p.parent.name}-{p.stem}"}
_EXPECT = re.compile(r"#\s*expect(?:-function)?:\s*([RC]\d{3})\s*(.*)$")
DECIDED = [
    (code, dialect)
    for code, entry in rule_table().items()
    if entry.by_analysis
    for dialect in entry.dialects
]


def findings(path: Path, version: str | None = None) -> tuple[Diagnostic, ...]:
    text = path.read_text("utf-8")
    options = AnalysisOptions(nki_version=version)
    return analyze(Document.parse(text), path=path, options=options).diagnostics


def lines_of(path: Path, name: str) -> range:
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return range(0)


def announced(path: Path) -> list[tuple[int, str, str]]:
    found = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        match = _EXPECT.search(line)
        if match is not None:
            found.append((number, match[1], match[2].strip()))
    return found


@pytest.mark.parametrize("path", TRIPS, **IDS)
def test_trips_are_found_where_they_are(path: Path) -> None:
    code = path.stem[:4]
    found = findings(path)
    places = {(d.span.start.line, d.code) for d in found if d.code == code}
    expected = announced(path)
    assert places == {(line, named) for line, named, _ in expected}, found
    for line, named, part in expected:
        messages = [d.message for d in found if (d.span.start.line, d.code) == (line, named)]
        assert any(part in message for message in messages), messages


@pytest.mark.parametrize("path", TRIPS, **IDS)
def test_near_misses_have_no_finding_of_any_rejection(path: Path) -> None:
    near = lines_of(path, "near")
    assert near
    found = [d for d in findings(path) if d.span.start.line in near]
    assert [d for d in found if d.severity is Severity.ERROR or d.code == path.stem[:4]] == []


@pytest.mark.parametrize("path", RUNS, **IDS)
def test_what_runs_is_no_finding_of_its_rule(path: Path) -> None:
    valid = lines_of(path, "valid")
    assert valid
    found = [d for d in findings(path) if d.span.start.line in valid]
    assert [d for d in found if d.code == path.stem[:4]] == []


@pytest.mark.parametrize(("code", "dialect"), DECIDED, ids=str)
def test_every_rule_has_a_trip_in_each_of_its_dialects(code: str, dialect: Dialect) -> None:
    files = [p for p in (*TRIPS, *RUNS) if p.stem.startswith(code) and p.parent.name == dialect]
    assert any(code in {d.code for d in findings(path)} for path in files)


@pytest.mark.parametrize("path", TRIPS, **IDS)
def test_rules_are_errors_only_where_they_are_sure(path: Path) -> None:
    rule = find_rule(path.stem[:4])
    assert rule is not None
    for version in (None, "0.2", "0.6"):
        found = {d.severity for d in findings(path, version) if d.code == rule.code}
        assert Severity.ERROR not in found or rule.severity_at(version) is Severity.ERROR


@pytest.mark.parametrize(
    ("name", "version", "severity"),
    [
        ("C002_numbers", "0.1", Severity.WARNING),
        ("C002_numbers", "0.2", Severity.ERROR),
        ("R077_other_package", "0.3", Severity.WARNING),
        ("R077_other_package", "0.4", Severity.ERROR),
    ],
)
@pytest.mark.parametrize("by", ["settings", "directive"])
def test_versions_make_rules_sure(name: str, version: str, severity: Severity, by: str) -> None:
    path = HERE / "rules" / "current" / f"{name}.py"
    text = path.read_text("utf-8")
    if by == "directive":
        text = text.replace("x=f32[128,512]", f"x=f32[128,512] nki-version={version}")
    options = AnalysisOptions(nki_version=version if by == "settings" else None)
    found = analyze(Document.parse(text), path=path, options=options).diagnostics
    assert {d.severity for d in found if d.code == name[:4]} == {severity}
