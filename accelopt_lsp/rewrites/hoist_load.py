"""Move a load out of loops that it does not depend on.

Before::

    for m in range(M):
        for n in range(N):
            for k in range(K):
                a = load(lhsT[k, m])    # the same for every n
                ...

After::

    for m in range(M):
        a_tiles = K tiles
        for k in range(K):
            a_tiles[k] = load(lhsT[k, m])
        for n in range(N):
            for k in range(K):
                ... a_tiles[k] ...

A load that depends on no inner loop at all moves as it is, with its tile.
"""

from __future__ import annotations

from math import prod

from accelopt_lsp.rewrites.base import Description, NotApplicable, RewriteContext, Site
from accelopt_lsp.rewrites.hoist_candidates import LOADS, Hoist, candidates
from accelopt_lsp.rewrites.hoist_edits import Mover

NAME = "hoist-load"


class HoistLoad:
    """Moves loads out of loops."""

    name = NAME
    title = "Hoist a load out of a loop"
    tags = ("dma", "dma_copy", "loop-invariant", "reuse")
    description = Description(
        title=title,
        strategy=(
            "A load inside a loop whose variable it does not use fetches the same bytes again in "
            "every iteration. Load once in front of the loop and keep the tile on chip; if the "
            "load also depends on an inner loop, keep one tile for each of its iterations. HBM "
            "traffic of that tensor drops by the loop's trip count, as long as the tiles fit."
        ),
        before=(
            "for i in range(I):\n    for j in range(J):\n        w = load(weights[j])\n"
            "        use(w, x[i])"
        ),
        after=(
            "w = [load(weights[j]) for j in range(J)]\nfor i in range(I):\n"
            "    for j in range(J):\n        use(w[j], x[i])"
        ),
        bottlenecks=("dma", "latency"),
        instructions=("dma_copy",),
        pattern="a load in a loop nest that leaves out one of the loop variables",
    )

    def find(self, context: RewriteContext) -> tuple[Site, ...]:
        model = context.model
        hoists = []
        for step in model.steps:
            if step.api not in LOADS or not step.loops:
                continue
            for hoist in candidates(model, step):
                try:
                    Mover(context, hoist).text()
                except NotApplicable:
                    continue
                hoists.append(hoist)
        hoists.sort(key=lambda h: -_saved_bytes(h))
        return tuple(_site(h, rank) for rank, h in enumerate(hoists))

    def apply(self, context: RewriteContext, site: Site) -> str:
        line, over = site.parameters.get("line"), site.parameters.get("over")
        reasons = []
        for step in context.model.steps:
            if step.api not in LOADS or not step.loops:
                continue
            if line is not None and step.node.lineno != line:
                continue
            for hoist in candidates(context.model, step):
                if over is not None and hoist.over.variable != over:
                    continue
                try:
                    return Mover(context, hoist).text()
                except NotApplicable as error:
                    reasons.append(str(error))
        raise NotApplicable(reasons[0] if reasons else "no load that leaves out a loop variable")


def _saved_bytes(hoist: Hoist) -> int:
    size = _tile_bytes(hoist) or 0
    total = prod(x.trips or 1 for x in hoist.load.loops)
    return size * (total - total // (hoist.saved_runs or 1))


def _tile_bytes(hoist: Hoist) -> int | None:
    """Bytes of one loaded tile over all partitions."""
    written = hoist.load.writes_of(hoist.tile)
    shape = written[0].view.shape if written else hoist.tile.shape
    if shape is None or None in shape or hoist.tile.dtype is None:
        return None
    return prod(s or 0 for s in shape) * hoist.tile.dtype.nbytes


def _site(hoist: Hoist, rank: int) -> Site:
    line = hoist.load.node.lineno
    name, over = hoist.tile.name, hoist.over.variable
    times = hoist.saved_runs
    saved = _saved_bytes(hoist)
    return Site(
        NAME,
        f"{NAME}:{line}:{over}",
        f"Load {name} (line {line}) in front of the loop over {over}",
        {"line": line, "over": over},
        (f"runs {times} times less often" if times else "runs once per outer iteration")
        + (f", {saved / 1e6:.1f} MB less from HBM" if saved else ""),
        line,
        rank,
    )
