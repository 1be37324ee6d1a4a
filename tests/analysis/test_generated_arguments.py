"""Generated kernels: chains of views, and objects as arguments, issue what the simulator issues."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from accelopt_lsp.analysis.arguments import discover_arguments
from accelopt_lsp.analysis.kernels import find_kernels
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.profiler.simulator.errors import KernelRejected
from tests.analysis.test_static_equals_traced import compare
from tests.analysis.traced import traced_counts

SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much]
VIEWS = """import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=bf16[{shape}] target=trn2
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    given = {given}
    for i in range(2):
        part = given{chain}
        tile = nl.ndarray(part.shape, dtype=part.dtype, buffer=nl.sbuf)
        {copy}
        assert part.ndim == len(part.shape)
        nisa.memset(dst=tile, value=0.0)
    return out
"""
TILE = """nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=given, src=x)"""


@st.composite
def chains(draw: st.DrawFn) -> str:
    shape = draw(st.lists(st.sampled_from([2, 4, 6, 8]), min_size=2, max_size=4))
    on_chip = draw(st.booleans())
    whole, text = list(shape), ""
    for _ in range(draw(st.integers(1, 4))):
        step, shape = draw(st.sampled_from(STEPS))(draw, shape, int(on_chip))
        text += step
    while len(shape) < 2:
        text, shape = f"{text}.expand_dim({len(shape)})", [*shape, 1]
    copy = "tensor_copy" if on_chip else "dma_copy"
    return VIEWS.format(
        shape=",".join(map(str, whole)),
        given=TILE if on_chip else "x",
        chain=text,
        copy=f"nisa.{copy}(dst=tile, src=part)",
    )


Step = tuple[str, list[int]]


def _indexed(draw: st.DrawFn, shape: list[int], first: int) -> Step:
    parts, left = [], []
    for size in shape:
        low = draw(st.integers(0, size - 1))
        high = draw(st.integers(low + 1, size))
        kind = draw(st.sampled_from(["all", "part", "loop", "rest"]))
        if kind == "loop" and size > 1:
            parts.append(f"i : i + {size - 1}")
            left.append(size - 1)
        elif kind == "part":
            parts.append(f"{low}:{high}")
            left.append(high - low)
        elif kind == "rest":
            parts.append(f"-{size - low}:")
            left.append(size - low)
        else:
            parts.append(":")
            left.append(size)
    return f"[{', '.join(parts)}]", left


def _axis(draw: st.DrawFn, shape: list[int], first: int) -> int:
    return draw(st.integers(min(first, len(shape) - 1), len(shape) - 1))


def _sliced(draw: st.DrawFn, shape: list[int], first: int) -> Step:
    at = _axis(draw, shape, first)
    step = draw(st.integers(1, 2))
    count = len(range(0, shape[at], step))
    return f".slice({at}, 0, {shape[at]}, {step})", [*shape[:at], count, *shape[at + 1 :]]


def _selected(draw: st.DrawFn, shape: list[int], first: int) -> Step:
    at = _axis(draw, shape, first)
    if len(shape) < 3 or shape[at] < 2:
        return "", shape
    return f".select({at}, i)", [*shape[:at], *shape[at + 1 :]]


def _permuted(draw: st.DrawFn, shape: list[int], first: int) -> Step:
    dims = [*range(first), *draw(st.permutations(range(first, len(shape))))]
    return f".permute({tuple(dims)})", [shape[d] for d in dims]


def _expanded(draw: st.DrawFn, shape: list[int], first: int) -> Step:
    at = draw(st.integers(first, len(shape)))
    count = draw(st.integers(1, 3))
    new = [*shape[:at], count, *shape[at:]]
    return f".expand_dim({at}).broadcast({at}, {count})", new


def _split(draw: st.DrawFn, shape: list[int], first: int) -> Step:
    at = _axis(draw, shape, first)
    if shape[at] % 2:
        return "", shape
    new = [*shape[:at], 2, shape[at] // 2, *shape[at + 1 :]]
    return f".reshape_dim({at}, (2, {shape[at] // 2}))", new


def _flattened(draw: st.DrawFn, shape: list[int], first: int) -> Step:
    last = len(shape) - 1
    at = _axis(draw, shape, first)
    return f".flatten_dims({at}, {last})", [*shape[:at], prod(shape[at:])]


def _retyped(draw: st.DrawFn, shape: list[int], first: int) -> Step:
    if shape[-1] % 2 or len(shape) < 2:
        return ".view(nl.uint16)", shape
    return ".view(nl.float32)", [*shape[:-1], shape[-1] // 2]


STEPS: list[Callable[[st.DrawFn, list[int], int], Step]] = [
    _indexed,
    _indexed,
    _sliced,
    _selected,
    _permuted,
    _expanded,
    _split,
    _flattened,
    _retyped,
]


@settings(max_examples=80, deadline=None, suppress_health_check=SLOW)
@given(text=chains())
def test_chains_of_views(tmp_path, text):
    path = tmp_path / "generated.py"
    path.write_text(text, "utf-8")
    document = Document.parse(text)
    (kernel,) = find_kernels(document)
    arguments = discover_arguments(document, kernel)
    try:
        traced_counts(path, "kernel", arguments, kernel.dialect, "trn2")
    except KernelRejected:
        # Not every chain is possible: a view may have no strides, or no engine reads it.
        assume(False)
    assert compare(path, must_be_complete=True) == 1


OBJECTS = """from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

import nki
import nki.isa as nisa
import nki.language as nl


class Mode(Enum):
    FAST = 1
    SLOW = 2


@dataclass
class Inner:
    tiles: list
    width: int = 4
    mode: Mode = Mode.FAST

    @property
    def count(self):
        return len(self.tiles) * (2 if self.mode == Mode.SLOW else 1)


class Pair(NamedTuple):
    first: object
    second: object = None


@dataclass
class Config:
    inner: Inner
    sizes: tuple = (1, 2)
    named: dict = field(default_factory=dict)
    pair: Pair = None


# accelopt: {directive}
@nki.jit
def kernel(config, scale=1.0):
    out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    for tensor in config.inner.tiles:
        tile = nl.ndarray(tensor.shape, dtype=tensor.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=tensor)
        nisa.activation(dst=tile, op=nl.exp, data=tile, scale=scale)
    for n in range(config.inner.count):
        small = nl.ndarray((8, config.inner.width + n), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=small, value=0.0)
    for size in config.sizes:
        small = nl.ndarray((size, 2), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=small, value=1.0)
    for name, number in config.named.items():
        if name != "skipped":
            for _ in range(number):
                nisa.memset(dst=small, value=2.0)
    if config.pair is not None and config.pair.second is not None:
        tile = nl.ndarray(config.pair.second.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=config.pair.second)
    return out
"""
TENSORS = st.builds("f32[{},{}]".format, st.sampled_from([1, 64, 128]), st.integers(1, 9))


@st.composite
def configurations(draw: st.DrawFn) -> str:
    tiles = ", ".join(draw(st.lists(TENSORS, max_size=3)))
    inner = [f"tiles=[{tiles}]"]
    if draw(st.booleans()):
        inner.append(f"width={draw(st.integers(1, 9))}")
    if draw(st.booleans()):
        inner.append(f"mode=Mode.{draw(st.sampled_from(['FAST', 'SLOW']))}")
    parts = [f"Inner({', '.join(inner)})"]
    if draw(st.booleans()):
        sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
        parts.append(f"sizes=({', '.join(map(str, sizes))},)")
    if draw(st.booleans()):
        entries = draw(st.dictionaries(st.sampled_from(["a", "skipped"]), st.integers(0, 3)))
        parts.append(f"named={entries!r}")
    if draw(st.booleans()):
        parts.append(f"pair=Pair({draw(TENSORS)}, {draw(st.one_of(st.just('None'), TENSORS))})")
    scale = f" scale={draw(st.floats(0.5, 2))!r}" if draw(st.booleans()) else ""
    return f"config=Config({', '.join(parts)}){scale}"


@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
@given(directive=configurations())
def test_objects_as_arguments(tmp_path, directive):
    path = tmp_path / "generated.py"
    path.write_text(OBJECTS.format(directive=directive), "utf-8")
    assert compare(path, must_be_complete=True) == 1
