"""A language model's code on the simulator, from the command line; and a run that is killed."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from accelopt_lsp.agents.store import RunStore
from tests.agents.fusing import fusing
from tests.agents.landscape import TEXT
from tests.agents.llm_server import serving, walking

pytestmark = [pytest.mark.usefixtures("data_dir"), pytest.mark.slow]


def accelopt(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "accelopt_lsp", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_the_command_line_takes_a_url_and_a_model(examples: Path, tmp_path: Path) -> None:
    file = tmp_path / "softmax.py"
    file.write_text((examples / "current" / "softmax.py").read_text())
    (tmp_path / "pyproject.toml").write_text(
        "[tool.accelopt.llm]\nprice-input = 1.0\nprice-output = 4.0\n"
    )
    limits = ("--iterations", "1", "--plans", "2", "--fix-rounds", "1", "--arg", "x=bf16[512,1024]")
    with serving(fusing) as server:
        done = accelopt(
            "optimize", file, "--llm-url", server.url, "--model", "m", "--json", *limits
        )
        assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["correct"] is True
    assert found["speedup"] > 1.05
    assert "activation_reduce" in found["diff"]
    assert found["strategies"][0]["title"] == "Let the exponential add up its results"
    assert found["tokens"] == server.prompt_tokens + server.completion_tokens
    paid = (server.prompt_tokens + 4 * server.completion_tokens) / 1e6
    assert found["cost_usd"] == pytest.approx(paid)
    assert server.count("fixer") == 1
    assert "Fuse exponential and sum" in accelopt("memory", "list").stdout
    shown = json.loads(accelopt("runs", "show", found["run"], "--json").stdout)
    gained = found["best"]["percent_of_peak"] - found["baseline"]["percent_of_peak"]
    assert gained > 0
    for row in shown["spending"]:
        assert row["cost_usd_per_point"] == pytest.approx(row["cost_usd"] / gained)


RUN = """
import asyncio, sys
from attrs import evolve
from pathlib import Path
from accelopt_lsp.nki.arguments import parse_spec
from accelopt_lsp.workbench.optimize import OptimizeRequest, optimize_kernel
from accelopt_lsp.workbench.requests import KernelRequest
from tests.agents.landscape import FakeProfiler, quick

file, url, resume = sys.argv[1:]
kernel = KernelRequest(Path(file), arguments={"x": parse_spec("f32[128,512]")})
request = OptimizeRequest(
    kernel, quick(), agents="llm", llm={"base_url": url, "model": "m"}, use_memory=False,
    resume=resume or None,
)
report = asyncio.run(optimize_kernel(request, profiler=FakeProfiler(shuffle=5)))
print(report.run, report.usage.calls, report.evaluations)
print(report.new_text)
"""


def run(file: Path, url: str, resume: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", RUN, str(file), url, resume]
    root = Path(__file__).parents[2]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root)


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path, data_dir: Path) -> None:
    """Kill -9 after some request: nothing is paid for twice, and the result is the same."""
    file = tmp_path / "kernel.py"
    file.write_text(TEXT)
    choose = random.Random(7)
    with serving(walking) as server:
        whole = run(file, server.url)
        expected = whole.communicate(timeout=120)[0].split("\n", 1)
        calls = int(expected[0].split()[1])
        went_on = 0
        for _ in range(4):
            before = len(server.requests)
            killed = run(file, server.url)
            name = ""
            asked = before + choose.randint(1, calls - 1)
            while len(server.requests) < asked and killed.poll() is None:
                time.sleep(0.005)
            killed.send_signal(signal.SIGKILL)
            killed.communicate()
            store = RunStore()
            newest = store.runs()[0]
            if newest.status == "interrupted":
                name = newest.id
            kept = {row["key"] for row in store.export(newest.id)["evaluations"]}
            store.close()
            with sqlite3.connect(data_dir / "runs.sqlite3") as connection:
                assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            if not name:
                continue
            went_on += 1
            resumed = run(file, server.url, name).communicate(timeout=120)[0].split("\n", 1)
            assert resumed[1] == expected[1]
            assert resumed[0].split()[1:] == expected[0].split()[1:]
            # Requests that were under way when the process died are asked again.
            assert len(server.requests) - before <= calls + 8
            store = RunStore()
            assert kept <= {row["key"] for row in store.export(name)["evaluations"]}
            store.close()
        assert went_on
