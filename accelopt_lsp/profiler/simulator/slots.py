"""Tensors behind the slots of a lowered call: temporaries, constants and views of operands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accelopt_lsp.nki.lowering import RESULT
from accelopt_lsp.nki.operands import Buffer, OperandType
from accelopt_lsp.profiler.simulator.layouts import reshape
from accelopt_lsp.profiler.simulator.plans import Plan
from accelopt_lsp.profiler.simulator.source import Site
from accelopt_lsp.profiler.simulator.tensors import Tensor

if TYPE_CHECKING:
    from accelopt_lsp.profiler.simulator.session import Session


def resolve(
    session: Session,
    plan: Plan,
    bound: dict[str, Any],
    result: Tensor | None,
    site: Site,
    line: int,
) -> dict[str, Any]:
    """Tensor of every slot that the plan's instructions name."""
    found: dict[str, Any] = dict(bound)
    if result is not None:
        found[RESULT] = result
    for step in plan.steps:
        for slot in step.slots:
            if slot not in found:
                found[slot] = _make(session, plan, slot, found, site, line)
    return found


def _make(
    session: Session, plan: Plan, slot: str, known: dict[str, Any], site: Site, line: int
) -> Tensor:
    wanted = plan.lowered.types[slot]
    if slot.endswith(".index"):
        base = slot.removesuffix(".index")
        if base not in known:
            known[base] = _make(session, plan, base, known, site, line)
        tile = known[base].dynamic.tile
        assert isinstance(tile, Tensor)
        return tile
    name, _, number = slot.rpartition(".")
    if number.isdigit():
        listed: Tensor = known[name][int(number)]
        return listed
    base, _, view = slot.partition("@")
    if view:
        if base not in known:
            known[base] = _make(session, plan, base, known, site, line)
        return _view(known[base], view, wanted)
    constant = plan.lowered.constants.get(slot)
    if constant is not None:
        return _constant(session, wanted, constant, line)
    return session.allocate(
        wanted.shape,
        wanted.dtype,
        wanted.buffer,
        name=f"{site.target or 'temporary'}{slot}",
        line=line,
        site=session.storage_site(site, slot),
    )


def _constant(session: Session, wanted: OperandType, value: float, line: int) -> Tensor:
    """One tile for all calls that need the same constant."""
    key = (wanted.shape, wanted.dtype, wanted.buffer, value)
    found = session._constants.get(key)
    if found is None:
        if session.abridging is not None:
            session.abridging.once()
        found = session._constants[key] = session.allocate(
            wanted.shape,
            wanted.dtype,
            wanted.buffer,
            name="constant",
            line=line,
            site=-1 - len(session._constants),
        )
        found.settle().fill(value)
    return found


def _view(base: Tensor, view: str, wanted: OperandType) -> Tensor:
    if view == "broadcast":
        strides = wanted.layout
        if base.buffer is not Buffer.HBM:
            strides = (base.strides[0], *strides[1:])
        return base.derived(wanted.shape, strides, base.offset)
    kind, start, stop = view.split(":")
    if kind != "columns":
        raise ValueError(f"unknown view {view!r}")
    flat = base if base.ndim == 2 else reshape(base, (base.shape[0], base.typed().free))
    return flat.narrow(1, int(start), int(stop))
