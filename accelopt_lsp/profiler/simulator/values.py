"""Values of a run: operands are read, instructions computed, results rounded and written."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.profiler.simulator import dynamic
from accelopt_lsp.profiler.simulator.elements import POISON_BITS, ROUNDERS, Array
from accelopt_lsp.profiler.simulator.errors import WRITE_FIRST, KernelRejected
from accelopt_lsp.profiler.simulator.memory import FRESH, FULL, PARTIAL
from accelopt_lsp.profiler.simulator.numerics.base import (
    GENERATORS,
    INDICES,
    OUT,
    PARTS,
    REGISTERS,
    REMARKS,
    WHERE,
)
from accelopt_lsp.profiler.simulator.numerics.random import seeded
from accelopt_lsp.profiler.simulator.plans import Step
from accelopt_lsp.profiler.simulator.tensors import Tensor

if TYPE_CHECKING:
    from accelopt_lsp.profiler.simulator.memory import Memory
    from accelopt_lsp.profiler.simulator.session import Session


def compute(
    session: Session,
    step: Step,
    tensors: Sequence[Tensor],
    line: int,
    accumulates: bool,
    where: Array | None,
) -> None:
    """Run one instruction.

    Args:
        tensors: operands in the order of the step's slots.
        line: for messages.
        accumulates: add to what the destination holds.
        where: positions that a mask leaves to be written.
    """
    # An instruction that was refused half-way may have left something behind.
    if _UNFILLED:
        _UNFILLED.clear()
    if _MOVED:
        _MOVED.clear()
    if REMARKS:
        REMARKS.clear()
    if step.dynamic:
        _compute_dynamic(session, step, tensors, line, accumulates, where)
        return
    inputs = {role: read(session, tensors[at], line, step) for role, at in step.reads}
    if step.accumulators is not None:
        _load_accumulators(session, step, inputs, line)
    if step.direct >= 0 and where is None and not (_UNFILLED or _MOVED):
        out = _offered(tensors[step.direct], accumulates)
        if out is not None:
            inputs[OUT] = out
            values = step.numeric(inputs, step.attrs)
            if REMARKS:
                _note_remarks(session, line)
            if accumulates or values["dst"] is not out:
                write(tensors[step.direct], values["dst"], step.exact, None, accumulates)
            return
    values = step.numeric(inputs, step.attrs)
    if step.accumulators is not None:
        _keep_accumulators(session, step, values)
    if REMARKS:
        _note_remarks(session, line)
    if step.partial:
        _write_parts(step, tensors, values, where)
        return
    if _UNFILLED:
        _write_filled(step, tensors, values, where, line)
        return
    if _MOVED and not accumulates:
        _write_moved(step, tensors, inputs, values, where, line)
        return
    for role, at in step.writes:
        write(tensors[at], values[role], step.exact, where, accumulates)


def _offered(tensor: Tensor, accumulates: bool) -> Array | None:
    """Where an instruction may compute its result: in its destination, if that holds float32.

    A result that is added to its destination gets an array that is used again and again, and
    stays in the processor's cache.
    """
    if accumulates:
        return _scratch(tensor.shape)
    memory = tensor.memory
    assert memory is not None
    memory.before_write(prod(tensor.shape))
    return None if memory.special else memory.view(tensor)


@lru_cache(maxsize=16)
def _scratch(shape: tuple[int, ...]) -> Array:
    return np.empty(shape, dtype=np.float32)


def _write_parts(
    step: Step, tensors: Sequence[Tensor], values: dict[str, Any], where: Array | None
) -> None:
    """Write results of which parts leave their destination as it is."""
    for role, at in step.writes:
        memory = tensors[at].memory
        if role == "dst_scale" and memory is not None:
            # Between the scales of two quadrants nothing ever stands; kernels move whole tiles.
            memory.masked = memory.quiet = True
        write(tensors[at], values[role], step.exact, _part(values, role, tensors[at], where), False)


_UNFILLED: list[Array] = []
"""Which of the running instruction's operands was never written: ``[P]`` or ``[P, elements]``."""


_MOVED: list[tuple[Tensor, Array]] = []
"""Operands of the running instruction, which moves them, with where they hold nothing."""


def _computes_on_nothing(step: Step, memory: Memory, values: Array, tensor: Tensor) -> bool:
    """Whether what was never written only makes results that are nothing either.

    Engines work on all partitions of a tile at no further cost, so that kernels let them compute
    on partitions, and on their parts, that hold nothing yet. An instruction that combines
    elements of a partition may do so with whole partitions only.
    """
    unwritten = memory.poisoned(values, tensor)
    if unwritten is None:
        return False
    rows = unwritten.reshape(unwritten.shape[0], -1)
    lanes = np.logical_and.reduce(rows, axis=1)
    if np.array_equal(rows.any(axis=1), lanes):
        _UNFILLED.append(lanes)
        return True
    if step.by_element:
        _UNFILLED.append(rows)
    return step.by_element


def _write_filled(
    step: Step, tensors: Sequence[Tensor], values: dict[str, Any], where: Array | None, line: int
) -> None:
    """Write results of an instruction that had parts of an operand only to work on."""
    for role, at in step.writes:
        tensor = tensors[at]
        nothing = np.zeros((tensor.shape[0], prod(tensor.shape[1:])), dtype=bool)
        for unwritten in _UNFILLED:
            if unwritten.ndim == 2 and unwritten.shape != nothing.shape:
                raise KernelRejected(
                    f"{step.issue.op} reads parts of a tile that were never written{WRITE_FIRST}",
                    "R099",
                    line,
                )
            nothing |= unwritten if unwritten.ndim == 2 else unwritten[:, None]
        _write_beside(tensor, values[role], step.exact, where, nothing.reshape(tensor.shape))


def _write_moved(
    step: Step,
    tensors: Sequence[Tensor],
    inputs: dict[str, Array],
    values: dict[str, Any],
    where: Array | None,
    line: int,
) -> None:
    """Write what an instruction moved; what held nothing makes its destination hold nothing."""
    found = {id(tensor): nothing for tensor, nothing in _MOVED}
    marks = dict(inputs)
    for role, at in step.reads:
        if role in INDICES:
            continue
        nothing = found.get(id(tensors[at]))
        marks[role] = np.zeros_like(inputs[role])
        if nothing is not None:
            marks[role][nothing] = 1
    moved = step.numeric(marks, step.attrs)
    source = _MOVED[0][0].memory
    assert source is not None
    origin = source.origin or f"{source.name or 'a tile'}, created on line {source.line}"
    for role, at in step.writes:
        tensor = tensors[at]
        nothing = np.not_equal(moved[role], 0).reshape(tensor.shape)
        _write_beside(tensor, values[role], step.exact, where, nothing)
        memory = tensor.memory
        assert memory is not None
        memory.origin = f"{origin}; {step.issue.op} on line {line}"
        if memory.buffer is Buffer.HBM:
            memory.left.append((tensor, nothing, line))


def _write_beside(
    tensor: Tensor, values: Array, exact: bool, where: Array | None, nothing: Array
) -> None:
    """Write a result except where it is nothing; there, its destination holds nothing now."""
    counts = ~nothing if where is None else ~nothing & where
    write(tensor, values, exact, counts, False)
    assert tensor.memory is not None
    tensor.memory.forget(tensor, nothing if where is None else nothing & where)


def _part(values: dict[str, Any], role: str, tensor: Tensor, where: Array | None) -> Array | None:
    """Positions that an instruction writes, of those that a mask leaves."""
    part: Array | None = values.get(WHERE, {}).get(role)
    if part is None or part.all():
        return where
    part = part.reshape(tensor.shape)
    return part if where is None else part & where


def _note_remarks(session: Session, line: int) -> None:
    for remark in REMARKS:
        session.notes.setdefault(f"line {line}: {remark}")
    REMARKS.clear()


def _compute_dynamic(
    session: Session,
    step: Step,
    tensors: Sequence[Tensor],
    line: int,
    accumulates: bool,
    where: Array | None,
) -> None:
    """Run an instruction with operands whose addresses are known only now."""
    places = {
        at: dynamic.place(tensors[at], step, line)
        for _, at in (*step.reads, *step.writes)
        if tensors[at].dynamic is not None
    }
    inputs = {}
    for role, at in step.reads:
        found = places.get(at)
        if found is None:
            inputs[role] = read(session, tensors[at], line, step)
            continue
        inputs[role] = dynamic.read(tensors[at], found)
        _check_written(step, tensors[at], inputs[role], line, found)
    if step.accumulators is not None:
        _load_accumulators(session, step, inputs, line)
    values = step.numeric(inputs, step.attrs)
    if step.accumulators is not None:
        _keep_accumulators(session, step, values)
    if REMARKS:
        _note_remarks(session, line)
    for role, at in step.writes:
        tensor = tensors[at]
        skipped = dynamic.counted(list(places.values()), tensor.shape, step.attrs.get("axes"))
        counts = where
        if skipped is not None:
            counts = skipped if where is None else skipped & where
        if step.partial:
            counts = _part(values, role, tensor, counts)
        target = places.get(at)
        moved = tensor if target is None else target[0]
        if isinstance(moved, Tensor):
            write(moved, values[role], step.exact, counts, accumulates)
            continue
        assert target is not None
        if "before" in inputs:
            dynamic.add(tensor, target, inputs["src"].reshape(tensor.shape), counts)
            continue
        memory = tensor.memory
        assert memory is not None
        result = values[role]
        if result.shape != tensor.shape and result.size > 1:
            result = result.reshape(tensor.shape)
        if accumulates:
            held = dynamic.read(tensor, target)
            unwritten = None
            if memory.state != FULL:
                unwritten = dynamic.unwritten(tensor, target, held)
            result = result + (held if unwritten is None else np.where(unwritten, 0, held))
        rounded = result if step.exact else ROUNDERS[tensor.element.name](result)
        dynamic.write(tensor, target, rounded, counts)


def _check_written(
    step: Step, tensor: Tensor, values: Array, line: int, where: dynamic.Place
) -> None:
    """Complain about gathered elements that were never written.

    Raises:
        KernelRejected: there are some, and no mask left them out.
    """
    memory = tensor.memory
    assert memory is not None
    if memory.state == FULL or memory.masked:
        return
    counts = where[1]
    unwritten = dynamic.unwritten(tensor, where, values)
    if unwritten is not None and counts is not None:
        unwritten = unwritten & counts
    if memory.state == FRESH or (unwritten is not None and unwritten.any()):
        raise KernelRejected(
            f"{step.issue.op} reads parts of {memory.name or 'a tile'} (created on line "
            f"{memory.line}) that were never written{WRITE_FIRST}",
            "R099",
            line,
        )


def _load_accumulators(session: Session, step: Step, inputs: dict[str, Array], line: int) -> None:
    """Hand an instruction its lanes of the engine's accumulators, which live on between calls.

    Raises:
        KernelRejected: it builds on accumulators that nothing filled.
    """
    assert step.accumulators is not None
    engine, lanes = step.accumulators
    bank = session.accumulators.get(engine)
    if step.issue.op in GENERATORS:
        if bank is None:
            bank = session.accumulators[engine] = seeded(0, str(step.issue.engine))
        inputs[REGISTERS] = bank[lanes]
        return
    if bank is not None and not np.isnan(bank[lanes]).all():
        inputs[REGISTERS] = bank[lanes]
        return
    command = step.attrs.get("reduce_cmd")
    reads = command == "reduce" or (
        command == "idle" and any(role == "reduce_res" for role, _ in step.writes)
    )
    if reads:
        raise KernelRejected(
            f"{step.issue.op}: reduce_cmd {command} reads accumulators of the {engine} engine that "
            "no instruction filled; begin with reduce_cmd.reset_reduce",
            "R099",
            line,
        )


def _keep_accumulators(session: Session, step: Step, values: dict[str, Array]) -> None:
    assert step.accumulators is not None
    engine, lanes = step.accumulators
    kept = values.pop(REGISTERS, None)
    if kept is None:
        return
    bank = session.accumulators.get(engine)
    if bank is None:
        bank = session.accumulators[engine] = np.full((128, 1), np.nan, dtype=np.float32)
    bank[lanes] = kept


def read(session: Session, tensor: Tensor, line: int, step: Step) -> Array:
    """Values of an operand.

    Raises:
        KernelRejected: they were never written.
    """
    memory = tensor.memory
    assert memory is not None
    if memory.state == FRESH and memory.masked:
        memory.allocate()
        memory.state = PARTIAL
    if memory.state == FRESH:
        raise KernelRejected(
            f"{step.issue.op} reads {memory.name or 'a tile'} (created on line "
            f"{memory.line}), which was never written{WRITE_FIRST}",
            "R099",
            line,
        )
    values = memory.view(tensor)
    if memory.state != FULL and memory.reads_unwritten(values, tensor):
        message = (
            f"{step.issue.op} reads parts of {memory.name or 'a tile'} (created on line "
            f"{memory.line}) that were never written"
        )
        part = PARTS.get(step.issue.op)
        if part is not None:
            unwritten = memory.poisoned(values, tensor)
            if unwritten is None or not part(unwritten, step.attrs).any():
                return values
        if (
            step.by_lane
            and not memory.masked
            and _computes_on_nothing(step, memory, values, tensor)
        ):
            session.notes.setdefault(f"line {line}: {message}")
            return values
        if memory.origin:
            message += f" ({memory.origin})"
        if not memory.masked:
            if not step.moves and not step.carries:
                raise KernelRejected(message + WRITE_FIRST, "R099", line)
            nothing = memory.poisoned(values, tensor) if step.carries else None
            if nothing is not None:
                _MOVED.append((tensor, nothing))
        if not memory.quiet:
            session.notes.setdefault(f"line {line}: {message}")
        if values.dtype == np.float32 and not step.moves:
            # What is computed from what a mask left out is a value, if not a number: poison that
            # spread would make tiles that were written look as if they were not.
            poisoned = np.equal(values.view(np.uint32), POISON_BITS)
            values = np.where(poisoned, np.float32(np.nan), values)
    return values


def write(
    tensor: Tensor,
    values: Array,
    exact: bool,
    where: Array | None,
    accumulates: bool,
) -> None:
    """Round values into the memory of a tensor."""
    memory = tensor.memory
    assert memory is not None
    shape = tensor.shape
    covered = prod(shape) if where is None else 0
    if accumulates and memory.array is None:
        # The first product of a group overwrites; poison below counts as nothing yet.
        if covered >= memory.rows * memory.row and not memory.initial:
            accumulates = False
        elif memory.state == FRESH:
            memory.allocate()
            memory.state = PARTIAL
    memory.before_write(covered)
    view = memory.view(tensor)
    if values.shape != shape and values.size > 1:
        values = values.reshape(shape)
    if accumulates:
        if memory.state != FULL:
            unwritten = memory.poisoned(view, tensor)
            if unwritten is not None and unwritten.any():
                if memory.raw:
                    view = view.copy()
                view[unwritten] = 0
        if where is None and memory.element.nbytes == 4 and not memory.special:
            view += values
            return
        values = view + values
    if not exact:
        values = ROUNDERS[tensor.element.name](values)
    if memory.special:
        memory.store(tensor, values, where)
    elif where is None:
        view[...] = values
    else:
        np.copyto(view, np.broadcast_to(values, shape), where=where, casting="unsafe")
