"""What a kernel would take if a load brought every byte once: estimated, one load at a time."""

from __future__ import annotations

from collections.abc import Iterator

from accelopt_lsp.analysis.machine import Machine
from accelopt_lsp.analysis.roofline import QUEUES, overhead_ns, trigger_ns
from accelopt_lsp.analysis.sites import Site, issues_of
from accelopt_lsp.analysis.workload import Facts, loaded_view, reload_factor, reload_loops
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.nki.work import Route
from accelopt_lsp.nki.workload import RepeatedLoad

LEAST_FACTOR = 1.5
"""Loads that bring their bytes less often are left alone."""


def repeated_loads(facts: Facts, machine: Machine, profile: Profile) -> tuple[RepeatedLoad, ...]:
    """Loads that repeat, those that hold the kernel up most first.

    Empty where the estimate has no latency: what is not counted cannot be compared.
    """
    if profile.latency_ms is None:
        return ()
    found = [load for site in facts.sites for load in _repeated(site, facts, machine)]
    return tuple(sorted(found, key=lambda load: (load.after_ns, load.line)))


def _repeated(site: Site, facts: Facts, machine: Machine) -> Iterator[RepeatedLoad]:
    factor = reload_factor(site.records) if site.issued.hbm_read_bytes else None
    if factor is None or factor < LEAST_FACTOR:
        return
    record = max((r for r in site.records if loaded_view(r) is not None), key=lambda r: r.times)
    view = loaded_view(record)
    slot = next(
        (dict(i.operands).get("dst", "") for i in record.lowered.issues if i.work.dma is not None),
        "",
    )
    tile = record.views.get(slot)
    limits = dict(facts.workload.ceilings_ns)
    before = max(limits.values(), default=0.0)
    spared = 1 - 1 / factor
    limits["dma"] = limits.get("dma", 0.0) - spared * site.issued.engine_ns.get("dma", 0.0)
    for issue, count in issues_of(site.records):
        if issue.work.dma is not None:
            queue = QUEUES.get(issue.work.dma.route, QUEUES[Route.LOAD])
            busy = count * trigger_ns(issue, machine.target, machine.dialect)
            limits[queue] = limits.get(queue, 0.0) - spared * busy
    overhead = overhead_ns(facts.workload, machine.target)
    yield RepeatedLoad(
        line=site.line,
        tensor=view.storage.name if view is not None else "",
        tile=tile.storage.name if tile is not None else "",
        factor=factor,
        loops=reload_loops(site.records),
        before_ns=before + overhead,
        after_ns=max(limits.values()) + overhead,
    )
