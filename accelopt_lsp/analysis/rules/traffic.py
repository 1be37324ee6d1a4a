"""What wastes DMA time: repeated loads, small pieces, and transfers that need none."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from accelopt_lsp.analysis.affine import Var
from accelopt_lsp.analysis.coverage import free_loops
from accelopt_lsp.analysis.machine import Record
from accelopt_lsp.analysis.rules.base import Context
from accelopt_lsp.analysis.rules.slow import (
    SlowRule,
    issues_by_call,
    percent,
    transfer_matters,
    turning,
)
from accelopt_lsp.analysis.sites import Site
from accelopt_lsp.analysis.workload import loaded_view, reload_factor
from accelopt_lsp.nki.costs import dma_transpose_ns
from accelopt_lsp.nki.diagnostics import Diagnostic, Fix, Related, Severity
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.figures import size_text, time_text
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.work import Route

SMALL_PIECE = 512
"""Bytes below which a descriptor costs as much as one of this size."""
LEAST_FACTOR = 1.5


class RepeatedLoad(SlowRule):
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

    def check(self, context: Context) -> Iterator[Diagnostic]:
        for site in context.sites:
            if not site.issued.hbm_read_bytes:
                continue
            factor = reload_factor(site.records)
            if factor is not None and factor >= LEAST_FACTOR:
                yield from self._report(context, site, factor)

    def _report(self, context: Context, site: Site, factor: float) -> Iterator[Diagnostic]:
        record = max((r for r in site.records if loaded_view(r) is not None), key=lambda r: r.times)
        view = loaded_view(record)
        assert view is not None
        name = view.storage.name or "this tensor"
        free = free_loops(view, record.loops)
        around = turning(record.loops)
        hoistable = bool(free) and free[-1] is around[-1]
        read = site.issued.hbm_read_bytes
        text = (
            f"every byte of {name} that is loaded here is loaded {factor:.3g} times: "
            f"{size_text(read)} instead of {size_text(read / factor)}"
        )
        fix = None
        related: tuple[Related, ...] = ()
        if free:
            loop = _outermost_of_run(record, free) if hoistable else free[-1]
            where = "does not change in" if hoistable else "is the same for every iteration of"
            message = f"the tile {where} this loop over {loop.name} ({loop.trips} iterations)"
            related = (context.related(loop.line, message),)
            fits = hoistable or _fits(context, record, loop, free)
            if hoistable:
                text += f"; it can move out of the loop over {loop.name}"
            elif fits:
                text += f"; its tiles fit into SBUF: load them before the loop over {loop.name}"
            else:
                text += f"; block the loop over {loop.name} so that several outputs share a load"
            if fits:
                fix = Fix(
                    f"Load {name} before the loop over {loop.name}",
                    "hoist-load",
                    {"line": record.line, "over": loop.name},
                    safe=hoistable,
                )
            else:
                fix = _blocking(context, record)
        share = transfer_matters(context, site, 1 - 1 / factor)
        merged = hoistable and context.machine.dialect is Dialect.LEGACY
        if merged:
            text += " (the compiler may do so by itself)"
        most = Severity.INFORMATION if merged else Severity.WARNING
        yield from self.report(context, site.node, share, text, fix=fix, related=related, most=most)


def _blocking(context: Context, record: Record) -> Fix | None:
    """Block the product that the loaded tile goes into."""
    for slot in ("dst", "%result"):
        view = record.views.get(slot)
        if view is None or context.facts is None:
            continue
        for use in context.facts.uses.get(view.storage.id, ()):
            if use.read and any(i.op == "nc_matmul" for i in use.record.lowered.issues):
                line = use.record.line
                return Fix("Block the matrix product", "block-matmul", {"line": line})
    return None


def _fits(context: Context, record: Record, loop: Var, free: tuple[Var, ...]) -> bool:
    """Whether SBUF holds all tiles that are loaded in one iteration of a loop.

    Tiles of at most one inner loop: the rewrite keeps them in one list.
    """
    given = record.lowered.types.get("dst") or record.lowered.result
    peak = context.workload.sbuf_peak_bytes
    if given is None or peak is None:
        return False
    inner = [v for v in turning(record.loops[record.loops.index(loop) + 1 :]) if v not in free]
    if len(inner) > 1:
        return False
    kept = given.free_bytes * prod(v.trips for v in inner)
    target = context.machine.target
    usable = target.integer("sbuf_partition_bytes") - target.integer("sbuf_reserved_bytes")
    return kept + peak <= usable


def _outermost_of_run(record: Record, free: tuple[Var, ...]) -> Var:
    """The outermost loop that a load can leave: the run of free loops at the inner end."""
    found = free[-1]
    for var in reversed(turning(record.loops)):
        if var not in free:
            break
        found = var
    return found


class SmallTransfer(SlowRule):
    """## What it does
    Finds transfers between HBM and SBUF that split into pieces below 512 bytes, and transfers so
    small that setting them up takes longer than moving their bytes.

    ## Why
    A DMA moves pieces that lie together on both sides. A piece below 512 bytes costs as much as
    one of 512; full bandwidth takes 2 KiB and more a partition, on all 128 partitions. Where
    descriptors are made at run time, each transfer occupies its queue for a fixed time.

    ## Example
    ```python
    nisa.dma_copy(dst=tile, src=x[0:128, j * 64 : (j + 1) * 64])  # bf16: 128 B a row
    ```

    ## Use instead
    Load more columns at once and use slices of the tile, or change the layout in HBM.
    """

    code = "P10"
    name = "small-transfer"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        for site in context.sites:
            dma = [i for _, i in issues_by_call(site) if i.work.dma is not None]
            sizes = site.traffic.descriptors
            if not dma or any(i.work.dma.transpose for i in dma if i.work.dma is not None):
                continue
            smallest = min(sizes)
            if smallest < SMALL_PIECE:
                pieces = sum(sizes.values())
                share = transfer_matters(context, site, 1 - smallest / SMALL_PIECE)
                text = (
                    f"this transfer splits into {pieces} pieces of {size_text(smallest)}; "
                    f"pieces below {SMALL_PIECE} B take as long as pieces of {SMALL_PIECE} B"
                )
            else:
                moved = sum(site.traffic.routes.values())
                spent = site.busy_ns("dma")
                share = transfer_matters(context, site, 1.0)
                each = moved / max(site.runs, 1)
                queue = _queue_ns(context, site)
                if site.runs < 8 or queue < 1.5 * spent:
                    continue
                share *= 1 - spent / queue
                text = (
                    f"{site.runs} transfers of {size_text(each)} each occupy their queue for "
                    f"{queue / site.runs:.0f} ns, and move their bytes in "
                    f"{spent / site.runs:.0f} ns: fewer and larger ones are faster"
                )
            fix = _wider(site)
            yield from self.report(context, site.node, share, text, fix=fix)


def _wider(site: Site) -> Fix | None:
    """Widen the tile of the innermost loop."""
    around = turning(site.record.loops)
    if not around:
        return None
    return Fix("Enlarge the tiles of this loop", "widen-tile", {"line": around[-1].line})


def _queue_ns(context: Context, site: Site) -> float:
    from accelopt_lsp.analysis.roofline import trigger_ns

    machine = context.machine
    return sum(
        times * trigger_ns(issue, machine.target, machine.dialect)
        for issue, times in site.issues()
        if issue.work.dma is not None
    )


class TransposingTransfer(SlowRule):
    """## What it does
    Finds DMA transposes that take a good part of the time.

    ## Why
    On Trainium 1 a DMA that transposes moves single elements; later generations transpose 2- and
    4-byte elements in blocks, other sizes one by one. The Tensor Engine transposes a tile of
    128 x 128 in a fraction of the time.

    ## Example
    ```python
    tile = nl.load_transpose2d(x[0:128, 0:512])
    ```

    ## Use instead
    ```python
    tile = nl.load(x[0:128, 0:128])
    transposed = nisa.nc_transpose(tile)
    ```
    """

    code = "P11"
    name = "dma-transpose"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        target = context.machine.target
        for site in context.sites:
            slow = [
                i.work
                for _, i in issues_by_call(site)
                if i.work.dma is not None
                and i.work.dma.transpose
                and dma_transpose_ns(i.work, target) is None
            ]
            if not slow:
                continue
            share = transfer_matters(context, site, 1.0)
            pieces = site.issued.dma_descriptors
            text = (
                f"this transfer transposes and so moves {pieces} single elements, "
                f"{percent(share)} of the estimated time; load plainly and transpose on the Tensor "
                "Engine (nc_transpose)"
            )
            yield from self.report(context, site.node, share, text)


class ReadyDescriptors(SlowRule):
    """## What it does
    Finds transfers that turn off the making of descriptors (`dge_mode=none`) or that have GpSimd
    make them (`swdge`) without an index that is known at run time only.

    ## Why
    Descriptors that lie ready take HBM capacity and bandwidth of their own; GpSimd computes them
    in software. From Trainium 2 on hardware makes them.

    ## Example
    ```python
    nisa.dma_copy(dst=tile, src=x[0:128, :], dge_mode=nisa.dge_mode.none)
    ```

    ## Use instead
    Leave `dge_mode` out, or ask for `nisa.dge_mode.hwdge`; `swdge` for gathers only.
    """

    code = "P19"
    name = "ready-descriptors"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        machine = context.machine
        if machine.dialect is Dialect.LEGACY or machine.target.generation < 3:
            return
        for site in context.sites:
            modes = {i.attr("dge_mode") for _, i in issues_by_call(site) if i.work.dma is not None}
            gathers = any(v.dynamic is not None for r in site.records for v in r.views.values())
            asked = "none" if "none" in modes else "swdge" if "swdge" in modes else None
            if asked is None or (asked == "swdge" and gathers):
                continue
            share = transfer_matters(context, site, 1.0)
            why = (
                "its descriptors lie ready in HBM and are fetched from there"
                if asked == "none"
                else "GpSimd makes its descriptors in software"
            )
            text = (
                f"dge_mode {asked}: {why}, {site.issued.dma_descriptors} in all; "
                "hwdge has hardware make them"
            )
            yield from self.report(context, site.node, share, text, most=Severity.INFORMATION)


class CopyByDma(SlowRule):
    """## What it does
    Finds transfers from SBUF to SBUF between the same partitions.

    ## Why
    A DMA takes about 2 us to the use of its data and competes with loads. An engine copies a tile
    in a fraction of that.

    ## Example
    ```python
    nisa.dma_copy(dst=copy, src=tile)  # both in SBUF
    ```

    ## Use instead
    ```python
    nisa.tensor_copy(dst=copy, src=tile)
    ```
    """

    code = "P21"
    name = "copy-by-dma"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        for site in context.sites:
            if not site.traffic.routes.get(Route.SBUF_COPY) or not _same_partitions(site):
                continue
            target = context.machine.target
            waits = site.runs * target["dma_completion_ns"]
            share = max(
                transfer_matters(context, site, 1.0),
                min(waits / context.latency_ns, 0.2),
            )
            moved = site.traffic.routes[Route.SBUF_COPY]
            text = (
                f"a DMA copies {size_text(moved)} within the same partitions of SBUF, "
                f"{time_text(target['dma_completion_ns'])} each time until the data is there; "
                "use tensor_copy"
            )
            yield from self.report(context, site.node, share, text)


def _same_partitions(site: Site) -> bool:
    for record in site.records:
        for issue in record.lowered.issues:
            if issue.op != "dma_copy":
                return False
            ends = [slot for role, slot in issue.operands if role in ("dst", "src")]
            places = [record.lowered.types[slot] for slot in ends]
            if len({(p.start_partition, p.partitions) for p in places}) > 1:
                return False
            if any(p.dynamic is not None or p.buffer is not Buffer.SBUF for p in places):
                return False
    return True
