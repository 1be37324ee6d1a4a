"""Laws over random programs: both dialects agree, and what is computed later is the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import define, field
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accelopt_lsp.nki.targets import get_target
from accelopt_lsp.profiler.simulator import elision, ordering
from accelopt_lsp.profiler.simulator import kernels as running
from accelopt_lsp.profiler.simulator.launch import convert_input
from accelopt_lsp.profiler.simulator.library import OPERATOR_NAMES
from accelopt_lsp.profiler.simulator.replay import Recording, replay
from accelopt_lsp.profiler.simulator.session import Session
from accelopt_lsp.profiler.simulator.source import Sources
from tests.simulator.helpers import normal

pytestmark = pytest.mark.usefixtures("stand_ins")

HEADS = {
    "legacy": "import neuronxcc.nki as nki\nimport neuronxcc.nki.language as nl\n"
    "import neuronxcc.nki.isa as nisa\n",
    "current": "import nki\nimport nki.language as nl\nimport nki.isa as nisa\n",
}
DTYPES = ("float32", "bfloat16", "float16")


@define
class Tile:
    """A tile of a program: name, sizes, data type, and whether it stays in PSUM."""

    name: str
    partitions: int
    free: int
    dtype: str = "float32"
    psum: bool = False


@define
class Program:
    """A program in both spellings.

    Attributes:
        legacy, current: statements.
        tiles: what they made so far.
    """

    legacy: list[str] = field(factory=list)
    current: list[str] = field(factory=list)
    tiles: list[Tile] = field(factory=list)

    def result(self, partitions: int, free: int, dtype: str = "float32") -> Tile:
        tile = Tile(f"t{len(self.tiles)}", partitions, free, dtype)
        self.tiles.append(tile)
        return tile

    def add(
        self,
        call: str,
        partitions: int,
        free: int,
        dtype: str = "float32",
        *,
        psum: bool = False,
        typed: bool = True,
    ) -> None:
        """One instruction into a new tile; ``call`` is ``name(arguments)`` without destination."""
        name, _, arguments = call.partition("(")
        kind = f", dtype=nl.{dtype}" if typed else ""
        out = f"t{len(self.tiles)}"
        buffer = "psum" if psum else "sbuf"
        self.legacy.append(f"{out} = nisa.{name}({arguments[:-1]}{kind})")
        self.current.append(
            f"{out} = nl.ndarray(({partitions}, {free}), dtype=nl.{dtype}, buffer=nl.{buffer})"
        )
        self.current.append(f"nisa.{name}(dst={out}, {arguments}")
        self.result(partitions, free, dtype).psum = psum

    @property
    def usable(self) -> list[Tile]:
        """Tiles in SBUF, which every instruction reads."""
        return [tile for tile in self.tiles if not tile.psum]

    def copy_out(self) -> None:
        """Bring the newest tile from PSUM to SBUF."""
        tile = self.tiles[-1]
        self.add(f"tensor_copy(src={tile.name})", tile.partitions, tile.free, tile.dtype)

    def text(self, dialect: str) -> str:
        last = self.tiles[-1]
        lines = ["", "", "@nki.jit", "def kernel(a, b):"]
        for name in ("a", "b"):
            tile = next(t for t in self.tiles if t.name == f"t{'ab'.index(name)}")
            if dialect == "legacy":
                lines.append(f"    {tile.name} = nl.load({name})")
            else:
                lines += [
                    f"    {tile.name} = nl.ndarray(({tile.partitions}, {tile.free}), "
                    f"dtype=nl.{tile.dtype}, buffer=nl.sbuf)",
                    f"    nisa.dma_copy(dst={tile.name}, src={name})",
                ]
        lines += [f"    {s}" for s in (self.legacy if dialect == "legacy" else self.current)]
        lines.append(
            f"    out = nl.ndarray(({last.partitions}, {last.free}), dtype=nl.{last.dtype}, "
            "buffer=nl.shared_hbm)"
        )
        store = f"nl.store(out, {last.name})"
        lines.append(
            f"    {store if dialect == 'legacy' else f'nisa.dma_copy(dst=out, src={last.name})'}"
        )
        return HEADS[dialect] + "\n".join([*lines, "    return out", ""])


@st.composite
def programs(draw: Callable[..., Any]) -> Program:
    """Two inputs and up to eight instructions on what there is."""
    program = Program()
    partitions = draw(st.sampled_from((1, 7, 32, 64, 128)))
    program.result(partitions, draw(st.integers(1, 96)))
    program.result(partitions, program.tiles[0].free)
    for _ in range(draw(st.integers(1, 8))):
        _instruction(draw, program)
    return program


def _instruction(draw: Callable[..., Any], program: Program) -> None:
    tile: Tile = draw(st.sampled_from(program.usable))
    p, f = tile.partitions, tile.free
    dtype = draw(st.sampled_from(DTYPES))
    number = draw(st.sampled_from((-1.5, 0.25, 2.0)))
    kind = draw(st.sampled_from(("function", "two", "scalar", "reduce", "part", "turn", "product")))
    if kind == "function":
        function = draw(st.sampled_from(("exp", "tanh", "square", "relu", "sigmoid")))
        program.add(f"activation(op=nl.{function}, data={tile.name}, scale=0.5)", p, f, dtype)
    elif kind == "two":
        others = [t for t in program.usable if (t.partitions, t.free) == (p, f)]
        other: Tile = draw(st.sampled_from(others))
        op = draw(st.sampled_from(("add", "subtract", "multiply", "maximum")))
        call = f"tensor_tensor(data1={tile.name}, data2={other.name}, op=nl.{op})"
        program.add(call, p, f, dtype)
    elif kind == "scalar":
        vectors = [t.name for t in program.usable if t.partitions == p and t.free == 1]
        operand = draw(st.sampled_from([*vectors, str(number)]))
        reverse = draw(st.booleans())
        program.add(
            f"tensor_scalar(data={tile.name}, op0=nl.multiply, operand0={number}, "
            f"op1=nl.subtract, operand1={operand}, reverse1={reverse})",
            p,
            f,
            dtype,
        )
    elif kind == "reduce":
        op = draw(st.sampled_from(("add", "maximum", "minimum")))
        call = f"tensor_reduce(op=nl.{op}, data={tile.name}, axis=1, keepdims=True)"
        program.add(call, p, 1, dtype)
    elif kind == "part":
        start = draw(st.integers(0, f - 1))
        stop = draw(st.integers(start + 1, f))
        program.add(f"tensor_copy(src={tile.name}[0:{p}, {start}:{stop}])", p, stop - start, dtype)
    elif tile.dtype == "float32" and kind == "turn":
        program.add(f"nc_transpose(data={tile.name})", f, p, psum=True, typed=False)
        program.copy_out()
    elif tile.dtype == "float32":
        others = [t for t in program.usable if t.partitions == p and t.dtype == "float32"]
        moving: Tile = draw(st.sampled_from(others))
        call = f"nc_matmul(stationary={tile.name}, moving={moving.name})"
        program.add(call, f, moving.free, psum=True, typed=False)
        program.copy_out()


def _kernel(text: str, path: Path) -> Any:
    path.write_text(text)
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(text, str(path), "exec"), names)  # noqa: S102 - our own program
    return names["kernel"]


def _session(kernel: Any, path: Path, *, full: bool) -> Session:
    return Session(
        get_target("trn2"), kernel.dialect, Sources(str(path)), full=full, names=OPERATOR_NAMES
    )


def _inputs(program: Program, seed: int) -> list[Any]:
    first = program.tiles[0]
    return [convert_input(normal(first.partitions, first.free, seed=seed + n)) for n in range(2)]


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(program=programs())
def test_both_dialects_compute_the_same(program: Program, tmp_path: Path) -> None:
    found = {}
    for dialect in HEADS:
        path = tmp_path / f"{dialect}.py"
        kernel = _kernel(program.text(dialect), path)
        outcome = running.execute(
            kernel, _inputs(program, 0), {}, _session(kernel, path, full=True)
        )
        issued = [outcome.session.trace.templates[n].issue.op for n, _ in outcome.session.records]
        found[dialect] = (outcome.outputs[0].tobytes(), issued)
    assert found["legacy"] == found["current"], program.text("current")


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(program=programs(), dialect=st.sampled_from(tuple(HEADS)), eager=st.booleans())
def test_replays_compute_what_direct_runs_do(
    program: Program, dialect: str, eager: bool, tmp_path: Path
) -> None:
    """Also where small copies are left out and the order is changed, as with large tiles."""
    path = tmp_path / "program.py"
    kernel = _kernel(program.text(dialect), path)
    traced = _session(kernel, path, full=False)
    traced.recording = []
    outcome = running.execute(kernel, _inputs(program, 0), {}, traced)
    with pytest.MonkeyPatch.context() as patch:
        if eager:
            patch.setattr(elision, "WORTHWHILE", 0)
            patch.setattr(ordering, "MUCH", 0)
        notes = Recording.of(traced.recording, [*traced.inputs, *outcome.tensors])
    for seed in (3, 8):
        given_inputs = _inputs(program, seed)
        direct = running.execute(
            kernel, _inputs(program, seed), {}, _session(kernel, path, full=True)
        )
        replay(
            traced,
            notes,
            [(place, v.values) for place, v in zip(traced.inputs, given_inputs, strict=True)],
        )
        np.testing.assert_array_equal(running.outputs_of(outcome)[0], direct.outputs[0])


def test_released_tiles_are_used_again(tmp_path: Path) -> None:
    """The pool holds as many buffers as lived at once, not one for each tile."""
    text = HEADS["current"] + (
        "\n\n@nki.jit\ndef kernel(a, b):\n"
        "    out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)\n"
        "    for i in range(50):\n"
        "        t = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)\n"
        "        nisa.memset(t, value=1.0)\n"
        "        nisa.dma_copy(dst=out, src=t)\n"
        "    return out\n"
    )
    path = tmp_path / "program.py"
    kernel = _kernel(text, path)
    traced = _session(kernel, path, full=False)
    traced.recording = []
    values = [convert_input(normal(128, 64)), convert_input(normal(128, 64))]
    outcome = running.execute(kernel, values, {}, traced)
    notes = Recording.of(traced.recording, [*traced.inputs, *outcome.tensors])
    replay(traced, notes, [(p, v.values) for p, v in zip(traced.inputs, values, strict=True)])
    pools = {id(m.pool): m.pool for m in notes.memories if m.pool is not None}
    assert len(pools) == 1
    (pool,) = pools.values()
    assert sum(len(free) for free in pool._free.values()) == 1
