"""Which scales count: those at which the kernel as it was is as right as it usually is."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from attrs import define, evolve, field

from accelopt_lsp.agents.evaluate import Evaluator
from accelopt_lsp.agents.scales import STRENGTHS, other_scales, usable
from accelopt_lsp.agents.search import SearchSettings
from accelopt_lsp.profiler.base import VERIFICATION_SEEDS, Job, Outcome, Progress, Rescaling
from tests.agents.landscape import TEXT, job, profile_of

SETTINGS = SearchSettings()
SCALES = other_scales(SETTINGS, TEXT)
ALL = tuple(r for scale in SCALES for r in scale)


@define
class Errs:
    """A profiler of a kernel whose error depends on the scale."""

    errors: Mapping[int, float]
    name: str = "errs"
    asked: list[tuple[int, ...]] = field(factory=list)

    async def profile(self, job: Job, progress: Progress | None = None) -> Outcome:
        self.asked.append(job.seeds)
        worst = max(self.errors.get(seed, 1e-4) for seed in job.seeds)
        return evolve(profile_of(1, 1, worst < 1e-2), max_relative_error=worst)


async def chosen(wrong: list[Rescaling], error: float = 1.0) -> tuple[list[Rescaling], int]:
    profiler = Errs({r.seed: error for r in wrong})
    evaluator = Evaluator(profiler, evolve(job(), rescaled=ALL))
    seeds, notes = await usable(evaluator, TEXT, SCALES, 1e-4)
    assert (len(seeds) + len(notes)) == len(SCALES)
    return [r for r in ALL if r.seed in seeds], len(profiler.asked)


async def test_where_all_is_right_one_run_says_so() -> None:
    assert await chosen([]) == ([SCALES[0][0], SCALES[1][0]], 1)


@pytest.mark.parametrize("error", [1.0, 5e-3], ids=["wrong", "much less exact than usual"])
async def test_too_large_a_scale_is_replaced_by_a_smaller_one(error: float) -> None:
    (large, small), _ = await chosen([SCALES[0][0]], error)
    assert large == SCALES[0][1]
    assert large.scale == SCALES[0][0].scale ** 0.5
    assert small == SCALES[1][0]


async def test_a_scale_at_which_nothing_helps_is_left_out() -> None:
    found, _ = await chosen(list(SCALES[0]))
    assert found == [SCALES[1][0]]


def test_seeds_follow_from_kernel_and_settings_and_are_no_others() -> None:
    assert other_scales(SETTINGS, TEXT) == SCALES
    assert len({r.seed for r in ALL}) == len(ALL) == len(SCALES) * len(STRENGTHS)
    assert not {r.seed for r in ALL} & {*VERIFICATION_SEEDS, *range(100_000)}
    for other in (other_scales(SETTINGS, TEXT + "#"), other_scales(evolve(SETTINGS, seed=1), TEXT)):
        assert not {r.seed for scale in other for r in scale} & {r.seed for r in ALL}
