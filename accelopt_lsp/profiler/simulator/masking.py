"""Calls with ``mask=``: operands are cut to the part where the mask holds."""

from __future__ import annotations

from types import FrameType
from typing import TYPE_CHECKING, Any

from accelopt_lsp.nki.lowering import RESULT
from accelopt_lsp.nki.masking import FULL_WIDTH, OWN_AXES, PARTITIONS_ONLY
from accelopt_lsp.nki.operands import OperandType
from accelopt_lsp.profiler.simulator.errors import KernelRejected
from accelopt_lsp.profiler.simulator.indexing import Affine
from accelopt_lsp.profiler.simulator.masks import NEVER, Mask, holds
from accelopt_lsp.profiler.simulator.pending import Pending
from accelopt_lsp.profiler.simulator.run_time import masked
from accelopt_lsp.profiler.simulator.tensors import Tensor

if TYPE_CHECKING:
    from accelopt_lsp.profiler.simulator.plans import Entry, Plan
    from accelopt_lsp.profiler.simulator.session import Session

Cut = tuple[int, int, int]


def masked_call(session: Session, entry: Entry, bound: dict[str, Any], frame: FrameType) -> Any:
    """Run a bound call under its mask, which is taken off ``bound``."""
    mask = bound["mask"]
    if isinstance(mask, bool):
        mask = NEVER
    if not isinstance(mask, Mask):
        raise KernelRejected(
            f"a mask is an affine comparison of indices, got {type(mask).__name__}; compare sums "
            "of nl.arange and loop variables, without % and //",
            "R033",
        )
    bound["mask"] = None
    if mask.holds_throughout():
        return session.invoke(entry, bound, frame)
    split = mask.split()
    if split is None:
        return _nothing(session, entry, bound, frame)
    bounds, rest = split
    site, line = session.locate(frame)
    if entry.name in FULL_WIDTH:
        return _product(session, entry, bound, bounds, frame)
    if entry.name == "nisa.bn_stats":
        _check_statistics(bounds)
    rank = mask.rank
    narrowed = dict(bound)
    for name, value in bound.items():
        if isinstance(value, Tensor):
            if value.memory is None:
                session.flush()
            narrowed[name] = _narrow(value, rank, bounds, entry.name, name)
            if narrowed[name].fault is not None and rest:
                narrowed[name] = masked(narrowed[name], _shifted(rest, bounds, rank))
        elif isinstance(value, Affine):
            narrowed[name] = _shifted((value,), bounds, rank)[0]
        elif isinstance(value, Mask):
            narrowed[name] = Mask(_shifted(value.terms, bounds, rank))
    plan = session.plan(entry, narrowed)
    result = plan.lowered.result
    if result is None:
        where = None
        if rest and session.valued:
            target = narrowed.get("dst") or narrowed.get(RESULT)
            if isinstance(target, Tensor):
                where = holds(_shifted(rest, bounds, rank), target.shape)
        session.run(plan, narrowed, None, site, line, where=where)
        return None
    shape = _whole(session, entry, bound).shape
    tensor = session._unplaced(shape, result.dtype, result.buffer)
    if entry.name in OWN_AXES:
        bounds = {axis: bound for axis, bound in bounds.items() if axis == 0}
    cut = tuple(_cuts(rank, bounds, shape))
    session.pending = Pending(
        plan, narrowed, tensor, frame, site, line, cut, _shifted(rest, bounds, rank)
    )
    return tensor


def _shifted(terms: tuple[Affine, ...], bounds: dict[int, Cut], rank: int) -> tuple[Affine, ...]:
    """Terms over several axes, counted from where the other terms begin."""
    moved = []
    for term in terms:
        shape, offset = list(term.shape), term.offset
        lead = rank - term.ndim
        for axis, (_, low, high) in bounds.items():
            at = axis - lead
            if at >= 0 and shape[at] > 1:
                offset += low * term.strides[at]
                shape[at] = high - low
        moved.append(Affine(tuple(shape), term.strides, offset))
    return tuple(moved)


def _cuts(rank: int, bounds: dict[int, Cut], shape: tuple[int, ...]) -> list[Cut]:
    """Bounds of the mask's axes as bounds of a tensor's, aligned at the last axis."""
    found = []
    for axis, (size, low, high) in bounds.items():
        at = 0 if axis == 0 else len(shape) - (rank - axis)
        if at < 0 or shape[at] == 1 or (low, high) == (0, size):
            continue
        if shape[at] != size:
            raise KernelRejected(
                f"the mask covers {size} positions of an axis of size {shape[at]}", "R033"
            )
        found.append((at, low, high))
    return found


def _narrow(value: Tensor, rank: int, bounds: dict[int, Cut], api: str, name: str) -> Tensor:
    if name in PARTITIONS_ONLY:
        bounds = {a: b for a, b in bounds.items() if a == 0}
    for axis, low, high in _cuts(rank, bounds, value.shape):
        value = value.narrow(axis, low, high)
    return value


def _whole_plan(session: Session, entry: Entry, bound: dict[str, Any]) -> Plan:
    """The call without its mask, whose indices may then leave their tensors."""
    plain = dict(bound)
    for name, value in bound.items():
        if isinstance(value, Tensor) and value.fault is not None:
            plain[name] = whole = value.derived(value.shape, value.strides, value.offset)
            whole.fault = None
    return session.plan(entry, plain)


def _whole(session: Session, entry: Entry, bound: dict[str, Any]) -> OperandType:
    """The result without the mask."""
    result = _whole_plan(session, entry, bound).lowered.result
    assert result is not None
    return result


def _check_statistics(bounds: dict[int, Cut]) -> None:
    """A mask leaves statistics whole: it may cut partitions only.

    Raises:
        KernelRejected: it cuts the axis that bn_stats reduces.
    """
    for axis, (size, low, high) in bounds.items():
        if axis and high - low != size:
            raise KernelRejected(
                f"bn_stats: the mask leaves {high - low} of {size} elements of axis {axis}, along "
                "which it reduces; give it a slice of the tile instead",
                "R044",
            )


def _nothing(session: Session, entry: Entry, bound: dict[str, Any], frame: FrameType) -> Any:
    """A call whose mask holds nowhere issues nothing; its result stays unwritten."""
    plan = _whole_plan(session, entry, bound)
    result = plan.lowered.result
    if result is None:
        return None
    site, line = session.locate(frame)
    tensor = session._unplaced(result.shape, result.dtype, result.buffer)
    session.pending = Pending(plan, bound, tensor, frame, site, line, empty=True)
    return tensor


def _product(
    session: Session,
    entry: Entry,
    bound: dict[str, Any],
    bounds: dict[int, Cut],
    frame: FrameType,
) -> Any:
    """A masked product: issued at full width, with only the valid part of the result kept."""
    for value in bound.values():
        if isinstance(value, Tensor) and value.memory is not None:
            value.memory.masked = value.memory.quiet = True
    plan = session.plan(entry, bound)
    result = plan.lowered.result
    site, line = session.locate(frame)
    if result is None:
        session.run(plan, bound, None, site, line)
        return None
    tensor = session._unplaced(result.shape, result.dtype, result.buffer)
    session.pending = Pending(plan, bound, tensor, frame, site, line)
    return tensor
