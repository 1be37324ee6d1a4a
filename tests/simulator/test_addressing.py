"""Addresses that are known at run time only, masks, and views that do not exist."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accelopt_lsp.nki.costs import instruction_cost
from accelopt_lsp.nki.dtypes import FLOAT32
from accelopt_lsp.nki.operands import Buffer, row_major_strides
from accelopt_lsp.nki.targets import get_target
from accelopt_lsp.profiler.simulator import kernels as running
from accelopt_lsp.profiler.simulator.errors import IndexOutside, KernelRejected
from accelopt_lsp.profiler.simulator.kernels import Outcome
from accelopt_lsp.profiler.simulator.launch import convert_input
from accelopt_lsp.profiler.simulator.library import OPERATOR_NAMES
from accelopt_lsp.profiler.simulator.memory import FULL, Memory
from accelopt_lsp.profiler.simulator.replay import Recording, replay
from accelopt_lsp.profiler.simulator.session import Session
from accelopt_lsp.profiler.simulator.source import Sources
from accelopt_lsp.profiler.simulator.tensors import Tensor
from tests.simulator.address_cases import CASES, CURRENT, LEGACY, ONE, ROWS, X
from tests.simulator.helpers import Runner
from tests.simulator.rejected_addresses import REJECTED


def written(template: str, shape: Any, body: str) -> str:
    text = indent(dedent(body), "    ")
    return template.replace("{shape}", str(list(shape))).replace("{body}", text)


def given_values(outcome: Outcome) -> np.ndarray[Any, Any]:
    return outcome.outputs[0].reshape(outcome.tensors[0].shape)


@pytest.mark.parametrize("name", CASES)
def test_addresses(name: str, run_text: Runner) -> None:
    template, body, x, index, expected = CASES[name]
    text = written(template, expected.shape, body)
    outcome = run_text(text, x, index, target="trn2")
    np.testing.assert_array_equal(given_values(outcome), expected)


@pytest.mark.parametrize("name", REJECTED)
def test_rejected(name: str, run_text: Runner) -> None:
    template, body, index, code, words = REJECTED[name]
    with pytest.raises(KernelRejected, match=words) as caught:
        run_text(written(template, (8, 6), body), X, index, target="trn2")
    assert caught.value.code == code


def test_the_first_element_outside_is_known(run_text: Runner) -> None:
    body = """
    i_p = nl.arange(4)[:, None]
    i_f = nl.arange(6)[None, :]
    nl.store(out, nl.load(x[idx[i_p, 0], i_f]))
    """
    with pytest.raises(IndexOutside) as caught:
        run_text(written(LEGACY, (4, 6), body), X, ROWS + 3)
    assert (caught.value.position, caught.value.size) == (60, 48)


def numbered(shape: tuple[int, ...], buffer: Buffer) -> Tensor:
    """A tensor whose elements are numbered."""
    rows, row = shape[0], int(np.prod(shape[1:]))
    memory = Memory(0, buffer, FLOAT32, rows, row, "t", 1)
    memory.array = np.arange(rows * row, dtype=np.float32)
    memory.state = FULL
    return Tensor(memory, shape, row_major_strides(shape), 0, FLOAT32, buffer)


REARRANGED = [
    ((2, 12), ("b", ("h", "w")), ("b", "w", "h"), {"h": 3}, (2, 4, 3)),
    ((2, 12), ("b", ("h", "w")), ("b", "h", "w"), {"w": 3}, (2, 4, 3)),
    ((2, 3, 4), ("p", "a", "b"), ("p", ("a", "b")), {}, (2, 12)),
    ((2, 3, 4, 5), ("p", "a", "b", "c"), ("p", "c", ("a", "b")), None, (2, 5, 12)),
    ((2, 24), ("p", ("a", "b", "c")), ("p", "c", "a", "b"), {"a": 2, "b": 3}, (2, 4, 2, 3)),
]


@pytest.mark.parametrize(("shape", "before", "after", "sizes", "wanted"), REARRANGED)
def test_rearranged(shape: Any, before: Any, after: Any, sizes: Any, wanted: Any) -> None:
    view = numbered(shape, Buffer.SBUF).rearrange(before, after, sizes)
    plain = np.arange(np.prod(shape)).reshape(shape)
    names: dict[str, int] = dict(sizes or {})
    split: list[int] = []
    for group, size in zip(before, shape, strict=True):
        group = group if isinstance(group, tuple) else (group,)
        known = int(np.prod([names[n] for n in group if n in names]))
        for name in group:
            names.setdefault(name, size // known)
            split.append(names[name])
    order = [n for g in before for n in (g if isinstance(g, tuple) else (g,))]
    flat = [n for g in after for n in (g if isinstance(g, tuple) else (g,))]
    plain = plain.reshape(split).transpose([order.index(n) for n in flat]).reshape(wanted)
    assert view.shape == wanted
    np.testing.assert_array_equal(view.array(), plain)


PARTITIONS = [
    lambda t: t.permute((1, 0)),
    lambda t: t.expand_dim(0),
    lambda t: t.reshape((3, 8)),
    lambda t: t.flatten_dims(0, 1),
    lambda t: t.reshape_dim(0, (2, 2)),
    lambda t: t.slice(0, 0, 4, 2),
    lambda t: t[0:1].squeeze_dim(0),
    lambda t: t[0:1].broadcast(0, 4),
    lambda t: t[:, 0:5].reshape((4, 6)),
    lambda t: t.slice(1, 4, 2),
    lambda t: t.select(1, 6),
    lambda t: t.reshape((4, 5)),
    lambda t: t.ap([[1, 4], [1, 6]]),
    lambda t: t.view("int8")[:, 1:8].view("float32"),
    lambda t: t[:, 0:6:2].view("int16"),
]


@pytest.mark.parametrize("number", range(len(PARTITIONS)))
def test_views_that_do_not_exist(number: int) -> None:
    with pytest.raises(KernelRejected):
        PARTITIONS[number](numbered((4, 6), Buffer.SBUF))


OUTSIDE = [
    (lambda t: t.ap([[6, 4], [1, 6]], offset=1), "elements 1 to 24 leave an allocation of 24"),
    (lambda t: t.ap([[6, 3], [2, 4]]), "elements 0 to 6 of a partition leave its 6"),
    (lambda t: t.ap([[6, 2], [1, 4]], offset=9), "elements 3 to 6 of a partition leave its 6"),
    (lambda t: t.ap([[6, 4], [1, 7]])[:, 3:], "elements 3 to 24 leave"),
    (lambda t: t.ap([[6, 4], [1, 8]]).reshape((4, 2, 4)), "elements 0 to 25 leave"),
    (lambda t: t.ap([[6, 4], [1, 7]]).view("int32"), "elements 0 to 24 leave"),
]


@pytest.mark.parametrize("number", range(len(OUTSIDE)))
def test_a_pattern_outside_is_refused_when_it_is_used(number: int) -> None:
    make, message = OUTSIDE[number]
    view = make(numbered((4, 6), Buffer.SBUF))
    with pytest.raises(KernelRejected, match=message) as caught:
        view.typed()
    assert caught.value.code == "R028"


def test_a_part_of_a_pattern_that_is_inside_may_be_used() -> None:
    part = numbered((4, 6), Buffer.SBUF).ap([[6, 4], [1, 7]])[:, 0:6]
    part.typed()
    assert np.array_equal(part.array(), np.arange(24).reshape(4, 6))


def test_a_pattern_outside_that_nothing_uses(run_text: Runner) -> None:
    body = """
    tile = nl.ndarray((4, 6), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[0:4, :])
    for first in range(0, 8, 2):
        pair = tile.ap([[6, 4], [1, 2]], offset=first)
        if first < 6:
            nisa.dma_copy(dst=out[:, first:first + 2], src=pair)
    """
    outcome = run_text(written(CURRENT, (4, 6), body), X, ROWS)
    assert np.array_equal(outcome.outputs[0], X[:4])


MASKS = ["{a} * i_p + {b} * i_f < {c}", "i_p + {a} <= i_f", "i_f > {b}", "i_p < {a}"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.data())
def test_random_masks_leave_out_what_they_should(run_text: Runner, data: Any) -> None:
    terms = [
        data.draw(st.sampled_from(MASKS)).format(
            a=data.draw(st.integers(0, 3)),
            b=data.draw(st.integers(0, 3)),
            c=data.draw(st.integers(-1, 30)),
        )
        for _ in range(data.draw(st.integers(1, 3)))
    ]
    shift_p, shift_f = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))
    mask = " & ".join(f"({t})" for t in [*terms, f"i_p + {shift_p} < 8", f"i_f + {shift_f} < 6"])
    body = f"""
    i_p = nl.arange(8)[:, None]
    i_f = nl.arange(6)[None, :]
    tile = nl.full((8, 6), -1, dtype=x.dtype)
    tile[i_p, i_f] = nl.load(x[i_p + {shift_p}, i_f + {shift_f}], mask={mask})
    tile[i_p, i_f] = nl.multiply(tile[i_p, i_f], 2, mask={mask})
    nl.store(out, nl.full((8, 6), -1, dtype=x.dtype))
    nl.store(out[i_p + {shift_p}, i_f + {shift_f}], tile[i_p, i_f], mask={mask})
    """
    i_p, i_f = np.ogrid[0:8, 0:6]
    holds = eval(mask, {}, {"i_p": i_p, "i_f": i_f})  # noqa: S307 - one of the terms above
    expected = np.full((8, 6), -1.0)
    for p, f in np.argwhere(np.broadcast_to(holds, (8, 6))):
        expected[p + shift_p, f + shift_f] = 2 * X[p + shift_p, f + shift_f]
    outcome = run_text(written(LEGACY, (8, 6), body), X, ONE)
    np.testing.assert_array_equal(given_values(outcome), expected)


@pytest.mark.usefixtures("replays")
@pytest.mark.parametrize("name", CASES)
def test_places_are_found_again_when_a_trace_is_computed(
    name: str, stand_ins: None, tmp_path: Path
) -> None:
    template, body, x, index, expected = CASES[name]
    text = written(template, expected.shape, body)
    path = tmp_path / "case.py"
    path.write_text(text)
    names: dict[str, Any] = {"__name__": "case"}
    exec(compile(text, str(path), "exec"), names)  # noqa: S102 - one of the texts above
    kernel = names["kernel"]
    session = Session(
        get_target("trn2"), kernel.dialect, Sources(str(path)), full=False, names=OPERATOR_NAMES
    )
    session.recording = []
    values = [convert_input(v) for v in (x, index)]
    outcome = running.execute(kernel, values, {}, session)
    notes = Recording.of(session.recording, [*session.inputs, *outcome.tensors])
    for factor in (1, 2):
        # A seed leaves nothing behind that the next one could see.
        pairs = [(session.inputs[0], x * factor), (session.inputs[1], index)]
        replay(session, notes, pairs)
    values = [convert_input(v) for v in (x * 2, index)]
    direct = Session(
        get_target("trn2"), kernel.dialect, Sources(str(path)), full=True, names=OPERATOR_NAMES
    )
    np.testing.assert_array_equal(
        running.outputs_of(outcome)[0], running.execute(kernel, values, {}, direct).outputs[0]
    )


def _issues(outcome: Outcome, op: str) -> list[Any]:
    trace = outcome.session.trace
    issues = [trace.templates[number].issue for number, _ in trace.records]
    return [issue for issue in issues if issue.op == op]


def _traced(name: str, run_text: Runner) -> Outcome:
    template, body, x, index, expected = CASES[name]
    text = written(template, expected.shape, body)
    return run_text(text, x, index, target="trn2", full=False)


def test_an_offset_read_by_the_instruction_costs_600_cycles(run_text: Runner) -> None:
    (copy,) = _issues(_traced("a column of a tile by a number in SBUF", run_text), "tensor_copy")
    target = get_target("trn2")
    cost = instruction_cost("tensor_copy", copy.engine, copy.work, target)
    still = instruction_cost("tensor_copy", copy.engine, evolve(copy.work, dynamic=False), target)
    assert cost is not None and still is not None
    clock = target["vector_clock"]
    assert cost.busy_ns - still.busy_ns == pytest.approx((600 - 64) / clock)
    assert ("src_index", "src.index") in copy.operands


@pytest.mark.parametrize("name", ["gather with ap", "gather with vector_select", "legacy rows"])
def test_a_gather_takes_a_descriptor_a_row(name: str, run_text: Runner) -> None:
    gather = next(i for i in _issues(_traced(name, run_text), "dma_copy") if len(i.operands) > 2)
    assert (gather.work.dma.descriptors, gather.work.dma.descriptor_bytes) == (4, 24)


def test_a_mask_that_never_holds_issues_nothing(run_text: Runner) -> None:
    outcome = _traced("a mask that never holds", run_text)
    assert not _issues(outcome, "tensor_scalar")
    # The index, x, and the store whose mask is left out.
    assert len(_issues(outcome, "dma_copy")) == 3
