"""The comparison of static analysis with traces, on checkouts of our own."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "static_counts.py"
KERNEL = """import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x, n):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(n):
        tile = nl.load(x[i * 128 : (i + 1) * 128, :])
        nl.store(out[i * 128 : (i + 1) * 128, :], value=nl.exp(tile))
    return out
"""
UNKNOWN = KERNEL.replace("    for i", "    n = min(int(str(id(x)) + '9'), n)\n    for i")
REFERENCE = """import numpy as np


def get_inputs():
    return [np.zeros((512, 64), np.float32)]


def transform_to_nki_inputs(inputs):
    return [*inputs, 4]
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "NKIBench"
    root.mkdir()
    (root / "reference.py").write_text(REFERENCE)
    problems = {}
    for name, text in (("known", KERNEL), ("unknown", UNKNOWN), ("broken", "import nothing_here")):
        (root / f"{name}.py").write_text(text)
        entry = {"kernel": f"{name}.py", "task": "reference.py"}
        problems[name] = {"cases": {"0": {"impls": [entry]}}}
    (root / "summary.json").write_text(json.dumps(problems))
    return tmp_path


def run(checkout: Path, *options: str) -> tuple[int, str, list]:
    file = checkout / "rows.json"
    command = [sys.executable, str(SCRIPT), "--nkibench", str(checkout), "--json", str(file)]
    done = subprocess.run(
        [*command, *options], capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stdout, json.loads(file.read_text()) if file.exists() else []


def test_a_row_a_kernel(checkout):
    status, text, rows = run(checkout, "--sites")
    assert status == 1
    outcomes = {row["kernel"].rpartition("(")[2]: row for row in rows}
    assert {name: row["outcome"] for name, row in outcomes.items()} == {
        "known)": "equal",
        "unknown)": "partly",
        "broken)": "failed",
    }
    known, unknown = outcomes["known)"], outcomes["unknown)"]
    assert (known["known"], known["reached"], known["instructions"]) == (3, 3, 12)
    assert known["arguments"] == {"x": "f32[512,64]", "n": "4"}
    assert (unknown["known"], unknown["reached"]) == (0, 3)
    assert "NKIBench/unknown.py:10:16: 0, traced 4" in text
    assert "nothing_here" in outcomes["broken)"]["why"]
    assert "50.0%" in text


def test_status_0_where_nothing_differs_and_2_without_kernels(checkout):
    assert run(checkout, "--only", "NKIBench/known")[0] == 0
    assert run(checkout, "--only", "no such kernel")[0] == 2


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    yield importlib.import_module("static_counts")
    for name in ("static_counts", "static_cases"):
        sys.modules.pop(name, None)


ROW = {"complete": True, "differs": {}, "more": {}, "known": 3, "reached": 3, "sites": []}
ROWS = [
    ({}, "equal"),
    ({"differs": {"dma descriptors": (3, 4)}}, "DIFFERS"),
    ({"known": 2, "sites": [["a.py:3:1", 1, 2]]}, "DIFFERS"),
    ({"complete": False, "differs": {"dma descriptors": (3, 4)}}, "partly"),
    ({"complete": False, "known": 2, "sites": [["a.py:3:1", 1, 2]]}, "partly"),
    ({"complete": False, "sites": [["a.py:3:1", 2, 1]]}, "DIFFERS"),
    ({"complete": False, "more": {"dma descriptors": (5, 4)}}, "DIFFERS"),
    ({"why": "ImportError: x"}, "failed"),
    ({"why": "KernelRejected: x", "explained": "an example"}, "no trace"),
]


@pytest.mark.parametrize(("changes", "word"), ROWS)
def test_what_counts_as_a_difference(script, changes, word):
    assert script.outcome({**ROW, **changes}) == word
