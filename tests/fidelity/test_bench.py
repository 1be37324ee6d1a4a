"""``accelopt bench``, ablation and calibration, on kernels of our own with pretended figures."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from accelopt_lsp.cli import cli
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.profiler.simulator.timeline.policy import POLICIES, ablations
from accelopt_lsp.profiler.simulator.timeline.uncertainty import residuals
from accelopt_lsp.workbench.bench import BenchRequest, each
from accelopt_lsp.workbench.calibration import calibrate
from accelopt_lsp.workbench.calibration_store import (
    residual_rows,
    residuals_with,
    write_rows,
)

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "tests" / "simulator" / "kernels" / "legacy"


@pytest.fixture
def checkout(tmp_path):
    place = tmp_path / "checkout"
    place.mkdir()
    shutil.copy(KERNELS / "silu.py", place / "silu.py")
    return place


def figures(tmp_path, *rows, use="check"):
    """A file of measured kernels."""
    common = {
        "file": "silu.py", "target": "trn1", "dialect": "legacy", "series": "sizes",
        "arguments": {"x": "f32[8,128,512]"},
    }  # fmt: skip
    path = tmp_path / "measured.json"
    kernels = [{**common, **row} for row in rows]
    path.write_text(
        json.dumps({"schema_version": 1, "source": "pretended", "use": use, "kernels": kernels})
    )
    return path


def bench(*arguments):
    return CliRunner().invoke(cli, ["bench", *map(str, arguments)])


def latency(checkout, tmp_path):
    """What the simulator says of the kernel."""
    measured = figures(tmp_path, {"kernel": "silu", "measured_ms": 1.0})
    result = bench("--fidelity", checkout, "--measured", measured, "--json")
    [found] = json.loads(result.stdout)["kernels"]
    return found["latency_ms"]


def test_json_has_the_whole_comparison(checkout, tmp_path):
    expected = latency(checkout, tmp_path)
    measured = figures(
        tmp_path,
        {
            "kernel": "good",
            "measured_ms": expected * 1.05,
            "counters": {"hbm_read_bytes": 8 * 128 * 512 * 4, "hbm_write_bytes": 1},
        },
        {"kernel": "bad", "measured_ms": expected * 1.5, "arguments": {"x": "f32[4,128,512]"}},
    )
    result = bench("--fidelity", checkout, "--measured", measured, "--json")
    assert result.exit_code == 1, result.output
    data = json.loads(result.stdout)
    assert data["schema_version"] == 1
    assert data["suite"] == "nkibench"
    assert not data["met"]
    good, bad = data["kernels"]
    assert good["latency_ms"] == pytest.approx(expected)
    assert good["error"] == pytest.approx(1 / 1.05 - 1)
    assert good["inside_interval"]
    assert good["counters"]["hbm_read_bytes"]["error"] == 0.0
    assert good["counters"]["hbm_write_bytes"]["simulated"] == 8 * 128 * 512 * 4
    assert good["uncertainty"]["level"] == 0.8
    assert bad["error"] < -0.33
    verdicts = {c["name"]: c["met"] for c in data["criteria"]}
    assert verdicts == {"latency, sizes": False, "order, sizes": False}
    assert data["summaries"]["sizes"]["count"] == 2
    [pair] = data["pairs"]
    assert not pair["kept"]
    assert data["ablation"] is None


def test_everything_met_ends_well(checkout, tmp_path):
    measured = figures(
        tmp_path, {"kernel": "silu", "measured_ms": latency(checkout, tmp_path) * 1.1}
    )
    result = bench("--fidelity", checkout, "--measured", measured)
    assert result.exit_code == 0, result.output
    assert "met" in result.output
    assert "missed" in result.output.split("Criteria")[1].splitlines()[1]  # the column
    assert "-9.1%" in result.output


def test_a_kernel_that_fails_is_shown_and_missed(checkout, tmp_path):
    (checkout / "broken.py").write_text(
        "from neuronxcc import nki\n\n@nki.jit\ndef kernel(x):\n    return x.no_such_thing\n"
    )
    measured = figures(tmp_path, {"kernel": "broken", "file": "broken.py", "measured_ms": 1.0})
    result = bench("--fidelity", checkout, "--measured", measured, "--json")
    assert result.exit_code == 1
    [found] = json.loads(result.stdout)["kernels"]
    assert found["latency_ms"] is None
    assert "no_such_thing" in found["failure"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--fidelity"),
        (["--fidelity", "nowhere"], "nowhere is no folder"),
        (["--fidelity", "CHECKOUT", "--only", "softmax"], "no measured kernel 'softmax'"),
        (["--fidelity", "CHECKOUT", "--only", "silu"], "cannot read"),
        (["--fidelity", "CHECKOUT", "--sdk", "nowhere"], "nowhere is no folder"),
        (["--fidelity", "CHECKOUT", "--measured", "none.json"], "cannot read none.json"),
    ],
)
def test_usage_errors(checkout, arguments, says):
    result = bench(*(checkout if a == "CHECKOUT" else a for a in arguments))
    assert result.exit_code == 2
    assert says in result.stderr
    assert not result.stdout


def test_ablation_switches_off_every_rule(checkout, tmp_path):
    measured = figures(tmp_path, {"kernel": "silu", "measured_ms": 0.1})
    result = bench("--fidelity", checkout, "--measured", measured, "--ablation", "--json")
    found = json.loads(result.stdout)["ablation"]
    rules = ablations(POLICIES[Dialect.LEGACY])
    assert [r["name"] for r in found["rules"]] == [r.name for r in rules]
    model = found["model"]["errors"]["silu"]
    without = {r["name"]: r["errors"]["silu"] for r in found["rules"]}
    assert max(without.values()) > model
    assert without["streams"] == model
    for less, more in found["constants"].values():
        assert less["name"] == more["name"]
    less, more = found["constants"]["dma_completion_ns"]
    assert less["errors"]["silu"] < model < more["errors"]["silu"]


def test_plots_are_compact_and_the_same_every_time(checkout, tmp_path):
    measured = figures(tmp_path, {"kernel": "silu", "measured_ms": 0.05})
    texts = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        bench("--fidelity", checkout, "--measured", measured, "--plot", folder)
        texts.append([p.read_bytes() for p in sorted(folder.glob("*.svg"))])
    assert len(texts[0]) == 2
    assert texts[0] == texts[1]
    assert all(len(t) < 60_000 and b"silu" in b"".join(texts[0]) for t in texts[0])


def test_calibration_finds_the_constants_that_made_the_figures(checkout, tmp_path):
    expected = latency(checkout, tmp_path)
    measured = figures(
        tmp_path,
        {"kernel": "one", "measured_ms": expected, "family": "a"},
        {"kernel": "two", "measured_ms": expected, "family": "b"},
        use="calibration",
    )
    found = asyncio.run(calibrate(BenchRequest(checkout, measured=measured), iterations=2))
    assert set(found.without) == {"a", "b"}
    for prediction in found.predictions:
        assert prediction.present.latency_ms == pytest.approx(expected)
        # Pulled toward the priors, yet near what was measured.
        assert abs(prediction.error(prediction.fitted)) < 0.05
        assert abs(prediction.error(prediction.held_out)) < 0.05
    data = json.loads(json.dumps(found.to_json()))
    assert set(data["constants"]) == {p.name for p in found.priors}
    rows = residual_rows(found)
    assert [r["family"] for r in rows] == ["a", "b"]
    merged = residuals_with(found)
    assert [r.kernel for r in merged[:2]] == ["one", "two"]
    assert {r.kernel for r in merged[2:]} == {r.kernel for r in residuals()}
    store = tmp_path / "calibration.json"
    store.write_text(json.dumps({"residuals": [{"kernel": "old"}, {"kernel": "one"}]}))
    write_rows(rows, store)
    kept = json.loads(store.read_text())["residuals"]
    assert [r["kernel"] for r in kept] == ["old", "one", "two"]
    assert kept[1]["held_out_ms"] == pytest.approx(found.predictions[0].held_out.latency_ms)


def test_the_script_prints_both_tables(checkout, tmp_path, capsys):
    spec = importlib.util.spec_from_file_location(
        "calibrate_script", ROOT / "benchmarks" / "calibrate.py"
    )
    script = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = script
    spec.loader.exec_module(script)
    measured = figures(
        tmp_path,
        {"kernel": "one", "measured_ms": 0.05, "family": "a"},
        {"kernel": "two", "measured_ms": 0.05, "family": "b"},
        use="calibration",
    )
    options = ["--measured", str(measured), "--iterations", "1"]
    assert script.main([str(checkout), *options]) == 0
    printed = capsys.readouterr().out
    assert "dma_engine_rate" in printed
    assert "mean of absolute errors" in printed
    assert "2 calibration kernels" in printed
    assert script.main([str(tmp_path / "nowhere")]) == 2


def test_work_is_done_in_order_and_counted():
    seen: list[int] = []

    async def slow(item):
        await asyncio.sleep(0.01 * (3 - item))
        return item * 10

    assert asyncio.run(each([1, 2, 3], slow, seen.append)) == (10, 20, 30)
    assert seen == [1, 2, 3]


def test_one_failure_ends_the_rest():
    started = []

    async def work(item):
        started.append(item)
        await asyncio.sleep(0)
        if item == 0:
            raise ValueError("no")
        await asyncio.sleep(30)

    with pytest.raises(ValueError, match="no"):
        asyncio.run(each(range(50), work))
    assert len(started) < 50
