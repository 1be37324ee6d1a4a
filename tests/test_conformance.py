"""The runs over other people's kernels, on a checkout of our own."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks" / "conformance"
UNIT_TEST = """
import unittest

import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit(mode="simulation")
def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x) * 2.0)
    return out


class TestDouble(unittest.TestCase):
    def setUp(self):
        self.x = np.ones((8, 4), np.float32)

    def test_right(self):
        self.assertTrue(np.array_equal(double(self.x), 2 * self.x))

    def test_wrong(self):
        self.assertTrue(np.array_equal(double(self.x), self.x), "not doubled")

    @unittest.expectedFailure
    def test_too_many_partitions(self):
        double(np.ones((256, 4), np.float32))

    @unittest.skip("not now")
    def test_skipped(self):
        pass
"""


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of the runs, imported afresh as the script imports it."""
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)

    def one(name: str) -> ModuleType:
        return importlib.import_module(name)

    yield one
    ours = {p.stem for p in FOLDER.glob("*.py")} | {"scipy", "torch_neuronx", "torch_xla"}
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ours:
            del sys.modules[name]


def test_unit_tests_of_a_checkout(load: Any, tmp_path: Path) -> None:
    (tmp_path / "nki" / "test").mkdir(parents=True)
    (tmp_path / "nki" / "test" / "test_nki_double.py").write_text(UNIT_TEST, "utf-8")
    sdk_tests, table = load("sdk_tests"), load("table")
    options = load("argparse").Namespace(only="", python=sys.executable, seconds=60)
    rows = sdk_tests.run(tmp_path, options)
    outcomes = {r.case.rpartition("::")[2]: r for r in rows}
    assert {name: r.outcome for name, r in outcomes.items()} == {
        "test_right": "pass",
        "test_wrong": "fail",
        "test_too_many_partitions": "pass",
        "test_skipped": "skip",
    }
    assert "not doubled" in outcomes["test_wrong"].why
    assert "test_nki_double.py:24" in outcomes["test_wrong"].why
    out = tmp_path / "rows.json"
    assert table.report("sdk-tests", rows, out, True) == 1
    assert json.loads(out.read_text("utf-8"))["counts"] == {"pass": 2, "fail": 1, "skip": 1}


def test_only_failures_that_nothing_explains_count(load: Any) -> None:
    runs, table = load("pytest_runs"), load("table")
    line = {"id": "a/test_b.py::test_c[1]", "outcome": "failed", "why": "E: no", "seconds": 1.0}
    assert runs.row(line, {}).outcome == "fail"
    row = runs.row(line, {"a/test_b.py::test_c": "it asks for the impossible"})
    assert (row.group, row.case, row.outcome) == ("a/test_b.py", "test_c[1]", "explained")
    assert "the impossible" in row.why and "E: no" in row.why
    assert table.report("x", [row], None, False) == 0


def test_examples_stop_before_they_launch(load: Any, tmp_path: Path) -> None:
    examples = load("sdk_examples")
    file = tmp_path / "runs_itself.py"
    file.write_text(
        "import numpy as np\nSCALE = 3\ndef kernel(x):\n    return SCALE * x\n"
        "result = kernel[2](np.ones(3))\n",
        "utf-8",
    )
    seen: list[float] = []
    row = examples.attempt(file, "kernel", lambda kernel: seen.append(kernel(2)), "group")
    assert (row.outcome, seen) == ("pass", [6])

    def disagree(kernel: Any) -> None:
        examples.close(kernel(np.ones(2)), np.ones(2))

    assert "differs by up to 2" in examples.attempt(file, "kernel", disagree, "group").why


def test_a_docstring_that_ends_twice_is_repaired(load: Any, tmp_path: Path) -> None:
    library = load("nki_library")
    source = tmp_path / "src"
    source.mkdir()
    good = 'def f():\n    """Text.\n    """\n    return 1\n'
    bad = 'def f():\n    """Text.\n    """\n\n        Text: twice\n    """\n    return 1\n'
    (source / "good.py").write_text(good, "utf-8")
    (source / "bad.py").write_text(bad, "utf-8")
    assert library.repair(tmp_path) == ["src/bad.py"]
    assert (source / "good.py").read_text("utf-8") == good
    assert (source / "bad.py").read_text("utf-8") == good
    assert library.references("from lib.nkilib.core.x_torch import ref\nimport y\n") == {
        "core.x_torch"
    }


def test_modules_that_use_a_reference(load: Any, tmp_path: Path) -> None:
    library = load("nki_library")
    folder = tmp_path / library.TESTS
    folder.mkdir(parents=True)
    test = "def test_one():\n    pass\n"
    given = {
        "test_direct.py": "from lib.nkilib.core.x_torch import ref\n" + test,
        "test_helper.py": "from lib.nkilib.core.x_torch import ref\n",
        "test_by_helper.py": f"from {library.TESTS.replace('/', '.')}.test_helper import run\n"
        + test,
        "test_without.py": test,
    }
    for name, text in given.items():
        (folder / name).write_text(text, "utf-8")
    found = [Path(name).name for name in library.chosen(tmp_path, "")]
    assert found == ["test_by_helper.py", "test_direct.py"]
    assert [Path(n).name for n in library.chosen(tmp_path, "without")] == ["test_without.py"]


def test_only_cases_that_compared_a_kernel_match(load: Any) -> None:
    library, table = load("nki_library"), load("table")
    ran = {"launched": ["core/a.py::a trn2 2"], "compared": 1}
    row = table.Row("file", "case", "pass", ran=ran)
    assert library.matches(row)
    assert not library.matches(table.Row("file", "case", "fail", ran=ran))
    assert not library.matches(table.Row("file", "case", "pass", ran=ran | {"compared": 0}))
    assert not library.matches(table.Row("file", "case", "pass", ran=ran | {"launched": []}))
    assert not library.matches(table.Row("file", "case", "pass"))


REFERENCE = """
class Held:
    def __init__(self, function):
        self._function = function

    def __getitem__(self, cores):
        return lambda x: self._function(x)


def helper(x):
    return 2 * x


def reference(x):
    return helper(x)


held = Held(reference)


class Module:
    def forward(self, x):
        return helper(x)

    def __call__(self, x):
        return self.forward(x)
"""


def test_references_are_seen_however_they_are_imported(load: Any, tmp_path: Path) -> None:
    record = load("nki_library_record")
    folder = tmp_path / "nkilib" / "core"
    folder.mkdir(parents=True)
    (folder / "a_torch.py").write_text(REFERENCE, "utf-8")
    (folder / "b_torch.py").write_text(
        "from .a_torch import reference\n\n\ndef outer(x):\n    return reference(x)\n", "utf-8"
    )
    (folder / "plain.py").write_text("def reference(x):\n    return 2 * x\n", "utf-8")
    before = list(sys.meta_path)
    sys.path.insert(0, str(tmp_path))
    record.watch_references()
    try:
        a = importlib.import_module("nkilib.core.a_torch")
        b = importlib.import_module("nkilib.core.b_torch")
        moved = sys.modules["nkilib.old"] = importlib.import_module("nkilib.core")
        again = importlib.import_module("nkilib.old.a_torch")
        plain = importlib.import_module("nkilib.core.plain")
    finally:
        sys.meta_path[:] = before
        sys.path.remove(str(tmp_path))
        for name in [n for n in sys.modules if n.partition(".")[0] == "nkilib"]:
            del sys.modules[name]
    assert moved.__name__ == "nkilib.core" and again is not a
    calls = {
        "core.a_torch": (a.reference, a.held[1], a.Module(), a.Module().forward, again.reference),
        "core.b_torch": (b.outer,),
        "": (plain.reference,),
    }
    for name, functions in calls.items():
        for function in functions:
            record.CURRENT.__init__()
            assert function(3) == 6
            assert record.CURRENT.references == ({name} if name else set())
            assert record.CURRENT.depth == 0
