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
