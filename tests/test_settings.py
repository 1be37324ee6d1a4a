"""Settings of a project: what is accepted, and what a wrong value says."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelopt_lsp.analysis import AnalysisOptions, analyze
from accelopt_lsp.analysis.directives import parse_directive
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.diagnostics import Severity
from accelopt_lsp.workbench.check import check_paths
from accelopt_lsp.workbench.profile import job_for
from accelopt_lsp.workbench.requests import KernelRequest, resolve_kernel
from accelopt_lsp.workbench.settings import SettingsError, parse_settings

KERNEL = """
import nki
import nki.language as nl


# accelopt: x=f32[128,512]{directive}
@nki.jit
def kernel(x):
    nl.fori_loop(0, 4, lambda i: None)
    return x
"""


def test_a_version_must_be_one():
    assert parse_settings({"nki-version": "0.6"}).nki_version == "0.6"
    with pytest.raises(SettingsError, match="such as 0.6, got 'latest'"):
        parse_settings({"nki-version": "latest"})
    assert parse_directive("nki-version=0.6").problems == ()
    assert "such as 0.6" in parse_directive("nki-version=latest").problems[0][2]


@pytest.mark.parametrize(
    ("setting", "directive", "reported"),
    [
        (None, "", False),
        ("0.5", "", True),
        ("0.6", "", False),
        (None, " nki-version=0.5", True),
        (None, " nki-version=0.6", False),
        ("0.6", " nki-version=0.5", False),
    ],
)
def test_the_version_in_force(tmp_path: Path, setting, directive, reported):
    """The settings', else the directive's; the same for analysis and runs."""
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL.format(directive=directive))
    options = AnalysisOptions(nki_version=setting)
    found = analyze(Document.parse(path.read_text()), path=path, options=options).diagnostics
    assert ("R104" in {d.code for d in found}) is reported
    settings = parse_settings({} if setting is None else {"nki-version": setting})
    job = job_for(resolve_kernel(KernelRequest(path, settings=settings)))
    assert (job.nki_version == "0.5") is reported


PROJECT = """
[tool.accelopt]
ignore = ["P"]

[tool.accelopt.per-file-ignores]
"old/**" = ["R023"]
"draft_*.py" = ["R"]

[tool.accelopt.severity]
R = "hint"
R023 = "warning"
"""
TOO_TALL = """
import nki
import nki.language as nl


# accelopt: x=f32[128,512]
@nki.jit
def kernel(x):
    tile = nl.ndarray((256, 512), dtype=x.dtype, buffer=nl.sbuf)
    return x
"""


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("kernel.py", {("R023", Severity.WARNING)}),
        ("new/kernel.py", {("R023", Severity.WARNING)}),
        ("old/deep/kernel.py", set()),
        ("new/draft_kernel.py", set()),
    ],
)
def test_a_project_decides_by_file_and_code(tmp_path, name, found):
    (tmp_path / "pyproject.toml").write_text(PROJECT, "utf-8")
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(TOO_TALL, "utf-8")
    report = check_paths([file])
    assert {(d.diagnostic.code, d.diagnostic.severity) for d in report.diagnostics} == found
    assert report.exit_code() == 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"ignore": ["X12"]}, "no rule's code begins with 'X12'"),
        ({"severity": {"R023": "fatal"}}, "one of error, warning, information, hint"),
        ({"severity": ["R023"]}, "must be a table"),
        ({"per-file-ignores": {"a.py": "R023"}}, "list of strings"),
    ],
)
def test_settings_on_rules_that_cannot_be_used(values, message):
    with pytest.raises(SettingsError, match=message):
        parse_settings(values)


@pytest.mark.parametrize(
    ("comment", "codes"),
    [
        ("ignore", set()),
        ("ignore[R023]", set()),
        ("ignore[r, P10]", set()),
        ("ignore[P10]", {"R023"}),
        ("ignore[R024, Q7]", {"R023", "D001"}),
    ],
)
def test_comments_on_a_line(comment, codes):
    line = "buffer=nl.sbuf)"
    text = TOO_TALL.replace(line, f"{line}  # accelopt: {comment}")
    assert {d.code for d in analyze(Document.parse(text)).diagnostics} == codes
    whole = f"# accelopt: {comment.replace('ignore', 'ignore-file')}\n{TOO_TALL}"
    assert {d.code for d in analyze(Document.parse(whole)).diagnostics} == codes
