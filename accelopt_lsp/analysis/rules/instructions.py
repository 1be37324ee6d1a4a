"""Work that fewer instructions do: chains, transposes, sums and broadcasts."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from attrs import frozen

from accelopt_lsp.analysis.affine import Var
from accelopt_lsp.analysis.coverage import free_loops
from accelopt_lsp.analysis.dependences import Use
from accelopt_lsp.analysis.machine import Record
from accelopt_lsp.analysis.rules.base import Context
from accelopt_lsp.analysis.rules.slow import SlowRule, matters, percent, turning
from accelopt_lsp.analysis.sites import Site
from accelopt_lsp.analysis.values import View
from accelopt_lsp.nki.costs import instruction_cost
from accelopt_lsp.nki.diagnostics import Diagnostic, Fix, Severity
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.lowering import Issue
from accelopt_lsp.nki.operands import Buffer, Engine
from accelopt_lsp.nki.targets import Target

_ARITHMETIC = frozenset({"add", "subtract", "multiply", "maximum", "minimum"})
MANY_TRANSPOSES = 0.1
"""Share of the Tensor Engine's time (Neuron Explorer flags transposes above this share)."""

LEAST_BROADCAST = 0.05


def _spent(record: Record, issue: Issue, target: Target) -> float:
    found = instruction_cost(issue.op, issue.engine, issue.work, target)
    return 0.0 if found is None else record.times * found.busy_ns


@frozen(slots=True, eq=False)
class _Chain:
    """Two calls that one instruction can do.

    Attributes:
        instruction: what does both.
        gone: the instruction that is saved, and the record that issues it.
    """

    instruction: str
    gone: tuple[Record, Issue]


class Chain(SlowRule):
    """## What it does
    Finds two instructions of which one does all, because the first one's result goes into the
    second one only: a scaling into an activation, two operations with numbers, an operation with a
    number into one with a tile, a sum over what an activation computes.

    ## Why
    Each instruction streams its whole tile through an engine. `activation` scales, shifts and adds
    up in passing; `tensor_scalar` takes two operators; `scalar_tensor_tensor` a number and a tile.

    ## Example
    ```python
    nisa.tensor_scalar(dst=scaled, data=x, op0=nl.multiply, operand0=0.125)
    nisa.activation(dst=y, op=nl.exp, data=scaled)
    ```

    ## Use instead
    ```python
    nisa.activation(dst=y, op=nl.exp, data=x, scale=0.125)
    ```
    """

    code = "P07"
    name = "chain"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        if context.facts is None:
            return
        saved: dict[int, float] = {}
        chains: dict[int, tuple[_Chain, Use, Use]] = {}
        for uses in context.facts.uses.values():
            found = _pair(uses)
            chain = None if found is None else _chain(*found)
            if found is None or chain is None:
                continue
            record, issue = chain.gone
            key = id(found[1].record.node)
            saved[key] = saved.get(key, 0.0) + _spent(record, issue, context.machine.target)
            chains.setdefault(key, (chain, *found))
        for key, (chain, writer, reader) in chains.items():
            record, issue = chain.gone
            share = matters(context, issue.engine.value, saved[key])
            name = writer.view.storage.name
            what = (
                f"`{name}` of line {writer.record.line}"
                if name
                else (f"the result of line {writer.record.line}")
            )
            text = (
                f"{what} goes into this alone: one {chain.instruction} does both and saves "
                f"{record.times} {issue.op} on {issue.engine.value}, "
                f"{percent(saved[key] / context.latency_ns)} of the estimated time"
            )
            fix = Fix(
                f"Do both in one {chain.instruction}",
                "fuse-instructions",
                {"line": reader.record.line},
            )
            related = (context.related(writer.record.line, "its other half"),)
            yield from self.report(
                context, reader.record.node, share, text, fix=fix, related=related
            )


def _pair(uses: list[Use]) -> tuple[Use, Use] | None:
    """Who fills a tile and who reads it, if these are two calls in one place."""
    if len(uses) < 2:
        return None
    writer = uses[0]
    if not writer.written or writer.read or writer.product:
        return None
    readers = [use for use in uses[1:] if use.record.loops == writer.record.loops]
    first = next((use for use in readers if not use.written), None)
    if first is None or any(use.written for use in uses[1:]):
        return None
    if Engine.DMA.value in (writer.engine, first.engine) or writer.record.node is first.record.node:
        return None
    if writer.view.shape != first.view.shape or writer.view.offset != first.view.offset:
        return None
    summed = next((u for u in readers if _only(u.record, "tensor_reduce") is not None), None)
    if len(uses) > 2:
        return None if summed is None else (writer, summed)
    return writer, first


def _only(record: Record, op: str) -> Issue | None:
    """The one instruction that a call issues, if it is an ``op``."""
    issues = record.lowered.issues
    return issues[0] if len(issues) == 1 and issues[0].op == op else None


def _chain(writer: Use, reader: Use) -> _Chain | None:
    made, used = writer.record.lowered.issues, reader.record.lowered.issues
    if len(made) != 1 or len(used) != 1:
        return None
    first, second = made[0], used[0]
    attrs = dict(second.attrs)
    if second.op == "tensor_reduce" and attrs.get("op") == "add":
        squares = first.op == "tensor_tensor" and _squares(writer.record, first)
        if first.op == "activation" and dict(first.attrs).get("reduce_op") is None or squares:
            return _Chain("activation with reduce_op", (reader.record, second))
        return None
    if first.op != "tensor_scalar" or not _single(first):
        return None
    if second.op == "tensor_scalar" and _single(second) and _reads(reader, second, "data"):
        return _Chain("tensor_scalar with two operators", (reader.record, second))
    if second.op == "tensor_tensor" and attrs.get("op") in _ARITHMETIC:
        return _Chain("scalar_tensor_tensor", (writer.record, first))
    if second.op == "activation" and _reads(reader, second, "data"):
        roles = {role for role, _ in second.operands}
        operator = dict(first.attrs).get("op0")
        plain = attrs.get("scale") in (None, 1.0) and "scale" not in roles
        free = not attrs.get("bias") and "bias" not in roles
        if (operator == "multiply" and plain) or (operator == "add" and free and plain):
            return _Chain("activation with scale or bias", (writer.record, first))
    return None


def _single(issue: Issue) -> bool:
    """A ``tensor_scalar`` with one arithmetic operator."""
    attrs = dict(issue.attrs)
    return attrs.get("op1") is None and attrs.get("op0") in _ARITHMETIC


def _squares(record: Record, issue: Issue) -> bool:
    slots = dict(issue.operands)
    one, two = (record.views.get(slots.get(role, "")) for role in ("data1", "data2"))
    same = one is not None and two is not None and one.storage is two.storage
    return same and dict(issue.attrs).get("op") == "multiply"


def _reads(use: Use, issue: Issue, role: str) -> bool:
    view = use.record.views.get(dict(issue.operands).get(role, ""))
    return view is not None and view.storage is use.view.storage


class Transposes(SlowRule):
    """## What it does
    Finds transposes that take more than a tenth of the Tensor Engine's time.

    ## Why
    A transpose on the Tensor Engine takes as long as a product and computes nothing. In the legacy
    dialect `nl.matmul` transposes its left operand each time, unless it is told that it is
    transposed already.

    ## Example
    ```python
    for n in range(16):
        acc += nl.matmul(x_tile, w[n])  # transposes x_tile 16 times
    ```

    ## Use instead
    ```python
    x_t = nl.copy(nl.transpose(x_tile))
    for n in range(16):
        acc += nl.matmul(x_t, w[n], transpose_x=True)
    ```
    Where the layout is yours: keep the contraction on partitions in HBM, or exchange stationary and
    moving operand so that the product comes out the way that its next use wants it.
    """

    code = "P09"
    name = "transposes"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        target = context.machine.target
        tensor = Engine.TENSOR.value
        whole = context.workload.issued.engine_ns.get(tensor, 0.0)
        found: list[tuple[Site, float, int]] = []
        for site in context.sites:
            spent = 0.0
            count = 0
            for record in site.records:
                for issue in record.lowered.issues:
                    if issue.engine is Engine.TENSOR and issue.work.is_transpose:
                        spent += _spent(record, issue, target)
                        count += record.times
            if spent:
                found.append((site, spent, count))
        total = sum(spent for _, spent, _ in found)
        if not whole or total < MANY_TRANSPOSES * whole:
            return
        for site, spent, count in found:
            share = matters(context, tensor, spent)
            text = (
                f"{count} transposes take {percent(spent / whole)} of the Tensor Engine's time, "
                f"{percent(spent / context.latency_ns)} of the estimated time"
            )
            fix = None
            plain = any(issue.op == "nc_matmul" for issue, _ in site.issues())
            if plain and context.machine.dialect is Dialect.LEGACY:
                text += "; transpose the left operand once and pass transpose_x=True"
                fix = Fix("Transpose once for all products", "hoist-transpose", {"line": site.line})
            else:
                text += "; load it in the layout that the product wants, or swap its operands"
            yield from self.report(context, site.node, share, text, fix=fix)


class SumOutsidePsum(SlowRule):
    """## What it does
    Finds products of one tile each that the Vector Engine adds to a sum.

    ## Why
    The Tensor Engine adds products up in PSUM at no cost. An addition on the Vector Engine for
    each product reads PSUM and SBUF, and makes the Tensor Engine wait for a free bank.

    ## Example
    ```python
    for k in range(K):
        nisa.nc_matmul(dst=partial, stationary=a[k], moving=b[k])
        nisa.tensor_tensor(dst=total, data1=total, data2=partial, op=nl.add)
    ```

    ## Use instead
    ```python
    for k in range(K):
        nisa.nc_matmul(dst=acc, stationary=a[k], moving=b[k])  # adds up in PSUM
    nisa.tensor_copy(dst=total, src=acc)
    ```
    In the legacy dialect: `acc += nl.matmul(...)` on a PSUM tile in an `affine_range` loop.
    """

    code = "P20"
    name = "sum-outside-psum"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        if context.facts is None:
            return
        target = context.machine.target
        for site in context.sites:
            record = site.record
            issue = next((i for i in record.lowered.issues if i.op == "tensor_tensor"), None)
            if issue is None or dict(issue.attrs).get("op") != "add" or len(site.parts) > 1:
                continue
            views = {role: record.views.get(slot) for role, slot in issue.operands}
            partial = _summed(views, context.facts.uses, record)
            if partial is None:
                continue
            spent = sum(_spent(r, i, target) for r in site.records for i in r.lowered.issues)
            share = matters(context, issue.engine.value, spent)
            loop = turning(record.loops)[-1]
            text = (
                f"adds {site.runs} products one by one on {issue.engine.value}, "
                f"{percent(spent / context.latency_ns)} of the estimated time; let them add up in "
                f"PSUM over the loop over {loop.name}"
            )
            related = (
                context.related(partial.record.line, "each product"),
                context.related(loop.line, f"{loop.trips} products belong to one sum"),
            )
            yield from self.report(context, site.node, share, text, related=related)


def _summed(
    views: Mapping[str, View | None], uses: Mapping[int, list[Use]], record: Record
) -> Use | None:
    """The product that an addition adds to what it writes, if that is a single one."""
    around = turning(record.loops)
    dst, one, two = (views.get(role) for role in ("dst", "data1", "data2"))
    if dst is None or one is None or two is None or not around:
        return None
    added = two if one.storage is dst.storage else one if two.storage is dst.storage else None
    if added is None or added.buffer is not Buffer.PSUM:
        return None
    if around[-1] not in free_loops(dst, record.loops):
        return None
    writers = [use for use in uses.get(added.storage.id, ()) if use.written]
    single = all(use.product and use.record.loops == record.loops for use in writers)
    return writers[0] if writers and single else None


class PartitionBroadcast(SlowRule):
    """## What it does
    Finds broadcasts of a row to all partitions that take a good part of the time.

    ## Why
    Partitions have no common bus: such a broadcast is a product with a column of ones and a copy
    out of PSUM, or a shuffle, for every tile.

    ## Example
    ```python
    for i in range(32):
        y = nl.multiply(x_tile, weights_row)  # [128, N] * [1, N]
    ```

    ## Use instead
    Broadcast once before the loop, load the row to all partitions with a stride of 0, or lay out
    the data so that the broadcast is along the free axis (a `[128, 1]` operand costs nothing).
    """

    code = "P22"
    name = "partition-broadcast"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        target = context.machine.target
        for site in context.sites:
            spent: dict[str, float] = {}
            count = 0
            for record in site.records:
                issues = record.lowered.issues
                for position, issue in enumerate(issues):
                    if issue.op == "nc_matmul" and issue.work.partitions == 1:
                        count += record.times
                        # The copy out of PSUM belongs to it.
                        for part in issues[position : position + 2]:
                            if part.op in ("nc_matmul", "tensor_copy"):
                                engine = part.engine.value
                                spent[engine] = spent.get(engine, 0.0) + _spent(
                                    record, part, target
                                )
            if not count:
                continue
            share = max(matters(context, engine, ns) for engine, ns in spent.items())
            if share < LEAST_BROADCAST:
                continue
            engine, longest = max(spent.items(), key=lambda item: item[1])
            fixed = _unchanged(site.record)
            text = (
                f"{count} products broadcast one row to all partitions: "
                f"{percent(longest / context.latency_ns)} of the estimated time on {engine}"
            )
            fix = None
            if fixed is not None:
                text += f"; the row does not change in the loop over {fixed.name}"
                if isinstance(site.node, ast.Call) and len(site.record.lowered.issues) <= 3:
                    fix = Fix(
                        f"Broadcast before the loop over {fixed.name}",
                        "hoist-invariant",
                        {"line": site.line},
                    )
            # Equal work on equal data is done once by the legacy compiler, where it sees it.
            most = Severity.WARNING if fixed is None else Severity.INFORMATION
            yield from self.report(context, site.node, share, text, fix=fix, most=most)


def _unchanged(record: Record) -> Var | None:
    """The innermost loop, if the broadcast row was made outside it."""
    around = turning(record.loops)
    if not around:
        return None
    rows = [v for v in record.views.values() if v.shape and v.shape[0] == 1]
    for row in rows:
        if around[-1] not in row.storage.loops and around[-1] in free_loops(row, record.loops):
            return around[-1]
    return None
