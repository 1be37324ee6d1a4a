"""Any text goes through analysis: no exception, and no more steps than the budget has."""

from __future__ import annotations

import random
import string
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accelopt_lsp.analysis import analyze, analyze_syntax, files
from accelopt_lsp.analysis.files import FILE_STEPS, LEAST_STEPS
from accelopt_lsp.analysis.machine import EXTRA_STEPS, MAX_GRANTS, MAX_LENGTH, MAX_STEPS
from accelopt_lsp.analysis.syntax import Document

HERE = Path(__file__).parent
KERNELS = [p.read_text("utf-8") for p in sorted(HERE.glob("kernels/*.py"))]
HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n\n\n"
MOST_STEPS = MAX_STEPS + MAX_GRANTS * EXTRA_STEPS + MAX_LENGTH // 64 + 1
"""What a kernel may take, and by how much the last step may pass that."""
ODD = "\0\r\f\t\ufeff\u2028\udcff'\"\\{}()[]:#@*,.=\n x1é"


@pytest.fixture(autouse=True)
def defects(monkeypatch):
    """A defect that analysis survives is one all the same."""

    def fail(message: str, *values: object) -> None:
        raise AssertionError(message % values)

    monkeypatch.setattr(files._log, "exception", fail)


def looked_at(text: str) -> None:
    """Both tiers."""
    document = Document.parse(text)
    analyze_syntax(document)
    analyze(document)


def body(*lines: str) -> str:
    text = "\n".join(f"    {line}" for line in lines)
    return f"{HEAD}# accelopt: x=f32[128,512]\n@nki.jit\ndef kernel(x):\n{text}\n    return x\n"


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, len(KERNELS) - 1), st.integers(0, 2**32), st.integers(1, 6))
def test_changed_bytes(number, seed, count):
    rng = random.Random(seed)
    data = bytearray(KERNELS[number].encode())
    for _ in range(count):
        place = rng.randrange(len(data))
        if rng.random() < 0.5:
            data[place] ^= 1 << rng.randrange(8)
        else:
            data[place : place + rng.randrange(4)] = rng.randbytes(rng.randrange(4))
    looked_at(data.decode("utf-8", "surrogateescape"))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, len(KERNELS) - 1), st.floats(0, 1), st.text(alphabet=ODD, max_size=12))
def test_inserted_text(number, share, piece):
    text = KERNELS[number]
    place = int(share * len(text))
    looked_at(text[:place] + piece + text[place:])


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.text(alphabet=string.printable + ODD, max_size=300))
def test_text_that_is_no_python(text):
    looked_at(f"import nki\n@nki.jit\ndef kernel(x):\n    {text}")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("(" * 20_000, id="open brackets"),
        pytest.param("x = " + "[" * 3_000 + "]" * 3_000, id="nested lists"),
        pytest.param("x = " + "-" * 50_000 + "1", id="signs"),
        pytest.param("x = " + " + ".join(["y"] * 20_000), id="a long sum"),
        pytest.param("x" + ".y" * 20_000, id="a long path"),
        pytest.param("f(" * 2_000 + ")" * 2_000, id="nested calls"),
        pytest.param("x = " + "9" * 100_000, id="a huge number"),
        pytest.param("x = '" + "a" * 2_000_000 + "'", id="a huge text"),
        pytest.param("@d\n" * 5_000 + "def f(): pass", id="decorators"),
        pytest.param("if x:\n" + "".join(" " * i + "if x:\n" for i in range(1, 300)), id="depth"),
        pytest.param("x = f'" + '{f"' * 60 + '"}' * 60 + "'", id="nested f-strings"),
        pytest.param("\0" * 10_000, id="null bytes"),
        pytest.param("\udc80\ud800 = 1", id="surrogates"),
        pytest.param("x = 1\r" * 5_000, id="carriage returns"),
        pytest.param("def f():\n\tx = 1\n        y = 2\n\x0c  z = 3", id="tabs"),
        pytest.param("else:\n" * 5_000, id="errors"),
        pytest.param("class A(A): pass\n" * 2_000, id="classes"),
        pytest.param("# accelopt: " + "x=f32[1] " * 10_000, id="a long directive"),
    ],
)
def test_odd_texts(text):
    looked_at(HEAD + text)
    looked_at(body(*text.split("\n")))


@pytest.mark.parametrize(
    "lines",
    [
        ("for i in range(10**12):", "    nisa.memset(x, value=0)"),
        ("for i in range(10**12):", "    if i % 7 == 3:", "        y = x[i]"),
        ("for i in range(10**6):", "    for j in range(i):", "        y = i * j"),
        ("i = 0", "while i < 10**12:", "    i += 1"),
        ("while True:", "    pass"),
        ("kernel(x)",),
        ("def f(n):", "    return f(n - 1) + f(n - 2)", "f(10**6)"),
        ("t = [0] * 100_000", "i = 0", "while i < 10**6:", "    i += t[i] + len(t)"),
        ("t = [i for i in range(10**9)]", "t[5]"),
        ("t = []", "for i in range(10**7):", "    t.append([i] * 100)", "    t = t + t"),
        ("s = 'a'", "for i in range(200):", "    s = s + s"),
        ("n = 7", "for i in range(200):", "    n = n * n"),
        ("n = 2 ** (2 ** 100)", "m = 1 << (1 << 70)"),
        ("t = ()", "for i in range(100):", "    t = (t, t)"),
        ("d = {}", "while True:", "    d[len(d)] = dict(d)"),
        ("t = nl.ndarray((2**40, 2**40), dtype=nl.float32, buffer=nl.sbuf)", "t[2**39, :2**39]"),
        ("t = nl.ndarray((128, -5, 0), dtype=nl.float32, buffer=nl.psum)",),
        ("x = x.reshape((0, 10**30))",),
        (
            "for a in zip(range(10**9), [1] * 1000):",
            "    for b in enumerate(range(10**9)):",
            "        b",
        ),
        (
            *(f"{' ' * 4 * n}for i{n} in range(50 + n * x.shape[0]):" for n in range(12)),
            " " * 48 + "x",
        ),
        ("class A:", "    def __getattr__(self, n):", "        return self.b", "A().c"),
        ("lambdas = [lambda: lambdas[0]()]", "lambdas[0]()"),
        (
            "sorted(range(10**10))",
            "sum(range(10**10))",
            "max(range(10**10))",
            "list(range(10**10))",
        ),
        ("'%999999999d' % 1", "f'{1:>999999999}'", "'a'.ljust(10**10)", "'a' * 10**10"),
    ],
    ids=lambda lines: lines[0][:40],
)
def test_kernels_that_never_end(lines):
    (kernel,) = analyze(Document.parse(body(*lines))).kernels
    assert kernel.workload is not None
    assert kernel.steps <= MOST_STEPS


def test_a_file_has_one_budget_for_all_its_kernels():
    one = "    for i in range(4000):\n        if i % 3 == 1:\n            y = x + i\n"
    kernels = "".join(f"@nki.jit\ndef kernel_{n}(x):\n{one}\n\n" for n in range(40))
    found = analyze(Document.parse(HEAD + kernels)).kernels
    assert len(found) == 40
    assert all(kernel.steps <= MOST_STEPS for kernel in found)
    assert sum(k.steps for k in found) <= FILE_STEPS + MOST_STEPS + 40 * 4 * LEAST_STEPS
