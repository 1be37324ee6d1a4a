"""Settings of a project: what is accepted, and what a wrong value says."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelopt_lsp.analysis import AnalysisOptions, analyze
from accelopt_lsp.analysis.directives import parse_directive
from accelopt_lsp.analysis.syntax import Document
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
