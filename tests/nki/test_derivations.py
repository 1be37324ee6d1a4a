"""The formula that a derivation spells out gives the time that the cost table gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from accelopt_lsp.analysis import analyze
from accelopt_lsp.analysis.syntax import Document

ROOT = Path(__file__).parents[2]
FILES = sorted(
    [
        *ROOT.glob("examples/*/*.py"),
        *ROOT.glob("tests/analysis/kernels/*.py"),
        *ROOT.glob("tests/analysis/cases/*.py"),
    ]
)
TERM = re.compile(r"(.*) x ([\d,]+) `\w+`$")
TENSOR = re.compile(r"([\d,]+) columns? x (\d+) pass(?:es)? / ([\d.]+) GHz effective$")
ENGINE = re.compile(r".*: \(?([\d,.]+) cycles / ([\d.]+) GHz(?: \+ ([\d.]+) ns to issue\))?$")
COPY = re.compile(
    r"([\d,]+) descriptors? on each of ([\d,]+) DMA engines? x "
    r"\(([\d.]+) ns \+ ([\d,]+) B / ([\d.]+) B/ns\)$"
)
TRANSPOSE = re.compile(r"([\d,.]+) ns to transpose \[\d+, \d+\] on each of (\d+) DMA engines?$")
DMA_ENGINES = 16


def numbers(match: re.Match[str]) -> list[float]:
    return [float((group or "0").replace(",", "")) for group in match.groups()]


def evaluated(term: str) -> float:
    """What the formula of one term comes to, in engine time; transfers use all DMA engines."""
    formula, count = TERM.match(term).groups()  # type: ignore[union-attr]
    if match := TENSOR.match(formula):
        columns, passes, clock = numbers(match)
        each = columns * passes / clock
    elif match := COPY.match(formula):
        descriptors, engines, fixed, size, rate = numbers(match)
        each = descriptors * (fixed + size / rate) * engines / DMA_ENGINES
    elif match := TRANSPOSE.match(formula):
        each, engines = numbers(match)
        each *= engines / DMA_ENGINES
    else:
        match = ENGINE.match(formula)
        assert match is not None, formula
        cycles, clock, fixed = numbers(match)
        each = cycles / clock + fixed
    return each * float(count.replace(",", ""))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_formulas_give_the_times(path: Path) -> None:
    found = analyze(Document.parse(path.read_text("utf-8")), path=path)
    for kernel in found.kernels:
        for line in kernel.workload.lines if kernel.workload else ():
            if not line.derivation or line.derivation[-1].endswith(" more"):
                continue
            total = sum(evaluated(term) for term in line.derivation)
            assert total == pytest.approx(sum(line.issued.engine_ns.values()), rel=0.01), line
