"""Iterations of ``nl.affine_range`` that depend on each other (legacy dialect).

In the current dialect it is an unrolled ``range``. Associative accumulation is legal: ``t += x``,
products that add up in PSUM, ``nl.loop_reduce``; so nothing is said of an update that only
combines a tile with something else, unless its intermediate values are used.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from attrs import frozen

from accelopt_lsp.analysis.affine import Affine, Linear, Var, subtract
from accelopt_lsp.analysis.machine import Record
from accelopt_lsp.analysis.rules.base import Context, TableRule
from accelopt_lsp.analysis.values import Storage, View
from accelopt_lsp.nki.diagnostics import Diagnostic, Fix, Severity
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.operands import Buffer

_COMBINING = frozenset(
    "add multiply maximum minimum max min bitwise_and bitwise_or bitwise_xor logical_and "
    "logical_or logical_xor".split()
)


@frozen(slots=True, eq=False)
class Use:
    """One read or write of a tensor in a loop's body, in the order of the text."""

    order: int
    record: Record
    view: View
    written: bool
    slot: str


def _parallel(context: Context, var: Var) -> bool:
    kind = context.machine.loop_kinds.get((var.line, var.name))
    return kind == "affine_range" and var.trips > 1


def _uses(context: Context) -> dict[tuple[Var, int], list[Use]]:
    """Uses of tensors by parallel loop and tensor."""
    found: dict[tuple[Var, int], list[Use]] = defaultdict(list)
    for order, record in enumerate(context.machine.records):
        loops = [v for v in record.loops if _parallel(context, v)]
        if not loops or record.origin is not None:
            continue
        for issue in record.lowered.issues:
            pairs = [(s, False) for s in issue.reads if s not in issue.writes]
            pairs += [(s, True) for s in issue.writes]
            for slot, written in pairs:
                view = record.views.get(slot.partition("@")[0])
                if view is None:
                    continue
                for var in loops:
                    if _born_outside(view.storage, var):
                        use = Use(order, record, view, written, slot)
                        found[var, view.storage.id].append(use)
    return found


def _born_outside(storage: Storage, var: Var) -> bool:
    return all((v.line, v.name) != (var.line, var.name) for v in storage.loops)


def _coefficient(value: Linear, var: Var) -> int:
    if isinstance(value, Affine):
        return next((c for v, c in value.terms if v is var), 0)
    return 0


def _depends(view: View, var: Var) -> bool:
    """Whether iterations of a loop see different places."""
    return any(_coefficient(part, var) for part in (view.offset, *view.block))


def _inner(use: Use, var: Var) -> tuple[Var, ...]:
    """Loops inside ``var`` on which the place of a use depends."""
    inside = use.record.loops[use.record.loops.index(var) + 1 :]
    return tuple(v for v in inside if _depends(use.view, v))


def _same(first: View, second: View) -> bool:
    """Whether two views are the same place of a tensor, whatever the iteration."""
    return (
        first.shape == second.shape
        and first.strides == second.strides
        and first.offset == second.offset
        and first.block == second.block
    )


def _combines(record: Record, storage: Storage) -> bool:
    """Whether a call only combines a tensor with something else: ``t = t + x``."""
    if record.accumulates:
        return True
    reads = any(
        (view := record.views.get(slot.partition("@")[0])) is not None and view.storage is storage
        for issue in record.lowered.issues
        for slot in issue.reads
    )
    if not reads:
        return False
    operators = {
        str(value)
        for issue in record.lowered.issues
        for name, value in issue.attrs
        if name in ("op", "op0", "op1")
    }
    return bool(operators & _COMBINING)


class CarriedInAffineRange(TableRule):
    code = "R055"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        if context.kernel.dialect is not Dialect.LEGACY:
            return
        told: set[tuple[int, str, int]] = set()
        for (var, _), uses in _uses(context).items():
            storage = uses[0].view.storage
            key = (var.line, var.name, storage.id)
            if not storage.buffer.on_chip or key in told or any(u.view.dynamic for u in uses):
                continue
            found = _carried(uses, var)
            if found is None:
                continue
            told.add(key)
            reader, writer, severity = found
            name = storage.name or "this tile"
            text = (
                f"{name} is read here as the iteration before left it (written on line "
                f"{writer.record.line}), but iterations of nl.affine_range over {var.name} may run "
                "in any order; take nl.sequential_range"
            )
            fix = Fix(
                f"Take nl.sequential_range for the loop over {var.name}",
                "replace-name",
                {"line": var.line, "old": "affine_range", "new": "sequential_range"},
                safe=True,
            )
            node = reader.record.nodes.get(reader.slot, reader.record.node)
            related = (context.related(var.line, f"{var.trips} iterations that may run together"),)
            yield self.diagnostic(context, node, text, severity=severity, fix=fix, related=related)


def _carried(uses: list[Use], var: Var) -> tuple[Use, Use, Severity | None] | None:
    """A read of what another iteration wrote, and that write."""
    storage = uses[0].view.storage
    writes = [u for u in uses if u.written]
    fixed = [u for u in uses if not _depends(u.view, var)]
    for use in fixed:
        if use.written or _combines(use.record, storage) and use.record.accumulates:
            continue
        sources = [w for w in writes if _same(w.view, use.view) and not _inner(w, var)]
        if not sources or _inner(use, var):
            continue
        earlier = [w for w in sources if w.order < use.order]
        updates = [w for w in sources if w.record is use.record]
        if any(not _combines(w.record, storage) for w in earlier):
            # This iteration wrote it before it is read.
            continue
        if updates and _combines(use.record, storage):
            # An associative sum: only a use of what it holds in between needs an order.
            continue
        if earlier:
            return use, earlier[-1], None
        later = [w for w in sources if w.order >= use.order]
        if later and not updates and not all(_combines(w.record, storage) for w in later):
            return use, later[0], None
        if updates:
            return use, updates[0], None
    return _shifted(uses, writes, var)


def _shifted(
    uses: list[Use], writes: list[Use], var: Var
) -> tuple[Use, Use, Severity | None] | None:
    """``a[i]`` computed from ``a[i - 1]``: loops that writers pipeline by hand look alike."""
    for use in uses:
        step = _coefficient(use.view.offset, var)
        if use.written or not step or use.view.block or _inner(use, var):
            continue
        for write in writes:
            if write.view.shape != use.view.shape or write.view.strides != use.view.strides:
                continue
            distance = subtract(write.view.offset, use.view.offset)
            if isinstance(distance, int) and distance and distance % step == 0:
                if 0 < abs(distance // step) < var.trips:
                    return use, write, Severity.HINT
    return None


class SameOutputPlace(TableRule):
    code = "R032"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        if context.kernel.dialect is not Dialect.LEGACY:
            return
        for (var, _), uses in _uses(context).items():
            for use in uses:
                view = use.view
                if not use.written or view.buffer is not Buffer.HBM or view.dynamic is not None:
                    continue
                if _depends(view, var) or var.trips < 2:
                    continue
                name = view.storage.name or "this tensor"
                text = (
                    f"all {var.trips} iterations of nl.affine_range over {var.name} write the same "
                    f"place of {name}; index it by {var.name}, or take nl.sequential_range"
                )
                node = use.record.nodes.get(use.slot, use.record.node)
                yield self.diagnostic(context, node, text)
