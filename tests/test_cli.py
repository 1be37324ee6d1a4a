"""The command line's contract: exit status, JSON objects, clear errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from accelopt_lsp.analysis.rules import known_codes
from accelopt_lsp.cli import cli
from accelopt_lsp.nki.profile import COUNTER_NAMES

EXAMPLES = Path(__file__).parent.parent / "examples"
SMALL = EXAMPLES / "legacy" / "softmax.py"

BAD_KERNELS = {
    "rejected": (
        "import neuronxcc.nki as nki\n"
        "import neuronxcc.nki.language as nl\n"
        "# accelopt: x=f32[256,64]\n"
        "@nki.jit\n"
        "def kernel(x):\n"
        "    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "    nl.store(out, nl.load(x))\n"
        "    return out\n"
    ),
    "exception": (
        "import neuronxcc.nki as nki\n"
        "# accelopt: x=f32[128,64]\n"
        "@nki.jit\n"
        "def kernel(x):\n"
        "    raise ValueError('no')\n"
    ),
}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(a) for a in arguments])


def test_profile_prints_the_contract_as_json() -> None:
    result = run("profile", SMALL, "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["schema_version"] == 1
    assert data["target"] == "trn1"
    assert data["provenance"] == "simulated"
    assert data["correct"] is True
    assert 0 < data["latency_ms"] < 100
    assert data["uncertainty"]["low_ms"] <= data["latency_ms"] <= data["uncertainty"]["high_ms"]
    assert set(data["counters"]) == set(COUNTER_NAMES)
    assert data["unknown_instructions"] == []


def test_profile_without_json_names_latency_and_bound() -> None:
    result = run("profile", SMALL, "--no-verify")
    assert result.exit_code == 0, result.output
    assert "bound by" in result.stdout
    assert "not checked" in result.stdout


def test_profile_says_what_bounded_the_time() -> None:
    result = run("profile", SMALL, "--no-verify", "--what-if", "--no-cache", "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert sum(data["bounded_shares"].values()) == pytest.approx(1.0)
    assert data["idle"][0]["total_ms"] > 0
    assert {"engine", "achieved", "attainable"} <= set(data["engines"][0])
    assert {w["change"] for w in data["what_ifs"]} >= {"dma_free", "launch_free"}
    shown = run("profile", SMALL, "--no-verify", "--what-if")
    for heading in ("bounded by", "achieved while busy", "engines stood still", "what if"):
        assert heading in shown.stdout
    assert "what if" not in run("profile", SMALL, "--no-verify").stdout


def test_results_are_kept_unless_not_wanted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ACCELOPT_CACHE_DIR", str(tmp_path))
    anew = json.loads(run("profile", SMALL, "--no-cache", "--json").stdout)
    assert not list(tmp_path.iterdir())
    first, second = (json.loads(run("profile", SMALL, "--json").stdout) for _ in range(2))
    assert second == {**first, "cached": True}
    assert first == anew
    assert "(cached)" in run("profile", SMALL).stdout


def test_a_folder_is_profiled_kernel_by_kernel(tmp_path: Path) -> None:
    (tmp_path / "fine.py").write_text(SMALL.read_text())
    (tmp_path / "bad.py").write_text(BAD_KERNELS["rejected"])
    (tmp_path / "open.py").write_text(
        "from neuronxcc import nki\n\n\n@nki.jit\ndef unknown_shapes(x):\n    return x\n"
    )
    result = run("profile", tmp_path, "--no-verify", "--json")
    assert result.exit_code == 1
    rows = {Path(p["path"]).name: p for p in json.loads(result.stdout)["profiles"]}
    assert rows["fine.py"]["latency_ms"] > 0
    assert rows["bad.py"]["error"]["line"] == 7
    assert rows["open.py"]["error"]["message"].startswith("unknown_shapes needs x")
    shown = run("profile", tmp_path, "--no-verify")
    assert "1 of 3 kernels ran" in shown.stdout
    (tmp_path / "empty").mkdir()
    assert run("profile", tmp_path / "empty").exit_code == 2


@pytest.mark.parametrize(("kind", "line"), [("rejected", 7), ("exception", 5)])
def test_a_kernel_that_fails_is_a_finding_with_its_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, line: int
) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(BAD_KERNELS[kind])
    result = run("profile", file, "--json")
    assert result.exit_code == 1
    error = json.loads(result.stdout)["error"]
    assert (error["kind"], error["line"]) == (kind, line)
    monkeypatch.chdir(tmp_path)
    shown = run("profile", file)
    assert shown.stderr.startswith(f"kernel.py:{line}: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("profile", "nosuch.py"), "no such file"),
        (("profile", str(SMALL) + "::nothing"), "has no kernel 'nothing'"),
        (("profile", str(SMALL), "--target", "trn9"), "unknown target"),
        (("profile", str(SMALL), "--arg", "x"), "NAME=SPEC"),
        (("profile", str(SMALL), "--arg", "x=f99[2]"), "unknown data type"),
        (("profile", str(SMALL), "--arg", "nosuch=3"), "has no parameter 'nosuch'"),
        (("profile", str(SMALL), "--grid", "0"), "launch grid"),
        (("profile", str(SMALL), "--reference", "nosuch.py"), "no such reference"),
        (("profile", str(SMALL), "--backend", "moon"), "no backend 'moon'"),
        (("optimize", str(SMALL), "--out", "x.py", "--in-place"), "exclude each other"),
        (("optimize", str(SMALL), "--resume", "nosuch"), "nosuch"),
        (("check", "nosuch"), "no such file or folder"),
        (("explain", "Z999"), "no rule"),
        (("explain", "partition-limits"), "like it: partition-limit"),
        (("memory", "show", "nosuch"), "nosuch"),
        (("runs", "show", "nosuch"), "nosuch"),
    ],
)
def test_usage_errors_exit_2_and_say_what_is_wrong(
    arguments: tuple[str, ...], message: str
) -> None:
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert result.stdout == ""


def test_optimize_writes_a_faster_verified_kernel(tmp_path: Path) -> None:
    out = tmp_path / "fast.py"
    # A copy away from its reference file, so that other sizes can be given.
    source = tmp_path / "matmul.py"
    source.write_text((EXAMPLES / "current" / "matmul.py").read_text())
    arguments = ("--arg", "lhsT=bf16[512,512]", "--arg", "rhs=bf16[512,1024]")
    result = run("optimize", source, *arguments, "--json", "--out", out, "--iterations", 2)
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["correct"] is True
    assert data["speedup"] > 1.04
    assert data["strategies"]
    assert data["diff"].startswith("--- ")
    assert data["tokens"] == 0
    assert data["best"]["latency_ms"] < data["baseline"]["latency_ms"]
    again = json.loads(run("profile", out, *arguments, "--json").stdout)
    assert again["latency_ms"] == pytest.approx(data["best"]["latency_ms"])
    listed = json.loads(run("runs", "list", "--json").stdout)["runs"]
    assert data["run"] in [row["run"] for row in listed]
    learned = json.loads(run("memory", "list", "--json").stdout)["experiences"]
    assert learned


def test_check_reports_errors_with_places_and_exits_1(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(BAD_KERNELS["rejected"])
    result = run("check", file, "--format", "json")
    assert result.exit_code == 1
    data = json.loads(result.stdout)
    assert data["files"] == 1
    assert data["kernels_analyzed"] == 1
    errors = [d for d in data["diagnostics"] if d["severity"] == "error"]
    assert "R023" in {d["code"] for d in errors}
    assert {d["line"] for d in errors} == {7}


def test_a_finding_is_a_line_however_long(tmp_path: Path) -> None:
    (tmp_path / "reload.py").write_text((EXAMPLES / "legacy" / "matmul.py").read_text())
    data = json.loads(run("check", tmp_path, "--json").stdout)
    shown = run("check", tmp_path).stdout
    assert max(len(d["message"]) for d in data["diagnostics"]) > 100
    for found in data["diagnostics"]:
        assert any(line.endswith(found["message"]) for line in shown.splitlines())


def test_check_says_whose_arguments_are_unknown(tmp_path: Path) -> None:
    text = BAD_KERNELS["rejected"]
    (tmp_path / "open.py").write_text(text.replace("# accelopt: x=f32[256,64]\n", ""))
    result = run("check", tmp_path)
    assert "1 kernel (arguments unknown: docs/arguments.md)" in result.stdout
    (tmp_path / "known.py").write_text(text)
    assert json.loads(run("check", tmp_path, "--json").stdout)["kernels_unknown"] == 1
    assert "2 kernels (arguments of 1 unknown: docs/arguments.md)" in run("check", tmp_path).stdout


def test_a_piped_diff_is_the_diff(tmp_path: Path) -> None:
    """Long lines stay whole, so that the output can be applied."""
    file = tmp_path / "kernel.py"
    long = f"# {'long ' * 60}line"
    file.write_text(
        BAD_KERNELS["rejected"].replace("256", "128").replace("# acc", f"{long}\n# acc")
    )
    result = run("migrate", file)
    assert result.exit_code == 0, result.output
    assert f" {long}" in result.stdout.splitlines()
    assert result.stdout == json.loads(run("migrate", file, "--json").stdout)["diff"]


def test_names_that_the_encoding_lacks_are_escaped(tmp_path: Path) -> None:
    text = (
        BAD_KERNELS["rejected"].replace("def kernel(x)", "def größe(x)").replace("kernel", "größe")
    )
    text = text.replace("nl.store(out, nl.load(x))", "µ = nl.load(x)\n    nl.store(out, µ)")
    (tmp_path / "kernel.py").write_text(text, encoding="utf-8")
    for command in ("check", "profile"):
        done = subprocess.run(
            [sys.executable, "-m", "accelopt_lsp", command, "kernel.py"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1, done.stderr
        assert "\\xb5 = nl.load(x)" in done.stderr or "R023" in done.stdout
        assert "Traceback" not in done.stderr


def test_tables_end_where_their_text_ends() -> None:
    shown = run("profile", SMALL).stdout
    assert not [line for line in shown.splitlines() if line.endswith(" ")]


def test_commands_are_listed_in_whole_lines() -> None:
    shown = run("--help").stdout
    listed = shown.partition("Commands:\n")[2].splitlines()
    assert len(listed) > 10
    assert not [line for line in listed if line.endswith("...")]


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("prof", "plain,profile"),
        ("profile ke", "file,ke"),
        ("profile kernel.py --target trn", "plain,trn1"),
        ("run te", "file,te"),
    ],
)
def test_shells_complete(typed: str, offered: str) -> None:
    words = ["accelopt", *typed.split()]
    asked = {
        "_ACCELOPT_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    result = CliRunner().invoke(cli, [], env=asked, prog_name="accelopt")
    assert offered in result.stdout.splitlines()


def test_examples_have_no_errors() -> None:
    result = run("check", EXAMPLES, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["kernels_analyzed"] == 10


def test_check_fix_hoists_what_is_safe(tmp_path: Path) -> None:
    file = tmp_path / "rotary.py"
    original = (EXAMPLES / "current" / "rotary.py").read_text()
    file.write_bytes(b"\xef\xbb\xbf" + original.replace("\n", "\r\n").encode())
    before = json.loads(run("check", file, "--json").stdout)["diagnostics"]
    assert any(d["code"] == "P01" for d in before)
    run("check", file, "--fix", "--json")
    after = json.loads(run("check", file, "--json").stdout)["diagnostics"]
    assert not any(d["code"] == "P01" and d["fixable"] for d in after)
    written = file.read_bytes()
    assert written.startswith(b"\xef\xbb\xbf"), "the byte order mark stays"
    assert written.count(b"\n") == written.count(b"\r\n"), "line ends stay"


def test_fix_mends_what_was_called_fixable(tmp_path: Path) -> None:
    for kernel in EXAMPLES.glob("*/*.py"):
        target = tmp_path / kernel.parent.name / kernel.name
        target.parent.mkdir(exist_ok=True)
        target.write_text(kernel.read_text())
    before = run("check", tmp_path).stdout
    run("check", "--fix", "--select", "R", tmp_path)
    assert run("check", tmp_path).stdout == before
    assert "with a quick fix in an editor" in before
    run("check", "--fix", tmp_path)
    after = run("check", tmp_path)
    assert "--fix" not in after.stdout
    assert "[*]" not in after.stdout


def test_a_file_with_a_byte_order_mark_runs(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_bytes(b"\xef\xbb\xbf" + SMALL.read_bytes())
    result = run("profile", file, "--no-verify", "--json")
    assert json.loads(result.stdout)["latency_ms"] > 0


def test_a_baseline_hides_what_is_known(tmp_path: Path) -> None:
    baseline = tmp_path / "baseline.json"
    file = tmp_path / "kernel.py"
    file.write_text(BAD_KERNELS["rejected"])
    assert run("check", file, "--write-baseline", baseline).exit_code == 1
    assert run("check", file, "--baseline", baseline).exit_code == 0


def test_compare_shows_both_kernels() -> None:
    result = run("compare", SMALL, SMALL, "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["first"]["latency_ms"] == data["second"]["latency_ms"]
    assert data["rankable"] is False
    assert "does not say which kernel is faster" in run("compare", SMALL, SMALL).stdout.replace(
        "\n", " "
    )


def test_rules_are_listed() -> None:
    listed = dict(line.split() for line in run("explain").stdout.splitlines())
    assert listed["R023"] == "partition-limit"
    assert list(listed) == list(known_codes())


def test_every_rule_has_a_page() -> None:
    from accelopt_lsp.analysis.rules import all_rules

    for rule in all_rules():
        result = run("explain", rule.code.lower())
        assert result.exit_code == 0
        assert "## Why" in result.stdout


def test_doctor_finds_this_installation_fine() -> None:
    result = run("doctor", "--json")
    assert result.exit_code == 0, result.output
    findings = {f["name"]: f for f in json.loads(result.stdout)["findings"]}
    assert "pygls" in findings
    for tried in ("kernel run", "language server"):
        assert findings[tried]["ok"] is True
        assert findings[tried]["detail"].endswith(" s")


def test_doctor_says_what_does_not_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.accelopt]\n\ntargt = "trn2"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("accelopt_lsp.workbench.doctor_runs.KERNEL", "no kernel")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    result = run("doctor", "--json")
    assert result.exit_code == 2
    findings = {f["name"]: f for f in json.loads(result.stdout)["findings"]}
    assert findings["project settings"]["ok"] is False
    assert "pyproject.toml:3: unknown setting 'targt'" in findings["project settings"]["detail"]
    assert findings["kernel run"]["ok"] is False
    assert "kernel" in findings["kernel run"]["detail"]
    assert findings["language server"]["ok"] is False


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("command", [("doctor", "--json"), ("explain", "D001")])
def test_output_that_cannot_be_written_is_said_in_a_line(command: tuple[str, ...]) -> None:
    code = f"import sys; from accelopt_lsp.cli import main; main({list(command)!r})"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=full, stderr=-1, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr == "accelopt: cannot write: No space left on device\n"


def test_a_timeline_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    timeline = tmp_path / "file" / "out.json"
    result = run("profile", SMALL, "--no-verify", "--json", "--trace", timeline)
    assert result.exit_code == 1
    message = json.loads(result.stdout)["error"]["message"]
    assert message.startswith(f"cannot write the timeline {timeline}: ")


def test_an_interruption_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("accelopt_lsp.workbench.doctor.examine", interrupted)
    result = run("doctor")
    assert result.exit_code == 130
    assert result.stderr == "accelopt: interrupted\n"


@pytest.mark.parametrize("lines", ["9-3", "0-2", "a-b", "", "-4"])
def test_lines_must_be_lines(lines: str) -> None:
    result = run("optimize", SMALL, "--lines", lines)
    assert result.exit_code == 2
    assert "are no lines such as 20-31" in result.stderr


def test_lines_of_another_kernel_are_refused() -> None:
    result = run("optimize", SMALL, "--lines", "1")
    assert result.exit_code == 2
    assert "lines 1-1 are not in kernel" in result.stderr
