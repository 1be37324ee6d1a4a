"""Legacy kernels in current NKI: the text that comes out, and that it computes the same.

The kernels are those that show what each migration rule is about (``tests/analysis/cases/M*``,
whose comments on expectations are left out here), those that analysis is tested with, the
examples, and the kernels that rewrites are tried on.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from accelopt_lsp.analysis import AnalysisOptions, analyze
from accelopt_lsp.analysis.kernels import find_kernels
from accelopt_lsp.analysis.rules import all_rules
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.diagnostics import Severity
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.profiler.base import Job
from accelopt_lsp.profiler.simulator import SimulatorProfiler
from accelopt_lsp.rewrites import NotApplicable, find_rewrite
from accelopt_lsp.rewrites.migrate import migrate_text
from accelopt_lsp.workbench.fixes import apply_fix, fix_text
from accelopt_lsp.workbench.migrate import MigrateRequest, migrate_file
from accelopt_lsp.workbench.requests import KernelRequest, resolve_kernel
from accelopt_lsp.workbench.settings import Settings

TESTS = Path(__file__).parents[1]
GOLDEN = Path(__file__).parent / "golden"
CASES = sorted((TESTS / "analysis" / "cases").glob("M*.py"))
REFUSED_BY_BOTH = {"M38_range_select_default", "legacy_indirect"}
"""The original does not run: an accumulator that nothing fills, and indices drawn at random."""
KERNELS = [
    *sorted((TESTS / "analysis" / "kernels").glob("legacy*.py")),
    *sorted((TESTS / "rewrites" / "cases").glob("*/legacy*.in.py")),
    *sorted(p for p in (TESTS.parent / "examples" / "legacy").glob("*.py") if "_ref" not in p.stem),
]
BY_HAND = {"legacy_language_functions": "shared_identity_matrix"}
"""Kernels with something that has no current form, by part of the reason."""
_EXPECT = re.compile(r"  # expect: .*")
_SHAPE = re.compile(r"\[4096,(\d+)\]")


def text_of(path: Path) -> str:
    text = _EXPECT.sub("", path.read_text("utf-8"))
    return _SHAPE.sub(r"[256,\1]", text) if path.parts[-3] == "examples" else text


def is_legacy(path: Path) -> bool:
    return any(k.dialect is Dialect.LEGACY for k in find_kernels(Document.parse(text_of(path))))


def mended(text: str) -> str:
    """The text with every fix of a migration rule applied."""
    for _ in range(20):
        found = analyze(Document.parse(text)).diagnostics
        fixes = [d.fix for d in found if d.code.startswith("M") and d.fix is not None]
        if not fixes:
            return text
        text = apply_fix(text, fixes[0])
    raise AssertionError("fixes do not come to an end")


LEGACY = [p for p in CASES if is_legacy(p)]
CURRENT = [p for p in CASES if not is_legacy(p)]
names = {"ids": lambda p: p.stem}


@pytest.mark.parametrize("path", LEGACY, **names)
def test_the_legacy_case_of_a_rule_becomes_the_golden_text(path: Path, golden) -> None:
    made = migrate_text(text_of(path)).text
    ast.parse(made)
    golden(made, GOLDEN / path.name)


@pytest.mark.parametrize("path", CURRENT, **names)
def test_fixes_of_a_rule_make_the_golden_text(path: Path, golden) -> None:
    made = mended(text_of(path))
    ast.parse(made)
    golden(made, GOLDEN / path.name)


@pytest.mark.parametrize("path", CASES, **names)
def test_nothing_is_left_to_migrate(path: Path) -> None:
    text = (GOLDEN / path.name).read_text("utf-8")
    assert "neuronxcc" not in text
    # What a version of its own is for stays as that version wants it.
    options = AnalysisOptions(nki_version="0.6") if is_legacy(path) else AnalysisOptions()
    found = analyze(Document.parse(text), options=options).diagnostics
    left = [d for d in found if d.code.startswith("M") or d.severity is Severity.ERROR]
    assert left == []


def test_every_rule_has_a_kernel_that_is_migrated() -> None:
    codes = {p.stem[:3] for p in CASES}
    assert {r.code for r in all_rules() if r.code.startswith("M")} == codes


@pytest.mark.parametrize("path", LEGACY, **names)
async def test_migrated_cases_compute_what_they_did(path: Path) -> None:
    await _same_outputs(path)


@pytest.mark.slow
@pytest.mark.parametrize("path", KERNELS, ids=lambda p: f"{p.parent.name}-{p.stem}")
async def test_migrated_kernels_compute_what_they_did(path: Path) -> None:
    await _same_outputs(path)


async def _same_outputs(path: Path) -> None:
    text = text_of(path)
    reason = BY_HAND.get(path.stem)
    if reason is not None:
        with pytest.raises(NotApplicable, match=reason):
            migrate_text(text)
        return
    report = await migrate_file(MigrateRequest(KernelRequest(path, text=text)))
    assert report.checks
    for check in report.checks:
        if path.stem in REFUSED_BY_BOTH and check.function == "kernel":
            assert check.correct is None and "the original does not run" in check.reason
        elif check.correct is None:
            assert "needs" in check.reason, "a part of a kernel, whose arguments nobody gives"
        else:
            assert check.correct, f"{check.function}: {check.reason or check.error}"


def test_what_needs_no_change_stays_byte_for_byte() -> None:
    path = TESTS.parent / "examples" / "legacy" / "silu_gate.py"
    text = path.read_text("utf-8")
    made = migrate_text(text).text
    before, after = text.splitlines(), made.splitlines()
    changed = [line for line in before if line not in after]
    assert changed == ["import neuronxcc.nki as nki", "import neuronxcc.nki.language as nl"]


def test_a_statement_without_a_current_form_is_named() -> None:
    text = (TESTS / "analysis" / "kernels" / "legacy_language_functions.py").read_text("utf-8")
    with pytest.raises(NotApplicable, match=r"line \d+: nl\.shared_identity_matrix"):
        migrate_text(text)
    made = migrate_text(text, partial=True)
    assert made.by_hand
    assert made.text.count("# accelopt: migrate by hand: ") == len(made.by_hand)
    ast.parse(made.text)


def test_a_number_that_a_loop_changes_is_named() -> None:
    """The legacy dialect ran the body once; nobody knows what the writer counted on."""
    text = text_of(TESTS / "analysis" / "cases" / "M43_loops_traced_once.py")
    counted = text.replace("    return out", "    assert count == 1\n    return out", 1)
    with pytest.raises(NotApplicable, match=r"line 14: count changed once"):
        migrate_text(counted)


def test_a_current_kernel_is_not_migrated() -> None:
    text = (TESTS.parent / "examples" / "current" / "softmax.py").read_text("utf-8")
    with pytest.raises(NotApplicable, match="no kernel in the legacy dialect"):
        migrate_text(text)


def test_unknown_shapes_are_a_reason() -> None:
    text = (TESTS.parent / "examples" / "legacy" / "softmax.py").read_text("utf-8")
    without = "\n".join(line for line in text.splitlines() if "accelopt:" not in line)
    with pytest.raises(NotApplicable, match=r"line \d+: .*not known"):
        migrate_text(without)


def test_fixes_name_rewrites_that_exist() -> None:
    for path in CASES:
        for found in analyze(Document.parse(path.read_text("utf-8"))).diagnostics:
            if found.fix is not None and found.fix.rewrite != "replace-name":
                assert find_rewrite(found.fix.rewrite).title


FIXED = sorted((Path(__file__).parent / "cases").glob("*.in.py"))


@pytest.mark.parametrize("path", FIXED, **names)
def test_safe_fixes_until_nothing_changes(path: Path, golden) -> None:
    text = path.read_text("utf-8")
    made, count = fix_text(text, path, Settings())
    assert count
    again, none = fix_text(made, path, Settings())
    assert (again, none) == (made, 0)
    golden(made, path.with_name(path.name.replace(".in.py", ".out.py")))


@pytest.mark.parametrize("path", FIXED, **names)
async def test_fixed_kernels_run(path: Path) -> None:
    made, _ = fix_text(path.read_text("utf-8"), path, Settings())
    kernel = resolve_kernel(KernelRequest(path, text=made))
    job = Job(
        path=path,
        source=made,
        function=kernel.source.qualname,
        arguments=kernel.arguments,
        target=kernel.target,
    )
    outcome = await SimulatorProfiler().profile(job)
    assert isinstance(outcome, Profile), str(outcome)
