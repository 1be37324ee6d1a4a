"""Code made to exhaust an analysis: every one of these must end soon, and say what it left out."""

from __future__ import annotations

import pytest

from accelopt_lsp.analysis import analyze
from accelopt_lsp.analysis.syntax import Document

HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n\n\n"
TILE = (
    "tile = nl.ndarray((128, 8 + (i * j) % 7), dtype=nl.float32, buffer=nl.sbuf)\n"
    "            nisa.memset(dst=tile, value=0.0)\n"
)
BODIES = {
    "endless loop": "while True:\n        x = 1",
    "number that squares itself": "x = 10\n    while True:\n        x = x * x",
    "shift": "x = 1 << 10**9",
    "power": "x = 2 ** 10**9\n    y = pow(10, 10**9)\n    z = (10**9) ** (10**9)",
    "long text": "x = 'ab' * 10**9\n    y = 10**9 * 'ab'\n    z = (1,) * 10**9",
    "text that doubles": "x = 'a'\n    while True:\n        x = f'{x}{x}'",
    "tuple that doubles": "x = (1,)\n    while True:\n        x = x + x",
    "list that doubles": "x = [1]\n    while True:\n        x = x + x",
    "list that extends itself": "x = [1]\n    while True:\n        x.extend(x)",
    "list that adds itself": "x = [1]\n    while True:\n        x += x",
    "long list": "x = list(range(10**9))\n    y = [i for i in range(10**9)]\n    z = [0] * 10**9",
    "sum": "x = sum(range(10**12))",
    "recursion": "def f(n):\n        return f(n + 1)\n    x = f(0)",
    "two recursions": "def f(n):\n        return f(n + 1) + f(n + 2)\n    x = f(0)",
    "list in itself": "x = []\n    x.append(x)\n    y = x == x\n    for z in x:\n        pass",
    "deep nesting": "x = " + "(" * 150 + "1" + ")" * 150,
    "long sum": "x = " + " + ".join(["1"] * 400),
    "iterations that all differ": (
        "for i in range(1000):\n        for j in range(1000):\n            " + TILE
    ),
    "long loops": (
        "for i in range(10**9):\n        for j in range(10**9):\n            if i * j % 3 == 1:\n"
        "                nisa.memset(dst=x, value=0.0)"
    ),
    "loop that grows": "x = [1]\n    for y in x:\n        x.append(y)",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_ends(body):
    text = f"{HEAD}# accelopt: x=f32[128,128]\n@nki.jit\ndef kernel(x):\n    {body}\n    return x\n"
    (kernel,) = analyze(Document.parse(text)).kernels
    assert kernel.workload is not None
    if "memset" in body:
        assert not kernel.workload.complete
        assert kernel.profile.latency_ms is None
