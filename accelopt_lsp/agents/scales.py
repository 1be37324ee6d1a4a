"""Inputs of another scale, on which every attempt is compared as well.

On inputs of one scale a kernel may be right by luck: without the small number under a root, without
the maximum that a softmax subtracts, with outputs that hardly depend on its inputs. Only scales at
which the kernel as it was agrees with its reference about as closely as on the usual inputs (and
stays finite) count, so that no other is refused for a rounding that this one does as well.
"""

from __future__ import annotations

import hashlib

from accelopt_lsp.agents.evaluate import Evaluator
from accelopt_lsp.agents.settings import SearchSettings
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.profiler.base import Rescaling

WORSE = 4.0
"""How many times the error on usual inputs the kernel as it was may have at a scale."""
STRENGTHS = (1.0, 0.5, 0.25)
"""Powers of a scale that are tried, one after the other, until the kernel as it was is right."""


def other_scales(settings: SearchSettings, text: str) -> tuple[tuple[Rescaling, ...], ...]:
    """The scales of a run, each with what is tried in its place where it is too much.

    Their seeds follow from the kernel's text and the search's seed: no reply can know them.
    """
    return tuple(
        tuple(
            Rescaling(_seed(f"{settings.seed}/{number}/{power}/{text}"), scale**power, shift)
            for power in STRENGTHS
        )
        for number, (scale, shift) in enumerate(settings.other_scales)
    )


def _seed(words: str) -> int:
    """A seed beyond all that people choose."""
    digest = hashlib.sha256(words.encode("utf-8", "surrogatepass")).digest()
    return (1 << 31) | int.from_bytes(digest[:4]) >> 1


async def usable(
    evaluator: Evaluator,
    text: str,
    scales: tuple[tuple[Rescaling, ...], ...],
    usual_error: float | None = None,
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Seeds of the scales at which the kernel as it was is right, and remarks on the others.

    Args:
        usual_error: its relative error on inputs of the usual scale, where it is known.
    """
    allowed = None if usual_error is None else WORSE * usual_error + 1e-6

    async def right(seeds: tuple[int, ...]) -> bool:
        outcome = await evaluator.evaluate(text, seeds, unlimited=True)
        if not isinstance(outcome, Profile) or outcome.correct is not True:
            return False
        return allowed is None or (outcome.max_relative_error or 0.0) <= allowed

    all_strict = tuple(scale[0].seed for scale in scales)
    if not scales or await right(all_strict):
        return all_strict, ()
    seeds: list[int] = []
    notes: list[str] = []
    for scale in scales:
        for tried in scale:
            if await right((tried.seed,)):
                seeds.append(tried.seed)
                break
        else:
            notes.append(
                f"the kernel as it was is not right on {scale[-1]}, so faster versions are not "
                "compared on such inputs"
            )
    return tuple(seeds), tuple(notes)
