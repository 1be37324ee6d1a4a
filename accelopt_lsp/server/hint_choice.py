"""Which of a kernel's hints are shown: calm by default, all of them on demand. Knows no LSP."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import frozen

from accelopt_lsp.server.snapshot import HintView

HINT_KINDS = ("loop", "shape", "dma", "compute", "allocation", "reload")
_RANK = {kind: rank for rank, kind in enumerate(("reload", "dma", "compute", "loop", "allocation"))}
"""What a line shows if several hints weigh the same; shapes come last, whatever they weigh."""
THRESHOLD_PERCENT = 1.0
MEMORY_FACTOR = 5.0
"""A tile is worth a look from so many times the threshold on: kernels hold many small ones."""


@frozen(slots=True)
class HintChoice:
    """Which hints a user wants to see.

    Attributes:
        kinds: kinds that are shown at all.
        rich: everything of these kinds, several to a line.
        threshold: least share of the kernel's time in percent that a hint must be about to be
            shown when calm; of a memory it is :data:`MEMORY_FACTOR` times that.
    """

    kinds: frozenset[str] = frozenset(HINT_KINDS)
    rich: bool = False
    threshold: float = THRESHOLD_PERCENT

    def of(self, hints: Iterable[HintView]) -> Iterator[tuple[int, HintView]]:
        """The chosen ones with their numbers, in the order in which they came."""
        wanted = [(n, h) for n, h in enumerate(hints) if h.kind in self.kinds]
        if self.rich:
            seen: set[tuple[int, str]] = set()
            for number, hint in wanted:
                if (hint.line, hint.text) not in seen:
                    seen.add((hint.line, hint.text))
                    yield number, hint
            return
        best: dict[int, tuple[int, HintView]] = {}
        for number, hint in wanted:
            if not self._worth_it(hint):
                continue
            known = best.get(hint.line)
            if known is None or _weight(hint) > _weight(known[1]):
                best[hint.line] = (number, hint)
        yield from sorted(best.values(), key=lambda item: item[0])

    def _worth_it(self, hint: HintView) -> bool:
        if hint.repeats_source:
            return False
        # How often a loop runs, and what nobody can weigh, is worth a look whatever its share.
        if hint.kind == "loop" or hint.share is None:
            return True
        factor = MEMORY_FACTOR if hint.kind == "allocation" else 1.0
        return 100 * hint.share >= factor * self.threshold


def _weight(hint: HintView) -> tuple[float, int]:
    if hint.kind not in _RANK:
        return (-1.0, -len(_RANK))
    return (-1.0 if hint.share is None else hint.share, -_RANK[hint.kind])
