"""Comments that steer us are written where they count and change nothing else."""

from __future__ import annotations

import pytest

from accelopt_lsp.analysis.directives import find_suppressions, kernel_directive
from accelopt_lsp.analysis.kernels import find_kernels
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.workbench.comments import suppress, suppress_in_file, with_target

LINES = {
    "plain": ("x = 1\n", "x = 1  # accelopt: ignore[P10]\n"),
    "no end": ("x = 1", "x = 1  # accelopt: ignore[P10]"),
    "crlf": ("x = 1\r\n", "x = 1  # accelopt: ignore[P10]\r\n"),
    "comment": ("x = 1  # why\n", "x = 1  # why  # accelopt: ignore[P10]\n"),
    "another code": ("x = 1  # accelopt: ignore[R1]\n", "x = 1  # accelopt: ignore[R1, P10]\n"),
    "there already": ("x = 1  # accelopt: ignore[P10]\n", "x = 1  # accelopt: ignore[P10]\n"),
    "all codes": ("x = 1  # accelopt: ignore\n", "x = 1  # accelopt: ignore\n"),
    "open bracket": ("x = f(\n    1)\n", "x = f(  # accelopt: ignore[P10]\n    1)\n"),
    "backslash": ("x = 1 + \\\n    2\n", None),
    "string": ('x = """a\nb"""\n', None),
    "broken": ("x = (\n", "x = (  # accelopt: ignore[P10]\n"),
}
FILES = {
    "plain": ("import nki\n", "# accelopt: ignore-file[P10]\nimport nki\n"),
    "empty": ("", "# accelopt: ignore-file[P10]\n"),
    "docstring": ('"""doc"""\n', '# accelopt: ignore-file[P10]\n"""doc"""\n'),
    "shebang": (
        "#!/usr/bin/python\n# coding: utf-8\nx = 1\n",
        "#!/usr/bin/python\n# coding: utf-8\n# accelopt: ignore-file[P10]\nx = 1\n",
    ),
    "another": ("# accelopt: ignore-file[R1]\n", "# accelopt: ignore-file[R1, P10]\n"),
    "crlf": ("x = 1\r\n", "# accelopt: ignore-file[P10]\r\nx = 1\r\n"),
}
KERNEL = """import nki


{above}@nki.jit
def kernel(x):
{inside}    return x
"""
TARGETS = {
    "none": ("", "", "# accelopt: target=trn3\n"),
    "arguments": ("# accelopt: x=f32[2,2]\n", "", "# accelopt: x=f32[2,2] target=trn3\n"),
    "another": ("# accelopt: target=trn1 x=f32[2,2]\n", "",
                "# accelopt: target=trn3 x=f32[2,2]\n"),
    "two": ("# accelopt: target=trn1\n# accelopt: target=trn2 x=f32[2,2]\n", "",
            "# accelopt: target=trn1\n# accelopt: target=trn3 x=f32[2,2]\n"),
    "inside": ("", "    # accelopt: x=f32[2,2]\n", "    # accelopt: x=f32[2,2] target=trn3\n"),
    "prose": ("# A kernel, target=x.\n", "", "# A kernel, target=x.\n# accelopt: target=trn3\n"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), LINES.values(), ids=LINES)
def test_a_line(text: str, expected: str | None) -> None:
    found = suppress(text, 1, "P10")
    assert found == expected
    if found is not None:
        codes = find_suppressions(Document.parse(found)).by_line[1]
        assert not codes or "P10" in codes
    assert suppress(text, 99, "P10") is None


@pytest.mark.parametrize(("text", "expected"), FILES.values(), ids=FILES)
def test_a_file(text: str, expected: str) -> None:
    found = suppress_in_file(text, "P10")
    assert found == expected
    codes = find_suppressions(Document.parse(expected)).file
    assert codes is not None
    assert "P10" in codes


@pytest.mark.parametrize(("above", "inside", "written"), TARGETS.values(), ids=TARGETS)
def test_a_target(above: str, inside: str, written: str) -> None:
    found = with_target(KERNEL.format(above=above, inside=inside), "kernel", "trn3")
    assert found is not None
    assert written in found
    document = Document.parse(found)
    (kernel,) = find_kernels(document)
    assert kernel_directive(document, kernel).target == "trn3"
    assert with_target(found, "other", "trn3") is None
