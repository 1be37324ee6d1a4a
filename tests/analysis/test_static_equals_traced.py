"""Static analysis counts exactly what the simulator issues, wherever it claims to know."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accelopt_lsp.analysis.arguments import discover_arguments
from accelopt_lsp.analysis.files import analyze_kernel, target_for
from accelopt_lsp.analysis.kernels import find_kernels
from accelopt_lsp.analysis.results import AnalysisOptions
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.profile import Issued
from tests.analysis.traced import traced_counts

TESTS = Path(__file__).resolve().parents[1]
OWN = sorted((TESTS / "analysis" / "kernels").glob("*.py"))
EXAMPLES = sorted(
    p for p in (TESTS.parent / "examples").glob("*/*.py") if not p.stem.endswith("_reference")
)
OTHERS = sorted(
    p
    for folder in ("rewrites", "e2e", "simulator")
    for p in (TESTS / folder).rglob("*.py")
    if "nki" in p.read_text("utf-8")
    and not p.name.startswith(("test_", "conftest"))
    and not p.stem.endswith("_reference")
    and "failures" not in p.parts
)
COUNTS = (
    "instructions",
    "elements",
    "hbm_read_bytes",
    "hbm_write_bytes",
    "dma_descriptors",
    "matmul_flops",
    "transpose_flops",
)


def name_of(path: Path) -> str:
    return path.relative_to(TESTS.parent).with_suffix("").as_posix()


def assert_equal(static: Issued, traced: Issued) -> None:
    for name in COUNTS:
        assert getattr(static, name) == getattr(traced, name), name
    assert static.engine_ns == pytest.approx(dict(traced.engine_ns))


def compare(path: Path, *, must_be_complete: bool) -> int:
    """Number of kernels of a file that were compared."""
    document = Document.parse(path.read_text("utf-8"))
    compared = 0
    for kernel in find_kernels(document):
        found = analyze_kernel(document, kernel, path=path)
        assert found.workload is not None
        if must_be_complete:
            assert found.workload.complete, found.workload.unknowns
        if not found.workload.complete or found.arguments.missing:
            continue
        target = target_for(kernel, found.arguments, AnalysisOptions()).name
        traced = traced_counts(path, kernel.qualname, found.arguments, kernel.dialect, target)
        assert_equal(found.workload.issued, traced)
        compared += 1
    return compared


@pytest.mark.parametrize("path", [*OWN, *EXAMPLES], ids=name_of)
def test_complete_kernels(path):
    assert compare(path, must_be_complete=True) == 1


@pytest.mark.parametrize("path", OTHERS, ids=name_of)
def test_kernels_of_other_tests(path):
    compare(path, must_be_complete=False)


ROW = """import {package} as nki
import {package}.language as nl
import {package}.isa as nisa


# accelopt: x=f32[{rows},{columns}]
@nki.jit
def kernel(x):
    rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = []
    offset = {offset}
    for i in range({start}, {stop}, {step}):
        for j in range({inner}):
            height = min({height}, rows - i * {height})
            if {condition}:
                tile = nl.ndarray((height, {width}), dtype=x.dtype, buffer=nl.sbuf)
                nisa.dma_copy(
                    dst=tile,
                    src=x[i * {height} : i * {height} + height, j * {width} : (j + 1) * {width}],
                )
                {then}
        offset += {growth}
        if offset % 3 == 0:
            tiles.append(offset)
    for k, value in enumerate(tiles):
        last = nl.ndarray((1, 8 + value % 5), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=last, value=0.0)
    return out
"""
STATEFUL = """import nki
import nki.isa as nisa
import nki.language as nl


class Counter:
    def __init__(self, start):
        self.count = start

    def up(self):
        self.count += 1
        return self.count


# accelopt: x=f32[128,{columns}]
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    counter = Counter({start})
    calls = 0
    cache = {{}}
    rows = [[] for _ in range({rows})]
    waiting = []

    def load(width):
        nonlocal calls
        calls += {growth}
        tile = nl.ndarray((128, width), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:, 0:width])
        return tile

    for i in range({trips}):
        for j in range({rows}):
            {first}
            {second}
    for row in rows:
        for tile in row:
            nisa.memset(dst=tile, value=0.0)
    for tile in waiting:
        nisa.activation(dst=tile, op=nl.exp, data=tile)
    return out
"""
ACTIONS = (
    "rows[j].append(load(16))",
    "rows[i % 2 % {rows}].append(load(16 + j))",
    "waiting.append(load(8 + i))",
    "load(4 + calls)",
    "load(1 + counter.up())",
    "counter.count = 7",
    "if 'w' not in cache: cache['w'] = load(32)",
    "if j not in cache: cache[j] = load(24 + j)",
    "nisa.memset(dst=cache.get('w', load(5)), value=1.0)",
    "if len(waiting) > 2: waiting = []",
    "if waiting: nisa.memset(dst=waiting[-1], value=0.0)",
    "if calls > 3: break",
    "load(2 + len(rows[j]))",
    "x_tile = load(64) if calls < 2 else load(65)",
    "rows[j] = [load(3)]",
    "pass",
)
CONDITIONS = (
    "True",
    "i == 0",
    "j > 0",
    "i != j",
    "j <= i",
    "(i + j) % 2 == 0",
    "i * 2 + j < 5",
    "i == 0 and j == 1",
    "not (j == 0 or i > 2)",
    "i // 2 == j",
    "offset % 2 == 0",
    "len(tiles) < 2",
)
THEN = (
    "nisa.activation(dst=tile, op=nl.exp, data=tile)",
    "nisa.dma_copy(dst=out[i * {height} : i * {height} + height, 0:{width}], src=tile)",
    "if i > 1: nisa.memset(dst=tile, value=1.0)",
    "if j == 1: break",
    "if i == 1: continue",
    "pass",
)


@st.composite
def programs(draw: st.DrawFn) -> str:
    height = draw(st.sampled_from([32, 64, 128]))
    width = draw(st.sampled_from([16, 100, 256]))
    stop = draw(st.integers(1, 5))
    last = draw(st.integers(1, height))
    inner = draw(st.sampled_from(["1", "3", "4", "i + 1", "max(1, 3 - i)"]))
    return ROW.format(
        package="nki",
        rows=(stop - 1) * height + last,
        columns=6 * width,
        offset=draw(st.integers(0, 4)),
        start=draw(st.integers(0, stop - 1)),
        stop=stop,
        step=draw(st.integers(1, 2)),
        inner=inner,
        height=height,
        width=width,
        condition=draw(st.sampled_from(CONDITIONS)),
        then=draw(st.sampled_from(THEN)).format(height=height, width=width),
        growth=draw(st.integers(0, 3)),
    )


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=programs())
def test_generated_programs(tmp_path, text):
    """Loops with conditions, ragged tiles, counters and lists that depend on iterations."""
    path = tmp_path / "generated.py"
    path.write_text(text, "utf-8")
    assert compare(path, must_be_complete=True) == 1


@st.composite
def stateful_programs(draw: st.DrawFn) -> str:
    rows = draw(st.integers(1, 3))
    first, second = (draw(st.sampled_from(ACTIONS)).format(rows=rows) for _ in range(2))
    return STATEFUL.format(
        columns=512,
        start=draw(st.integers(0, 2)),
        growth=draw(st.integers(0, 2)),
        trips=draw(st.integers(1, 4)),
        rows=rows,
        first=first,
        second=second,
    )


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=stateful_programs())
def test_generated_programs_with_state(tmp_path, text):
    """Lists of lists, caches, counters and closures that change from iteration to iteration."""
    path = tmp_path / "generated.py"
    path.write_text(text, "utf-8")
    compare(path, must_be_complete=False)


def test_discovered_arguments_are_the_directive_s(examples):
    path = examples / "legacy" / "matmul.py"
    document = Document.parse(path.read_text("utf-8"))
    (kernel,) = find_kernels(document)
    arguments = discover_arguments(document, kernel, path=path)
    assert arguments.complete
    assert set(arguments.origins.values()) == {"directive"}
