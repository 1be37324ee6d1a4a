"""Findings of earlier checks: used where nothing changed, and never wrongly."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from accelopt_lsp.workbench import check_runs
from accelopt_lsp.workbench.check import Selection, check_paths
from accelopt_lsp.workbench.check_cache import CheckCache
from accelopt_lsp.workbench.requests import RequestError

CASES = Path(__file__).parent / "cases"
KERNEL = (CASES / "partition_limit.py").read_text("utf-8")
USER = """\
import nki
import nki.isa as nisa
import nki.language as nl

from sizes import ROWS


# accelopt: x=f32[256,64]
@nki.jit
def kernel(x):
    tile = nl.ndarray((ROWS, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0.0)
    return tile
"""


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("", "utf-8")
    (folder / "bad.py").write_text(KERNEL, "utf-8")
    (folder / "sizes.py").write_text("ROWS = 128\n", "utf-8")
    (folder / "user.py").write_text(USER, "utf-8")
    return folder


@pytest.fixture
def cache(tmp_path):
    return lambda: CheckCache(tmp_path / "cache")


def codes(report):
    return sorted(d.diagnostic.code for d in report.diagnostics if d.path.endswith("user.py"))


def test_the_same_again_analyzes_nothing(project, cache, monkeypatch):
    first = check_paths([project], cache=cache())
    assert (first.cached, bool(first.diagnostics)) == (0, True)
    monkeypatch.setattr(check_runs, "_check", None)
    second = check_paths([project], cache=cache())
    assert second.cached == 2
    assert second.diagnostics == first.diagnostics
    assert second.kernels_analyzed == first.kernels_analyzed


def test_a_changed_file_is_analyzed_again(project, cache):
    check_paths([project], cache=cache())
    (project / "bad.py").write_text(KERNEL + "\n# more\n", "utf-8")
    assert check_paths([project / "bad.py"], cache=cache()).cached == 0


def test_an_imported_file_that_changes_counts(project, cache):
    assert "R023" not in codes(check_paths([project], cache=cache()))
    (project / "sizes.py").write_text("ROWS = 256\n", "utf-8")
    assert "R023" in codes(check_paths([project], cache=cache()))


def test_a_file_that_appears_counts(project, cache):
    (project / "sizes.py").rename(project / "later.py")
    check_paths([project], cache=cache())
    (project / "sizes.py").write_text("ROWS = 256\n", "utf-8")
    assert "R023" in codes(check_paths([project], cache=cache()))


def test_a_call_elsewhere_counts_where_arguments_are_missing(project, cache):
    text = USER.replace("# accelopt: x=f32[256,64]\n", "")
    (project / "user.py").write_text(text, "utf-8")
    check_paths([project], cache=cache())
    (project / "test_user.py").write_text("import numpy\n", "utf-8")
    assert check_paths([project / "user.py"], cache=cache()).cached == 0


def test_settings_count(project, cache):
    check_paths([project], cache=cache())
    (project / "pyproject.toml").write_text('[tool.accelopt]\nignore = ["R023"]\n', "utf-8")
    report = check_paths([project], cache=cache())
    assert "R023" not in {d.diagnostic.code for d in report.diagnostics}


def test_selection_needs_no_new_analysis(project, cache):
    check_paths([project], cache=cache())
    report = check_paths([project], cache=cache(), selection=Selection(ignore=("R",)))
    assert report.cached == 2
    assert not any(d.diagnostic.code.startswith("R") for d in report.diagnostics)


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b'{"diagnostics": [1]}', b"[]"])
def test_entries_that_cannot_be_read_are_none(project, cache, data):
    first = check_paths([project], cache=cache())
    (file,) = (project.parent / "cache").glob("checks-*.sqlite3")
    with sqlite3.connect(file) as database:
        database.execute("UPDATE entries SET data = ?", (data,))
    database.close()
    second = check_paths([project], cache=cache())
    assert (second.cached, second.diagnostics) == (0, first.diagnostics)
    assert check_paths([project], cache=cache()).cached == 2


@pytest.mark.parametrize("damage", [b"no database", b""])
def test_a_damaged_file_is_no_problem(project, cache, damage):
    folder = project.parent / "cache"
    folder.mkdir()
    (folder / "checks-1.sqlite3").write_bytes(damage)
    assert check_paths([project], cache=cache()).diagnostics
    assert check_paths([project], cache=cache()).cached in (0, 2)


@pytest.mark.parametrize(
    ("select", "ignore", "taken"),
    [
        ((), (), {"R023", "P01", "S001"}),
        (("R",), (), {"R023"}),
        (("R023,P",), (), {"R023", "P01"}),
        ((), ("P", "R023"), {"S001"}),
        (("partition-limit",), (), {"R023"}),
        (("R",), ("r02",), set()),
    ],
)
def test_selections(select, ignore, taken):
    selection = Selection.parse(select, ignore)
    assert {c for c in ("R023", "P01", "S001") if selection.takes(c)} == taken


def test_a_code_that_no_rule_has():
    with pytest.raises(RequestError, match="X99"):
        Selection.parse(("X99",), ())


def test_a_worker_that_dies_costs_one_file(project, monkeypatch):
    for number in range(14):
        (project / f"kernel_{number}.py").write_text(KERNEL, "utf-8")
    (project / "killer.py").write_text(KERNEL + "# die\n", "utf-8")
    monkeypatch.setattr(check_runs, "_check", _dies)
    report = check_paths([project], jobs=2)
    ((path, message),) = report.problems
    assert path.endswith("killer.py")
    assert "died" in message
    assert report.files == 18


_real_check = check_runs._check


def _dies(work, workspace):
    import os

    if "# die" in work.text:
        os._exit(1)
    return _real_check(work, workspace)
