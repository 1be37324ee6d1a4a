"""Kernels that are spread over files: small packages with what each kernel must count."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from accelopt_lsp.analysis import analyze
from accelopt_lsp.analysis.syntax import Document

PACKAGES = Path(__file__).with_name("packages")
_EXPECT = re.compile(r"# expect-instructions:(.*)\n")
FILES = sorted(p for p in PACKAGES.rglob("*.py") if _EXPECT.search(p.read_text("utf-8")))


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGES).with_suffix("").as_posix()


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_instructions(path):
    text = path.read_text("utf-8")
    expected = [
        {op: int(n) for op, n in (pair.split("=") for pair in found.split())}
        for found in _EXPECT.findall(text)
    ]
    kernels = analyze(Document.parse(text), path=path).kernels
    assert [k.workload.unknowns for k in kernels if k.workload] == [()] * len(expected)
    assert [dict(k.workload.issued.instructions) for k in kernels if k.workload] == expected


_REASON = re.compile(r"# expect-reason:(.*)\n")
REASONS = sorted(p for p in PACKAGES.rglob("*.py") if _REASON.search(p.read_text("utf-8")))


@pytest.mark.parametrize("path", REASONS, ids=name_of)
def test_reasons(path):
    text = path.read_text("utf-8")
    found = analyze(Document.parse(text), path=path)
    expected = [reason.strip() for reason in _REASON.findall(text)]
    unknowns = [k.workload.unknowns if k.workload else () for k in found.kernels]
    assert len(unknowns) == len(expected)
    for reasons, wanted in zip(unknowns, expected, strict=True):
        assert any(wanted in reason for _, reason in reasons), (wanted, reasons)
    assert not [d for d in found.diagnostics if d.code == "A001"]
