"""Replays that leave copies out and change the order compute what the kernel says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accelopt_lsp.nki.targets import get_target
from accelopt_lsp.profiler.simulator import elision, ordering
from accelopt_lsp.profiler.simulator import kernels as running
from accelopt_lsp.profiler.simulator.errors import KernelRejected
from accelopt_lsp.profiler.simulator.launch import convert_input
from accelopt_lsp.profiler.simulator.library import OPERATOR_NAMES
from accelopt_lsp.profiler.simulator.replay import Recording, replay
from accelopt_lsp.profiler.simulator.session import Session
from accelopt_lsp.profiler.simulator.source import Sources
from tests.simulator.helpers import normal

pytestmark = pytest.mark.usefixtures("stand_ins")
HEAD = "import nki\nimport nki.language as nl\nimport nki.isa as nisa\n\n\n@nki.jit\n"


class Replayed:
    """A kernel, traced and prepared for being computed."""

    def __init__(self, body: str, path: Path, x: Any) -> None:
        text = HEAD + "def kernel(x):\n" + "".join(f"    {row}\n" for row in body.splitlines())
        path.write_text(text)
        names: dict[str, Any] = {"__name__": "program"}
        exec(compile(text, str(path), "exec"), names)  # noqa: S102 - our own program
        self.kernel = names["kernel"]
        self.path = path
        self.x = x
        self.session = self._session(full=False)
        self.session.recording = []
        self.outcome = running.execute(self.kernel, [convert_input(x)], {}, self.session)
        self.notes = Recording.of(
            self.session.recording, [*self.session.inputs, *self.outcome.tensors]
        )

    def _session(self, *, full: bool) -> Session:
        return Session(
            get_target("trn2"),
            self.kernel.dialect,
            Sources(str(self.path)),
            full=full,
            names=OPERATOR_NAMES,
        )

    @property
    def spared(self) -> int:
        return len(self.notes.issued) - len(self.notes.operations)

    def output(self) -> Any:
        (place,) = self.session.inputs
        values = convert_input(self.x.copy()).values
        assert values is not None
        replay(self.session, self.notes, [(place, values)])
        return running.outputs_of(self.outcome)[0]

    def direct(self) -> Any:
        session = self._session(full=True)
        return running.execute(self.kernel, [convert_input(self.x.copy())], {}, session).outputs[0]


@st.composite
def spans(draw: st.DrawFn, size: int) -> tuple[str, int]:
    """A slice of an axis, and its length."""
    start = draw(st.integers(0, size - 1))
    stop = draw(st.integers(start + 1, size))
    step = draw(st.integers(1, 3))
    return f"{start}:{stop}:{step}", len(range(start, stop, step))


@st.composite
def reads(draw: st.DrawFn) -> str:
    """A kernel that copies a tensor to a tile and reads parts of the tile."""
    p, a, b = draw(st.sampled_from([(4, 3, 8), (64, 2, 4), (16, 1, 6), (64, 3, 3)]))
    flat = draw(st.booleans())
    turned = draw(st.booleans())
    source = f"x.reshape(({p}, {a}, {b}))"
    if turned:
        source = f"x.reshape(({p}, {b}, {a})).permute((0, 2, 1))"
    rows = [
        f"t = nl.ndarray(({p}, {a}, {b}), dtype=x.dtype, buffer=nl.sbuf)",
        f"nisa.dma_copy(dst=t, src={source})",
        f"out = nl.ndarray((3, {p}, {a * b}), dtype=x.dtype, buffer=nl.shared_hbm)",
    ]
    if flat:
        rows.append(f"t = t.reshape(({p}, {a * b}))")
    for number in range(3):
        start = draw(st.sampled_from(range(0, p, 32)))
        stop = draw(st.integers(start + 1, min(start + 32, p)))
        lanes = (f"{start}:{stop}", stop - start)
        parts = [lanes, *(draw(spans(n)) for n in ((a * b,) if flat else (a, b)))]
        index = ", ".join(text for text, _ in parts)
        shape = tuple(n for _, n in parts)
        free = int(np.prod(shape[1:]))
        rows += [
            f"r{number} = nl.ndarray({shape}, dtype=x.dtype, buffer=nl.sbuf)",
            f"nisa.tensor_scalar(r{number}, t[{index}], op0=nl.multiply, operand0=2.0)",
            f"nisa.dma_copy(dst=out[{number}, 0:{shape[0]}, 0:{free}], "
            f"src=r{number}.reshape(({shape[0]}, {free})))",
            f"z{number} = nl.ndarray(({p}, {a * b}), dtype=x.dtype, buffer=nl.sbuf)",
            f"nisa.memset(z{number}, value=0.0)",
        ]
        if free < a * b:
            rows.append(
                f"nisa.dma_copy(dst=out[{number}, :, {free}:{a * b}], "
                f"src=z{number}[:, {free}:{a * b}])"
            )
        if shape[0] < p:
            rows.append(
                f"nisa.dma_copy(dst=out[{number}, {shape[0]}:{p}, 0:{free}], "
                f"src=z{number}[{shape[0]}:{p}, 0:{free}])"
            )
    rows.append("return out")
    return f"# {p * a * b}\n" + "\n".join(rows)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(body=reads())
def test_what_is_read_where_it_was_copied_from_is_the_same(body: str, tmp_path: Path) -> None:
    x = normal(int(body[2:].partition("\n")[0]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elision, "WORTHWHILE", 0)
        replayed = Replayed(body, tmp_path / "program.py", x)
    np.testing.assert_array_equal(replayed.output(), replayed.direct())


LOADED = """
t = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
nisa.dma_copy(dst=t, src=x)
{between}
r = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
nisa.tensor_scalar(r, t, op0=nl.add, operand0=1.0)
out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
nisa.dma_copy(dst=out, src=r)
return out
"""
KEPT_COPIES = {
    "the tile changes": "nisa.tensor_scalar(t[:, 0:8], t[:, 0:8], op0=nl.add, operand0=1.0)",
    "it is read as bits": "u = t.view(nl.int32)\nnisa.tensor_scalar(t.view(nl.int32), u, "
    "op0=nl.bitwise_and, operand0=-2)",
    "the source changes": "z = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)\n"
    "nisa.memset(z, value=0.0)\nnisa.dma_copy(dst=x, src=z)",
}


def test_a_loaded_tile_is_the_tensor_itself(tmp_path: Path) -> None:
    replayed = Replayed(LOADED.replace("{between}", ""), tmp_path / "program.py", normal(128, 64))
    assert replayed.spared == 1
    np.testing.assert_array_equal(replayed.output(), replayed.x + 1)


@pytest.mark.parametrize("why", KEPT_COPIES)
def test_copies_that_matter_are_made(why: str, tmp_path: Path) -> None:
    body = LOADED.replace("{between}", KEPT_COPIES[why])
    replayed = Replayed(body, tmp_path / "program.py", normal(128, 64))
    assert replayed.spared == 0
    np.testing.assert_array_equal(replayed.output(), replayed.direct())


LOOPS = """
out = nl.ndarray((20, 128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
tiles = []
for i in range(20):
    t = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(t, value=float(i))
    tiles.append(t)
for i in range(20):
    s = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(s, tiles[i], tiles[(i + {neighbour}) % 20], op=nl.add)
    nisa.dma_copy(dst=out[i], src=s)
return out
"""


def test_loops_one_after_the_other_need_no_more_than_one_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordering, "MUCH", 0)
    replayed = Replayed(LOOPS.replace("{neighbour}", "0"), tmp_path / "p.py", normal(128, 64))
    tile = 128 * 64 * 4
    kept = {t.memory for t in (*replayed.session.inputs, *replayed.outcome.tensors)}
    alive = ordering.Lifetimes.of
    assert alive(replayed.notes.issued, kept).peak_bytes() == 21 * tile
    assert alive(replayed.notes.operations, kept).peak_bytes() == 2 * tile
    np.testing.assert_array_equal(replayed.output(), replayed.direct())


def test_of_two_faults_the_first_one_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of them the other order meets first."""
    monkeypatch.setattr(ordering, "MUCH", 0)
    body = LOOPS.replace("{neighbour}", "0").replace(
        "for i in range(20):\n    s =",
        "never = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)\n"
        "first = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)\n"
        "nisa.tensor_tensor(first, never, tiles[19], op=nl.add)\n"
        "for i in range(20):\n    s =",
    )
    body = body.replace("return out", "nisa.dma_copy(dst=out[0], src=first)\nreturn out")
    replayed = Replayed(body, tmp_path / "p.py", normal(128, 64))
    assert replayed.notes.operations is not replayed.notes.issued
    with pytest.raises(KernelRejected, match="never written") as late:
        replayed.output()
    with pytest.raises(KernelRejected) as early:
        replayed.direct()
    assert (late.value.line, str(late.value)) == (early.value.line, str(early.value))


def test_a_wrong_order_rejects_no_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "MUCH", 0)
    replayed = Replayed(LOOPS.replace("{neighbour}", "0"), tmp_path / "p.py", normal(128, 64))
    assert replayed.notes.operations is not replayed.notes.issued
    replayed.notes.operations = replayed.notes.issued[::-1]
    replayed.notes.ends.clear()
    np.testing.assert_array_equal(replayed.output(), replayed.direct())


@given(
    st.lists(
        st.tuples(
            st.sets(st.integers(0, 5), max_size=3),
            st.sets(st.integers(0, 5), min_size=1, max_size=1),
            st.sampled_from((None, "vector")),
            st.sampled_from(("tensor_copy", "tensor_copy", "register_load", "dynamic")),
        ),
        max_size=25,
    )
)
def test_whatever_touches_the_same_keeps_its_order(
    parts: Sequence[tuple[set[int], set[int], str | None, str]],
) -> None:
    tiles = [SimpleNamespace(memory=object()) for _ in range(6)]
    operations: list[Any] = []
    for read, written, engine, kind in parts:
        step = SimpleNamespace(
            issue=SimpleNamespace(op=kind),
            dynamic=kind == "dynamic",
            writes=[("dst", 0)],
            accumulators=None if engine is None else (engine, slice(0, 1)),
        )
        operations.append((step, [tiles[n] for n in (*written, *read)], 1, False, None))
    order = ordering.by_demand(operations)
    assert sorted(order) == list(range(len(parts)))
    place = {at: n for n, at in enumerate(order)}
    for late, (reads_late, writes_late, engine, kind) in enumerate(parts):
        for early in range(late):
            reads_early, writes_early, other, before = parts[early]
            touches = (
                writes_early & (reads_late | writes_late)
                or reads_early & writes_late
                or (engine is not None and engine == other)
                or {kind, before} in ({"register_load"}, {"register_load", "dynamic"})
            )
            if touches:
                assert place[early] < place[late]
