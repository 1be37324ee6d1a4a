"""What makes a kernel slow: repeated loads, small transfers, idle lanes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import prod

from accelopt_lsp.analysis.affine import Var
from accelopt_lsp.analysis.coverage import free_loops
from accelopt_lsp.analysis.hints import bytes_text
from accelopt_lsp.analysis.machine import Record
from accelopt_lsp.analysis.rules.base import Context, Rule, share_severity
from accelopt_lsp.analysis.workload import issues_of, loaded_view, reload_factor
from accelopt_lsp.nki.diagnostics import Diagnostic, Fix, Related, Severity
from accelopt_lsp.nki.issued import count_issued
from accelopt_lsp.nki.operands import Engine


def _by_call(records: list[Record]) -> list[list[Record]]:
    groups: dict[int, list[Record]] = defaultdict(list)
    for record in records:
        groups[id(record.node)].append(record)
    return list(groups.values())


class RepeatedLoad(Rule):
    """## What it does
    Finds loads that bring the same bytes from HBM more than once, and the loop over which they
    do.

    ## Why
    HBM bandwidth bounds most kernels. A tile that a loop does not change can be loaded before it;
    a tile that an outer loop needs again can be kept in SBUF, or the loops can be blocked so that
    several outputs share one load.

    ## Example
    ```python
    for m in range(32):
        for n in range(8):
            nisa.dma_copy(dst=lhs_tile, src=lhs[m * 128 : (m + 1) * 128, :])
    ```

    ## Use instead
    ```python
    for m in range(32):
        nisa.dma_copy(dst=lhs_tile, src=lhs[m * 128 : (m + 1) * 128, :])
        for n in range(8):
            ...
    ```
    """

    code = "P01"
    name = "repeated-load"
    severity = Severity.INFORMATION

    def check(self, context: Context) -> Iterator[Diagnostic]:
        whole = context.latency_ns
        for records in _by_call(context.machine.records):
            factor = reload_factor(records)
            if factor is None or factor < 1.5:
                continue
            issued = count_issued(issues_of(records), context.machine.target)
            saved = issued.engine_ns.get(Engine.DMA.value, 0.0) * (1 - 1 / factor)
            yield self._report(context, records, factor, saved / whole)

    def _report(
        self, context: Context, records: list[Record], factor: float, share: float
    ) -> Diagnostic:
        record = max(records, key=lambda r: r.times)
        view = loaded_view(record)
        assert view is not None
        name = view.storage.name or "this tensor"
        free = free_loops(view, record.loops)
        turning = [v for v in record.loops if v.trips > 1]
        hoistable = bool(free) and free[-1] is turning[-1]
        text = f"every byte of {name} that is loaded here is loaded {factor:.3g} times"
        fix = None
        related: tuple[Related, ...] = ()
        if free:
            loop = _outermost_of_run(record, free) if hoistable else free[-1]
            times = prod(v.trips for v in free)
            where = "does not change in" if hoistable else "is the same for every iteration of"
            message = f"the tile {where} this loop over {loop.name} ({loop.trips} iterations)"
            related = (context.related(loop.line, message),)
            if hoistable:
                text += f"; it can move out of the loop over {loop.name}"
            elif times > 1:
                text += f"; keep it in SBUF or block the loop over {loop.name}"
            if hoistable or _fits(context, record, loop, free):
                fix = Fix(
                    f"Load {name} before the loop over {loop.name}",
                    "hoist-load",
                    {"line": record.line, "over": loop.name},
                    safe=hoistable,
                )
        return self.diagnostic(
            context, record.node, text, severity=share_severity(share), fix=fix, related=related
        )


def _fits(context: Context, record: Record, loop: Var, free: tuple[Var, ...]) -> bool:
    """Whether SBUF holds all tiles that are loaded in one iteration of a loop.

    Tiles of at most one inner loop: the rewrite keeps them in one list.
    """
    given = record.lowered.types.get("dst") or record.lowered.result
    peak = context.workload.sbuf_peak_bytes
    if given is None or peak is None:
        return False
    inner = [
        v for v in record.loops[record.loops.index(loop) + 1 :] if v not in free and v.trips > 1
    ]
    if len(inner) > 1:
        return False
    kept = given.free_bytes * prod(v.trips for v in inner)
    target = context.machine.target
    usable = target.integer("sbuf_partition_bytes") - target.integer("sbuf_reserved_bytes")
    return kept + peak <= usable


def _outermost_of_run(record: Record, free: tuple[Var, ...]) -> Var:
    """The outermost loop that a load can leave: the run of free loops at the inner end."""
    found = free[-1]
    for var in reversed([v for v in record.loops if v.trips > 1]):
        if var not in free:
            break
        found = var
    return found


class SmallTransfer(Rule):
    """## What it does
    Finds transfers between HBM and SBUF that split into pieces below 512 bytes.

    ## Why
    A DMA moves pieces that lie together on both sides. A piece below 512 bytes costs as much as
    one of 512; full bandwidth takes 2 KiB and more a partition.

    ## Example
    ```python
    nisa.dma_copy(dst=tile, src=x[0:128, j * 64 : (j + 1) * 64])  # bf16: 128 B a row
    ```

    ## Use instead
    Load more columns at once and use slices of the tile, or change the layout in HBM.
    """

    code = "P10"
    name = "small-transfer"
    severity = Severity.INFORMATION

    def check(self, context: Context) -> Iterator[Diagnostic]:
        whole = context.latency_ns
        for records in _by_call(context.machine.records):
            small = [
                issue.work.dma.descriptor_bytes
                for record in records
                for issue in record.lowered.issues
                if issue.work.dma is not None and issue.work.dma.descriptor_bytes < 512
            ]
            if not small:
                continue
            issued = count_issued(issues_of(records), context.machine.target)
            share = issued.engine_ns.get(Engine.DMA.value, 0.0) / whole
            if share < 0.05:
                continue
            pieces = issued.dma_descriptors
            text = (
                f"this transfer splits into {pieces} pieces of {bytes_text(min(small))}; "
                "pieces below 512 B waste DMA time"
            )
            severity = Severity.INFORMATION if share >= 0.1 else Severity.HINT
            yield self.diagnostic(context, records[0].node, text, severity=severity)


class FewPartitions(Rule):
    """## What it does
    Finds instructions that matter for the kernel's time and use at most 64 of 128 partitions.

    ## Why
    An instruction takes the same time on 1 partition as on 128: the other lanes idle.

    ## Example
    ```python
    nisa.activation(dst=out, op=nl.exp, data=tile[0:32, :])  # 4 x as long as needed
    ```

    ## Use instead
    Lay out the data over 128 partitions: two tiles of 64 rows as one tile of 128.
    """

    code = "P06"
    name = "few-partitions"
    severity = Severity.HINT

    def check(self, context: Context) -> Iterator[Diagnostic]:
        whole = context.latency_ns
        for records in _by_call(context.machine.records):
            issues = [
                (issue, times)
                for issue, times in issues_of(records)
                if issue.work.dma is None and issue.work.partitions <= 64
            ]
            if not issues:
                continue
            busy = count_issued(issues, context.machine.target).engine_ns
            share = max(busy.values(), default=0.0) / whole
            if share < 0.05:
                continue
            used = max(issue.work.partitions for issue, _ in issues)
            text = (
                f"uses {used} of 128 partitions for {100 * share:.0f} % of the estimated time; "
                f"{128 // used} times as much fits one instruction"
            )
            severity = Severity.INFORMATION if share >= 0.2 else Severity.HINT
            yield self.diagnostic(context, records[0].node, text, severity=severity)
