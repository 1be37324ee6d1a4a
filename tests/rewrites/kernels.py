"""The kernels that rewrites are tried on: golden cases and the repository's examples."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from accelopt_lsp.analysis.arguments import discover_arguments
from accelopt_lsp.analysis.kernels import find_kernels
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.arguments import KernelArguments
from accelopt_lsp.rewrites import RewriteContext

CASES = Path(__file__).parent / "cases"
EXAMPLES = Path(__file__).parents[2] / "examples"
_APPLY = re.compile(r"^# apply: (\{.*\})$", re.MULTILINE)


def case_files() -> list[Path]:
    return sorted(CASES.glob("*/*.in.py"))


def example_files() -> list[Path]:
    return sorted(p for p in EXAMPLES.glob("*/*.py") if not p.stem.endswith("_reference"))


def title(path: Path) -> str:
    return f"{path.parent.name}/{path.name.removesuffix('.py').removesuffix('.in')}"


def parameters(text: str) -> dict[str, Any]:
    """What a case applies its rewrite with."""
    found = _APPLY.search(text)
    assert found is not None, "a case starts with # apply: {...}"
    return dict(json.loads(found[1]))


def arguments_of(text: str, path: Path | None = None) -> tuple[str, KernelArguments]:
    """Name and arguments of the first kernel, by its directive."""
    document = Document.parse(text)
    kernel = find_kernels(document)[0]
    return kernel.qualname, discover_arguments(document, kernel, path=path)


def context_of(text: str, path: Path | None = None) -> RewriteContext:
    name, arguments = arguments_of(text, path)
    return RewriteContext.from_text(text, name, arguments)


_SMALL = {
    "matmul": {"lhsT": "512,512", "rhs": "512,1024"},
    "rmsnorm": {"x": "256,512", "gamma": "512"},
    "rotary": {"q": "256,512", "cos": "256,64", "sin": "256,64"},
    "silu_gate": {"gate": "256,1536", "up": "256,1536"},
    "softmax": {"x": "256,512"},
}


def small(path: Path) -> str:
    """An example with a directive that is small enough to compute often."""
    sizes = _SMALL[path.stem]

    def resized(found: re.Match[str]) -> str:
        return f"{found[1]}={found[2]}[{sizes[found[1]]}]"

    return "".join(
        re.sub(r"(\w+)=(\w+)\[[\d,]+\]", resized, line) if "accelopt:" in line else line
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True)
    )


def all_kernels() -> Iterator[tuple[str, str]]:
    """(title, text) of every kernel, with small shapes."""
    for path in case_files():
        yield title(path), path.read_text(encoding="utf-8")
    for path in example_files():
        yield f"examples/{title(path)}", small(path)
