"""Checking files and folders: what is looked at, exit codes, formats, baselines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attrs import evolve

from accelopt_lsp.nki.diagnostics import Severity
from accelopt_lsp.workbench.check import (
    check_paths,
    check_source,
    check_text,
    find_files,
    relative_to,
)
from accelopt_lsp.workbench.check_baseline import only_new, write_baseline
from accelopt_lsp.workbench.check_formats import render, summary, to_json, to_sarif
from accelopt_lsp.workbench.requests import RequestError
from accelopt_lsp.workbench.settings import Settings

HERE = Path(__file__).parent
BAD = (HERE / "cases" / "partition_limit.py").read_text("utf-8")
SLOW = (HERE / "cases" / "hoistable_load.py").read_text("utf-8")
GOOD = (HERE / "kernels" / "current_ragged_tiles.py").read_text("utf-8")


@pytest.fixture
def project(tmp_path):
    for name, text in {
        "bad.py": BAD,
        "sub/slow.py": SLOW,
        "sub/good.py": GOOD,
        "sub/plain.py": "x = 1\n",
        ".venv/lib/bad.py": BAD,
        "build/bad.py": BAD,
        "generated/bad.py": BAD,
        "notes.txt": "nki",
    }.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return tmp_path


def names(paths, project):
    return [p.relative_to(project).as_posix() for p in paths]


def test_folders_leave_out_what_is_not_source(project):
    found = find_files([project], Settings(exclude=("generated",)))
    assert names(found, project) == ["bad.py", "sub/good.py", "sub/plain.py", "sub/slow.py"]


def test_named_files_and_patterns(project):
    assert names(find_files([project / "build" / "bad.py"]), project) == ["build/bad.py"]
    assert names(find_files([project / "sub" / "*.py"]), project) == [
        "sub/good.py",
        "sub/plain.py",
        "sub/slow.py",
    ]
    twice = find_files([project / "bad.py", project / "b*.py"])
    assert names(twice, project) == ["bad.py"]


@pytest.mark.parametrize("path", ["missing.py", "missing/*.py"])
def test_paths_that_do_not_exist(project, path):
    with pytest.raises(RequestError, match=r"missing"):
        list(find_files([project / path]))


def test_only_errors_decide_the_exit_code(project):
    assert check_paths([project / "bad.py"]).exit_code() == 1
    slow = check_paths([project / "sub"])
    assert slow.count(Severity.ERROR) == 0
    assert slow.diagnostics
    assert slow.exit_code() == 0
    assert slow.exit_code(strict=True) == 1
    assert check_paths([project / "sub" / "plain.py"]).exit_code(strict=True) == 0


def test_counts_of_files_and_kernels(project):
    report = check_paths([project / "sub"])
    assert (report.files, report.kernels_analyzed) == (3, 2)
    assert summary(report).endswith("in 3 files, 2 kernels; 1 fixable with --fix")


def test_many_files_in_a_pool_give_the_same_as_one_by_one(tmp_path):
    for number in range(14):
        (tmp_path / f"kernel_{number}.py").write_text(BAD, "utf-8")
    seen: list[tuple[int, int]] = []
    pooled = check_paths([tmp_path], jobs=2, progress=lambda done, all_: seen.append((done, all_)))
    alone = check_paths([tmp_path], jobs=1)
    assert [(d.path, d.diagnostic) for d in pooled.diagnostics] == [
        (d.path, d.diagnostic) for d in alone.diagnostics
    ]
    assert seen[-1] == (14, 14)


def test_unreadable_files_are_problems_not_failures(tmp_path):
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe nki")
    report = check_paths([tmp_path])
    ((path, message),) = report.problems
    assert path.endswith("binary.py")
    assert "UTF-8" in message


def test_settings_of_the_project_count(project):
    (project / "pyproject.toml").write_text('[tool.accelopt]\nignore = ["R023"]\n', "utf-8")
    assert check_paths([project / "bad.py"]).diagnostics == ()


def test_target_wins_over_the_file():
    text = SLOW.replace("# accelopt:", "# accelopt: target=trn2")
    (kernel,) = check_text(text, target="trn1").kernels
    assert kernel.target == "trn1"
    (kernel,) = check_text(text, settings=Settings(target="trn3")).kernels
    assert kernel.target == "trn2"


def test_baseline_hides_known_findings_wherever_they_move(project, tmp_path):
    file = project / "bad.py"
    baseline = tmp_path / "baseline.json"
    write_baseline(check_paths([file]), baseline)
    file.write_text("# a new line\n" + BAD, "utf-8")
    report = only_new(check_paths([file]), baseline)
    assert report.diagnostics == ()
    assert report.suppressed_by_baseline == 1
    file.write_text(BAD.replace("tile = nl", "tile_two = nl"), "utf-8")
    assert only_new(check_paths([file]), baseline).exit_code() == 1


@pytest.mark.parametrize("text", [None, "", "[]", "{}", '{"fingerprints": 3}'])
def test_baselines_that_cannot_be_read(tmp_path, project, text):
    baseline = tmp_path / "baseline.json"
    if text is not None:
        baseline.write_text(text, "utf-8")
    with pytest.raises(RequestError, match="baseline"):
        only_new(check_paths([project / "bad.py"]), baseline)


def test_json(project):
    report = relative_to(check_paths([project / "bad.py", project / "sub" / "slow.py"]), project)
    data = json.loads(render(report, "json"))
    assert data == to_json(report)
    assert data["schema_version"] == 1
    assert (data["files"], data["kernels_analyzed"]) == (2, 2)
    first = data["diagnostics"][0]
    assert first == {
        "path": "bad.py",
        "line": 10,
        "column": 12,
        "end_line": 10,
        "end_column": 65,
        "code": "R023",
        "severity": "error",
        "message": "tile spans 256 partitions, the hardware has 128",
        "fixable": False,
        "related": [],
    }
    assert [d["fixable"] for d in data["diagnostics"] if d["code"] == "P01"] == [True]


def test_text(project):
    report = relative_to(check_paths([project / "sub" / "slow.py"]), project)
    first, related, last = render(report, "text").splitlines()
    assert first.startswith("sub/slow.py:12:9: warning P01 [*] every byte of y")
    assert related.startswith("    line 10: ")
    assert last == "1 warning in 1 file, 1 kernel; 1 fixable with --fix"


def test_github_annotations_are_escaped(project):
    report = relative_to(check_paths([project / "bad.py"]), project)
    found = report.diagnostics[0]
    odd = evolve(found.diagnostic, message="50 %\nof it")
    odd_report = evolve(report, diagnostics=(evolve(found, path="a,b:c.py", diagnostic=odd),))
    assert render(odd_report, "github") == (
        "::error file=a%2Cb%3Ac.py,line=10,col=12,endLine=10,endColumn=65,title=R023::"
        "50 %25%0Aof it"
    )


def test_sarif_names_its_rules(project):
    report = relative_to(check_paths([project / "bad.py", project / "sub" / "slow.py"]), project)
    data = to_sarif(report)
    assert data["version"] == "2.1.0"
    (run,) = data["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [r["id"] for r in rules] == ["P01", "R023"]
    assert "Why" in rules[0]["help"]["markdown"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        region = result["locations"][0]["physicalLocation"]["region"]
        assert region["startLine"] >= 1
    assert {r["level"] for r in run["results"]} == {"error", "warning"}


def test_sarif_has_what_its_schema_requires(tmp_path):
    file = tmp_path / "a kernel.py"
    file.write_text(BAD, "utf-8")
    data = to_sarif(check_paths([file]))
    assert data["version"] == "2.1.0"
    for run in data["runs"]:
        driver = run["tool"]["driver"]
        assert driver["name"]
        assert all(rule["id"] and rule["help"]["text"] for rule in driver["rules"])
        assert run["results"]
        for result in run["results"]:
            assert result["message"]["text"]
            assert result["level"] in ("none", "note", "warning", "error")
            assert 0 <= result["ruleIndex"] < len(driver["rules"])
            for location in result["locations"]:
                place = location["physicalLocation"]
                assert place["artifactLocation"]["uri"] == file.as_uri()
                region = place["region"]
                assert min(region.values()) >= 1
                start = region["startLine"], region["startColumn"]
                assert start <= (region["endLine"], region["endColumn"])


def test_a_baseline_knows_as_many_as_there_were(project, tmp_path):
    file, baseline = project / "bad.py", tmp_path / "baseline.json"
    write_baseline(check_paths([file]), baseline)
    kernel = BAD[BAD.index("# accelopt: ") :]
    file.write_text(BAD + "\n\n" + kernel.replace("def ", "def second_"), "utf-8")
    report = only_new(check_paths([file]), baseline)
    assert report.suppressed_by_baseline == 1
    assert report.diagnostics


def test_a_baseline_moves_with_its_checkout(project, tmp_path):
    write_baseline(check_paths([project / "bad.py"]), project / "baseline.json")
    moved = tmp_path / "elsewhere"
    project.joinpath("bad.py").rename(tmp_path / "bad.py")
    moved.mkdir()
    for name in ("bad.py", "baseline.json"):
        source = tmp_path / name if name == "bad.py" else project / name
        source.rename(moved / name)
    assert only_new(check_paths([moved / "bad.py"]), moved / "baseline.json").diagnostics == ()


def test_a_text_that_is_in_no_file():
    report = check_source(BAD, None)
    assert {d.path for d in report.diagnostics} == {"-"}
    assert report.exit_code() == 1
