"""The page on trust: its blocks, and what they are made of."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.profile import Bound
from accelopt_lsp.profiler.comparison import Comparison, criteria
from accelopt_lsp.profiler.measured import MeasuredKernel, Use, parse_measured, published
from accelopt_lsp.workbench.ablation import AblationReport, AblationRow
from accelopt_lsp.workbench.bench import BenchReport

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "trust.md").read_text("utf-8")


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("build_trust", ROOT / "docs" / "build_trust.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def blocks():
    return dict(re.findall(r"<!-- (\w+) -->\n(.*?)<!-- end \1 -->", PAGE, re.DOTALL))


def test_the_page_has_every_block_and_all_are_written():
    found = blocks()
    assert set(found) == {
        "latencies", "criteria", "order", "coverage", "families", "constants", "ablation",
        "sensitivity",
    }  # fmt: skip
    for name, content in found.items():
        assert "|" in content, name


def test_every_measured_kernel_is_on_the_page():
    for kernel in published():
        assert f"| {kernel.kernel} |" in blocks()["latencies"]


def test_a_block_is_replaced_and_nothing_else(script):
    text = "a\n<!-- x -->\nold\n<!-- end x -->\nb\n<!-- y -->\n<!-- end y -->\n"
    found = script.with_block(text, "x", "\nnew \\1\n")
    assert found == text.replace("old", "new \\1")
    assert script.with_block(found, "y", "z").endswith("<!-- y -->\nz\n<!-- end y -->\n")
    with pytest.raises(ValueError, match="no block z"):
        script.with_block(text, "z", "")


def _row(name, measured, simulated, series=None):
    use = Use.CALIBRATION if series is None else Use.CHECK
    kernel = MeasuredKernel(
        name, "accelopt", "k.py", "trn1", Dialect.LEGACY, measured, use, series=series
    )
    return Comparison(kernel, simulated, bound=Bound.VECTOR)


def test_tables_of_a_comparison(script):
    rows = (
        _row("a", 1.0, 1.05),
        _row("b", 2.0, None),
        _row("v1", 1.0, 1.1, "steps"),
        _row("v2", 1.2, 1.0, "steps"),
    )
    report = BenchReport(rows, criteria(rows))
    text = script.latencies(report)
    assert "| a | vector | 1.000 | 1.050 | +5.0 % |  |" in text
    assert "| b | vector | 2.000 | failed |  |  |" in text
    assert "1 of 2 kernels: absolute error 5.0 % in the mean" in text
    assert "**Steps**" in text
    assert "| 10 % to 25 % | 1 | 0 |" in script.order(rows)
    assert "| latency, steps | each within 15 % | -16.7 % at most" in script.verdicts(report)


def test_tables_of_an_ablation(script):
    def row(name, *errors):
        return AblationRow(name, f"what {name} is", dict(zip("ab", errors, strict=True)))

    report = AblationReport(
        ("a", "b"),
        row("model", 0.01, -0.03),
        (row("merges", 0.2, None),),
        {"launch_ns": (row("launch_ns", 0.0, 0.1), row("launch_ns", 0.1, 0.2))},
    )
    text = script.rules(report)
    assert "| a | +1.0 | +20.0 |" in text
    assert "| b | -3.0 |  |" in text
    assert "| **mean of absolute** | 2.0 | 20.0 |" in text
    assert "- `merges`: what merges is" in text
    assert "| `launch_ns` | 5.0 | 15.0 |" in script.sensitivity(report)


def test_the_example_of_a_file_of_measured_kernels_is_one():
    [text] = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    [kernel] = parse_measured(text, "the page")
    assert (kernel.use, kernel.series, kernel.target) == (Use.CHECK, "softmax", "trn2")
