"""``tile[...] = value``, ``tile += value`` and where the result of a call goes."""

from __future__ import annotations

from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.profiler.simulator.blocks import BlockTensor
from accelopt_lsp.profiler.simulator.errors import KernelRejected
from accelopt_lsp.profiler.simulator.library import entry_of
from accelopt_lsp.profiler.simulator.loop_reductions import reduce_into
from accelopt_lsp.profiler.simulator.pending import Pending
from accelopt_lsp.profiler.simulator.run_time import masked
from accelopt_lsp.profiler.simulator.tensors import Tensor
from accelopt_lsp.profiler.simulator.views import select

if TYPE_CHECKING:
    from accelopt_lsp.profiler.simulator.session import Session


def assign(session: Session, tensor: Tensor, key: Any, value: Any, frame: FrameType) -> None:
    """``tensor[key] = value``: in place for the result of a call, else a copy.

    Raises:
        KernelRejected: the destination is in HBM, or shapes differ.
    """
    tensor_is_pending = tensor.memory is None
    if tensor_is_pending:
        session.flush()
    target = select(tensor, key)
    pending = session.pending
    if pending is not None:
        if value is pending.result and pending.frame is frame:
            # The call that is held back is the right side of the statement being run.
            same = session.locate(frame)[0].statement == pending.site.statement
            if same and _write_through(session, pending, target):
                return
        session.flush()
    if isinstance(value, Tensor):
        if value.augmented and value.same_place(target):
            return
        _copy_into(session, target, value, frame)
    elif isinstance(value, BlockTensor):
        raise KernelRejected("index the block dimensions of the value first", "R014")
    elif isinstance(value, int | float | np.generic):
        _fill(session, target, value, frame)
    else:
        raise KernelRejected(f"cannot assign {type(value).__name__} to a tile")


def _write_through(session: Session, pending: Pending, target: Tensor) -> bool:
    """Let the held-back call write to ``target`` itself, where the hardware can do that."""
    if target.buffer is Buffer.HBM:
        raise KernelRejected("a tensor in HBM is written by nl.store or a DMA", "R034")
    result = pending.result
    if not pending.empty:
        plan = pending.plan
        writable = plan.writable.get(target.buffer)
        if writable is None:
            writable = plan.can_write(target.buffer)
        if not writable or (plan.late and _still_read(pending, target)):
            return False
        if target.fault is not None:
            _check_fault(target, pending)
    if not pending.empty and result.shape != target.shape:
        kind = target.typed()
        same = (kind.partitions, kind.free) == (result.shape[0], _free(result))
        if not same or pending.cut:
            return False
    session.pending = None
    if pending.reduces is not None:
        reduce_into(session, pending, target)
    elif not pending.empty:
        if pending.cut or pending.where:
            plan = pending.plan.into(_cut(target, pending).typed())
            session._run_pending(pending, plan, target)
        else:
            kind = target.operand or target.typed()
            plan = plan.retargeted.get(id(kind)) or plan.into(kind)
            session.run(plan, pending.bound, target, pending.site, pending.line)
    result.memory = target.memory
    result.shape, result.strides = target.shape, target.strides
    result.offset, result.element, result.buffer = target.offset, target.element, target.buffer
    result.operand = result._region = None
    return True


def _still_read(pending: Pending, target: Tensor) -> bool:
    """Whether a call of several instructions reads ``target`` after writing parts of it."""
    for name in pending.plan.late:
        operand = pending.bound.get(name)
        if isinstance(operand, Tensor) and operand.memory is target.memory:
            return True
    return False


def check_operator(name: str, left: Any, right: Any) -> None:
    """Legacy operators broadcast along free axes only.

    Raises:
        KernelRejected: one side has one partition, the other several.
    """
    if not (isinstance(left, Tensor) and isinstance(right, Tensor)) or left.ndim != right.ndim:
        return
    first, second = left.shape[0], right.shape[0]
    if first != second and 1 in (first, second):
        raise KernelRejected(
            f"operators do not broadcast partitions ({first} and {second}); call {name} or "
            "broadcast_to",
            "R045",
        )


def _free(tensor: Tensor) -> int:
    count = 1
    for size in tensor.shape[1:]:
        count *= size
    return count


def _check_fault(target: Tensor, pending: Pending) -> None:
    """A destination whose index leaves its tensor needs the call's mask to cut it short."""
    if not pending.cut and not pending.where:
        raise KernelRejected(target.fault.describe(), "R028")


def _cut(target: Tensor, pending: Pending) -> Tensor:
    for axis, low, high in pending.cut:
        if axis < target.ndim and target.shape[axis] > 1:
            target = target.narrow(axis, low, high)
    return masked(target, pending.where) if target.fault is not None and pending.where else target


def _copy_into(session: Session, target: Tensor, value: Tensor, frame: FrameType) -> None:
    """``tile[...] = other``: one tensor_copy; a size-1 free axis of ``other`` is repeated."""
    if target.buffer is Buffer.HBM or value.buffer is Buffer.HBM:
        raise KernelRejected(
            "tensors in HBM are read and written by nl.load, nl.store or a DMA", "R034"
        )
    if value.shape != target.shape:
        value = _broadcast_free(value, target)
    entry = entry_of("nl.copy", session.dialect)
    plan = session.plan(entry, entry.bind((value,), {}))
    site, line = session.locate(frame)
    bound = entry.bind((value,), {})
    session.run(plan.into(target.operand or target.typed()), bound, target, site, line)


def _broadcast_free(value: Tensor, target: Tensor) -> Tensor:
    if value.ndim != target.ndim or value.shape[0] != target.shape[0]:
        return value
    strides = list(value.strides)
    for axis in range(1, value.ndim):
        if value.shape[axis] == 1 and target.shape[axis] > 1:
            strides[axis] = 0
        elif value.shape[axis] != target.shape[axis]:
            return value
    return value.derived(target.shape, tuple(strides), value.offset)


def _fill(session: Session, target: Tensor, value: Any, frame: FrameType) -> None:
    number = value.item() if isinstance(value, np.generic) else value
    site, line = session.locate(frame)
    fill(session, target, number, site, line)


def fill(session: Session, target: Tensor, value: Any, site: Any, line: int) -> None:
    """One memset of a tile."""
    entry = entry_of("nisa.memset", session.dialect)
    if session.dialect is Dialect.LEGACY:
        bound = entry.bind((target.shape, value, target.dtype), {})
        plan = session.plan(entry, bound)
        session.run(plan.into(target.operand or target.typed()), bound, target, site, line)
        return
    bound = entry.bind((target, value), {})
    plan = session.plan(entry, bound)
    session.run(plan, bound, None, site, line)


def augment(session: Session, name: str, tensor: Tensor, other: Any, frame: FrameType) -> Tensor:
    """``tensor += other``: products add up in PSUM, everything else is one more operation."""
    if tensor.memory is None:
        session.flush()
    if tensor.fault is not None and session.pending is None:
        raise KernelRejected(tensor.fault.describe(), "R028")
    if tensor.shared:
        tensor = tensor.again()
    pending = session.pending
    if (
        pending is not None
        and other is pending.result
        and name == "nl.add"
        and tensor.buffer is Buffer.PSUM
        and pending.plan.ends_in_matmul()
    ):
        session.pending = None
        tensor.augmented = True
        if pending.empty:
            return tensor
        kind = tensor.operand
        if pending.cut or pending.where or kind is None:
            kind = _cut(tensor, pending).typed()
        session._run_pending(pending, pending.plan.into(kind), tensor, accumulates=True)
        return tensor
    if pending is not None:
        session.flush()
    entry = entry_of(name, session.dialect)
    bound = entry.bind((tensor, other), {})
    plan = session.plan(entry, bound)
    if plan.lowered.result is None:
        raise KernelRejected(f"{name} in place needs a tile or a number")
    site, line = session.locate(frame)
    session.run(plan.into(tensor.operand or tensor.typed()), bound, tensor, site, line)
    tensor.augmented = True
    return tensor
