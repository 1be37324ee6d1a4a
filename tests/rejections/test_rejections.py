"""What execution rejects: one small file a rule and dialect, ``DIALECT/CODE_topic.py``.

Each file has a kernel ``broken``, whose comments say what is reported, and a kernel ``valid`` that
differs little and runs. ``# expect: CODE TEXT`` stands in the statement whose first line is named,
``# expect-function:`` anywhere in a kernel that is at fault as a whole (no line); TEXT is part of
the message, such as its figures. Directives give the arguments. Adding a case is adding a file.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accelopt_lsp.analysis import AnalysisOptions, analyze
from accelopt_lsp.analysis.arguments import discover_arguments
from accelopt_lsp.analysis.kernels import KernelSource, find_kernels
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.arguments import KernelArguments, TensorSpec
from accelopt_lsp.nki.diagnostics import Diagnostic, Severity
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.dtypes import Kind
from accelopt_lsp.nki.rules import Decided, rule_table
from accelopt_lsp.nki.targets import get_target
from accelopt_lsp.profiler.base import Failure, FailureKind
from accelopt_lsp.profiler.simulator import hook
from accelopt_lsp.profiler.simulator.elements import CARRIERS
from accelopt_lsp.profiler.simulator.explain import failure_of
from accelopt_lsp.profiler.simulator.kernels import Outcome, TensorInput, execute, unwrap
from accelopt_lsp.profiler.simulator.library import OPERATOR_NAMES
from accelopt_lsp.profiler.simulator.session import Session
from accelopt_lsp.profiler.simulator.source import Sources

FOLDER = Path(__file__).parent
CASES = sorted(p for d in Dialect for p in (FOLDER / d.value).glob("*.py"))
NAMES = {"ids": lambda p: f"{p.parent.name}-{p.stem}"}
_EXPECT = re.compile(r"#\s*expect(-function)?:\s*(R\d{3})\s*(.*)$")


@pytest.fixture(autouse=True)
def stand_ins() -> Iterator[None]:
    hook.install()
    yield
    hook.uninstall()


def expected(text: str) -> tuple[int | None, str, str]:
    """Line, code and part of the message that a file announces."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = _EXPECT.search(line)
        if match is not None:
            place, code, part = match.groups()
            at = None if place else _statement(text, number)
            found.append((at, code, part.strip()))
    assert len(found) == 1, "a case announces one rejection"
    return found[0]


def _statement(text: str, line: int) -> int:
    """First line of the simple statement, or of the head of a compound one, on a line."""
    starts = [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.stmt)
        and node.lineno <= line <= (node.end_lineno or 0)
        and (not hasattr(node, "body") or node.lineno == line)
    ]
    return max(starts)


def _case(path: Path, name: str) -> tuple[Document, KernelSource, KernelArguments]:
    document = Document.parse(path.read_text("utf-8"))
    source = next(k for k in find_kernels(document) if k.name == name)
    return document, source, discover_arguments(document, source, path=path)


def _input(spec: Any) -> Any:
    if not isinstance(spec, TensorSpec):
        return spec.value
    carrier = CARRIERS[spec.dtype.name]
    values = np.zeros(spec.shape, dtype=carrier)
    if spec.dtype.kind is Kind.FLOAT:
        values = values + np.asarray(0.5, dtype=carrier)
    return TensorInput(tuple(spec.shape), spec.dtype, values)


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[spec.name]
    return module


def run(path: Path, name: str) -> Outcome | Failure:
    """Run one kernel of a case with values, as its directive says."""
    sources = Sources(str(path))
    if name not in {k.name for k in find_kernels(Document.parse(path.read_text("utf-8")))}:
        return _called(path, name, sources)
    _, source, arguments = _case(path, name)
    fallback = "trn1" if source.dialect is Dialect.LEGACY else "trn2"
    try:
        kernel = unwrap(getattr(_module(path), name))
        assert kernel is not None
        session = Session(
            get_target(arguments.target or fallback),
            source.dialect,
            sources,
            full=True,
            names=OPERATOR_NAMES,
        )
        session.nki_version = arguments.nki_version
        values = [_input(arguments.values[p.name]) for p in source.parameters]
        return execute(kernel, values, {}, session, arguments.grid)
    except Exception as error:
        return failure_of(error, sources)


def _called(path: Path, name: str, sources: Sources) -> Failure:
    """Call a function that is no kernel."""
    function = getattr(_module(path), name)
    with pytest.raises(Exception) as caught:
        function()
    return failure_of(caught.value, sources)


@pytest.mark.parametrize("path", CASES, **NAMES)
def test_broken_kernels_are_rejected(path: Path) -> None:
    line, code, part = expected(path.read_text("utf-8"))
    found = run(path, "broken")
    assert isinstance(found, Failure)
    assert (found.kind, found.code, found.line) == (FailureKind.REJECTED, code, line), found
    assert part in found.message
    assert path.stem.startswith(code)


@pytest.mark.parametrize("path", CASES, **NAMES)
def test_valid_kernels_run(path: Path) -> None:
    assert isinstance(found := run(path, "valid"), Outcome), found


def _analyzed(path: Path) -> tuple[Diagnostic, ...]:
    document = Document.parse(path.read_text("utf-8"))
    return analyze(document, path=path, options=AnalysisOptions()).diagnostics


@pytest.mark.parametrize("path", CASES, **NAMES)
def test_analysis_finds_no_error_in_valid_kernels(path: Path) -> None:
    _, source, _ = _case(path, "valid")
    found = [d for d in _analyzed(path) if d.severity is Severity.ERROR]
    assert [d for d in found if d.span.start.line >= source.first_line] == []


OTHER_CASES = {
    "R022": "only a call at module level is sure to stand outside a kernel",
    "R088": "reading knows no launch but that of a directive with a grid",
}
"""Rules that reading decides elsewhere than where a case of running can stand."""


@pytest.mark.parametrize(
    "code",
    [c for c, e in rule_table().items() if e.decided is Decided.BOTH and c not in OTHER_CASES],
)
def test_rules_that_reading_decides_are_found_in_the_same_statement(code: str) -> None:
    files = [p for p in CASES if p.stem.startswith(code)]
    found = {}
    for path in files:
        text = path.read_text("utf-8")
        line, expected_code, _ = expected(text)
        places = {(_statement(text, d.span.start.line), d.code) for d in _analyzed(path)}
        # Where running blames the kernel as a whole, reading may say more.
        found[path.stem] = any(
            (line is None or line == at) and named == expected_code for at, named in places
        )
    assert any(found.values()), found


def test_every_rule_that_execution_decides_has_a_case_in_each_dialect() -> None:
    covered = {(p.stem[:4], p.parent.name) for p in CASES}
    wanted = {
        (code, dialect.value)
        for code, entry in rule_table().items()
        if entry.by_execution
        for dialect in entry.dialects
    }
    assert wanted - covered == set()
    assert covered - wanted == set()


def test_every_code_that_the_product_raises_is_in_the_table() -> None:
    root = FOLDER.parents[1] / "accelopt_lsp"
    used: dict[str, set[str]] = {}
    for room in ("nki", "profiler", "analysis"):
        for file in (root / room).rglob("*.py"):
            for code in re.findall(r'"([RC]\d{3})"', file.read_text("utf-8")):
                used.setdefault(code, set()).add(room)
    table = rule_table()
    assert set(used) <= set(table)
    for code, entry in table.items():
        decided = entry.by_execution or entry.by_analysis
        assert decided == (code in used), code
        assert bool(entry.reason) != decided, code
        assert bool(entry.dialects) == decided, code
