"""How much of a kernel's time a step of the catalogue is about, by its profile alone."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from accelopt_lsp.nki.profile import Profile, Resource
from accelopt_lsp.nki.python_source import parse_python
from accelopt_lsp.rewrites.base import Rewrite, Site


class LineShares:
    """What share of a kernel's time the lines of a statement take."""

    def __init__(self, source: str, profile: Profile) -> None:
        critical = sum(line.critical_ms or 0.0 for line in profile.lines)
        total = critical or sum(line.busy_ms or 0.0 for line in profile.lines)
        self._by_line: dict[int, float] = {}
        for line in profile.lines:
            cost = line.critical_ms if critical else line.busy_ms
            if total and cost:
                self._by_line[line.line] = self._by_line.get(line.line, 0.0) + cost / total
        self._ends: dict[int, int] = {}
        self._nests: list[tuple[int, int]] = []
        try:
            nodes = list(ast.walk(parse_python(source)))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            nodes = []
        for node in nodes:
            if isinstance(node, ast.stmt) and node.end_lineno is not None:
                known = self._ends.get(node.lineno, node.lineno)
                self._ends[node.lineno] = max(known, node.end_lineno)
                if isinstance(node, ast.For | ast.While):
                    self._nests.append((node.lineno, node.end_lineno))

    def of(self, line: int) -> float:
        """Share from 0 to 1 of the statement that begins on ``line``."""
        return self._between(line, self._ends.get(line, line))

    def of_nest(self, line: int) -> float:
        """Share of the outermost loop around ``line``; 0 if there is none."""
        around = [(first, last) for first, last in self._nests if first <= line <= last]
        return self._between(*min(around)) if around else 0.0

    def _between(self, first: int, last: int) -> float:
        return sum(share for at, share in self._by_line.items() if first <= at <= last)


def score_of(rewrite: Rewrite, site: Site, profile: Profile, shares: LineShares) -> float:
    """What a step is about by the profile; of one rewrite's places the earlier ranked ones lead."""
    score = relief(rewrite.description.bottlenecks, site.line, profile)
    score += 0.4 * shares.of(site.line) + 0.2 * shares.of_nest(site.line)
    return score - 0.15 * site.rank


_RELIEVED: Mapping[str, tuple[Resource, ...]] = {
    "tensor": (Resource.TENSOR,),
    "vector": (Resource.VECTOR,),
    "scalar": (Resource.SCALAR,),
    "gpsimd": (Resource.GPSIMD,),
    "dma": (Resource.DMA_BANDWIDTH, Resource.DMA_LATENCY, Resource.ROOM),
    "latency": (Resource.DMA_LATENCY, Resource.ENGINE_LATENCY, Resource.SYNC, Resource.ROOM),
}
"""What a rewrite that relieves a bound takes time from: fewer or larger transfers also wait less
for room, and so do shorter chains of instructions."""
_BOUNDING_CHANGES = {
    "dma": "dma_free",
    "vector": "vector_scalar_free",
    "scalar": "vector_scalar_free",
}


def relief(bottlenecks: Sequence[str], line: int, profile: Profile) -> float:
    """How much of a kernel's time a rewrite is about, from 0 to 1.

    By the shares of the time that each resource bounded, no more than what-ifs allow; without
    them by the resource that limits the kernel, the rewrite's first bottleneck counting most.
    """
    shares = profile.bounded_shares
    if shares is None:
        if profile.bound is None or profile.bound.value not in bottlenecks:
            return 0.0
        return 1.0 - 0.1 * bottlenecks.index(profile.bound.value)
    relieved = {resource for name in bottlenecks for resource in _RELIEVED.get(name, ())}
    found = sum(shares.get(resource.value, 0.0) for resource in relieved)
    gains = {w.change: 1.0 - 1.0 / w.speedup for w in profile.what_ifs or () if w.line is None}
    limits = [gains.get(_BOUNDING_CHANGES.get(name, "")) for name in bottlenecks]
    known = [limit for limit in limits if limit is not None]
    if known and len(known) == len(limits):
        found = min(found, sum(known))
    hoisted = [w for w in profile.what_ifs or () if w.line == line]
    return max([found, *(1.0 - 1.0 / w.speedup for w in hoisted)])


def limits(profile: Profile) -> list[str]:
    """What limits a kernel, in words."""
    shares = sorted((profile.bounded_shares or {}).items(), key=lambda item: -item[1])
    named = [f"{name.replace('_', ' ')} {share:.0%}" for name, share in shares if share >= 0.1]
    if named:
        return [f"bounded by {', '.join(named[:3])}"]
    return [] if profile.bound is None else [f"the kernel is bound by {profile.bound.value}"]
