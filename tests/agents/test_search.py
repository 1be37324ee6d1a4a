"""Laws of the beam search, on a landscape whose costs are known."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from accelopt_lsp.agents.learning import Lessons
from accelopt_lsp.agents.roles import Attempt, Experience, Verdict
from accelopt_lsp.agents.search import SearchEvent, SearchSettings
from accelopt_lsp.profiler.base import Failure, FailureKind
from tests.agents.landscape import TEXT, FakeProfiler, Walker, latency, point, quick, search

POINTS = st.frozensets(st.tuples(st.integers(-2, 9), st.integers(-2, 9)), max_size=20)


def outcome(result: object) -> object:
    """What must not depend on the order of completion."""
    best, beam, attempts = result.best, result.beam, result.attempts  # type: ignore[attr-defined]
    return (
        best.id,
        best.source,
        [c.id for c in beam],
        [(a.id, a.verdict, a.latency_ms, a.error) for a in attempts],
    )


async def test_walks_down_to_the_lowest_point() -> None:
    result = await search(quick(iterations=12, beam=4, patience=4))
    assert point(result.best.source) == (6, 4)
    assert result.verified
    assert [c.latency_ms for c in result.beam] == sorted(c.latency_ms for c in result.beam)
    steps = [plan.parameters for plan in result.best.steps]
    assert 1 + sum(s["a"] for s in steps) == 6


@examples(max_examples=60, deadline=None)
@given(
    fails=POINTS,
    wrong=POINTS,
    late=POINTS,
    beam=st.integers(1, 4),
    plans=st.integers(1, 6),
    attempts=st.integers(1, 3),
    rounds=st.integers(0, 2),
    seed=st.integers(0, 99),
)
def test_never_worse_than_the_baseline_and_never_wrong(
    fails: frozenset[tuple[int, int]],
    wrong: frozenset[tuple[int, int]],
    late: frozenset[tuple[int, int]],
    beam: int,
    plans: int,
    attempts: int,
    rounds: int,
    seed: int,
) -> None:
    chosen = quick(
        beam=beam, plans=plans, attempts=attempts, fix_rounds=rounds, seed=seed, iterations=3
    )
    profiler = FakeProfiler(fails, wrong, late)
    walker = Walker()
    result = asyncio.run(search(chosen, profiler, walker))
    a, b = point(result.best.source)
    assert latency(a, b) <= latency(1, 1)
    if result.verified:
        assert latency(a, b) < latency(1, 1)
        assert (a, b) not in fails | wrong | late
        checked = {seed for where, seeds in profiler.calls if where == (a, b) for seed in seeds}
        assert checked >= set(chosen.final_seeds)
    else:
        assert result.best.source == TEXT
    assert len(result.beam) <= beam
    for candidate in result.beam:
        assert candidate.id == "baseline" or point(candidate.source) not in fails | wrong
    entered = [c for c in result.beam if c.id != "baseline"]
    assert len({c.order[:3] for c in entered}) == len(entered)
    for candidate in entered:
        of_this_plan = [
            latency(*point(x.source))
            for x in result.attempts
            if x.order[:3] == candidate.order[:3]
            and x.source is not None
            and x.verdict is not Verdict.DUPLICATE
            and point(x.source) not in fails | wrong
        ]
        assert candidate.latency_ms == min(of_this_plan)
    per_iteration: dict[int, list[Attempt]] = {}
    for attempt in result.attempts:
        per_iteration.setdefault(attempt.order[0], []).append(attempt)
    for made in per_iteration.values():
        first_tries = [x for x in made if x.order[4] == 0]
        assert len(first_tries) <= beam * plans * attempts
        assert all(x.order[4] <= rounds for x in made)
        assert all(x.order[1] < beam and x.order[2] < plans and x.order[3] < attempts for x in made)
    assert all(count == plans for _, count in walker.planned)


@pytest.mark.parametrize("shuffle", [1, 2, 3])
async def test_order_of_completion_does_not_matter(shuffle: int) -> None:
    chosen = quick(beam=3, attempts=2, fix_rounds=1, concurrency=7)
    traps = {"fails": frozenset({(3, 1), (4, 2)}), "wrong": frozenset({(3, 2), (1, 4)})}
    plain = await search(chosen, FakeProfiler(**traps))
    shuffled = await search(chosen, FakeProfiler(**traps, shuffle=shuffle))
    assert outcome(plain) == outcome(shuffled)


async def test_the_seed_decides() -> None:
    results = [await search(quick(seed=s, plans=2, iterations=2)) for s in (1, 1, 2)]
    assert outcome(results[0]) == outcome(results[1])
    assert outcome(results[0]) != outcome(results[2])


async def test_no_source_is_evaluated_twice() -> None:
    profiler = FakeProfiler()
    # Variants differ in a comment only, so all but the first are duplicates.
    result = await search(quick(attempts=3), profiler, Walker(variants=False))
    traced = [where for where, seeds in profiler.calls if not seeds]
    assert len(traced) == len(set(traced))
    assert (1, 1) not in traced
    duplicates = [a for a in result.attempts if a.verdict is Verdict.DUPLICATE]
    assert duplicates
    assert all(a.order[3] > 0 or a.order[0] > 1 or a.order[1] >= 0 for a in duplicates)
    assert len(profiler.calls) == len(set(profiler.calls)) == result.evaluations


async def test_only_contenders_are_verified() -> None:
    profiler = FakeProfiler()
    chosen = quick(beam=1, iterations=1, top_k=0)
    result = await search(chosen, profiler)
    verified = [where for where, seeds in profiler.calls if seeds == chosen.verify_seeds]
    assert verified == [point(result.best.source)]


async def test_concurrency_is_bounded_and_used() -> None:
    profiler = FakeProfiler(shuffle=0)
    await search(quick(concurrency=2), profiler)
    assert profiler.most_running == 2


async def test_the_fixer_repairs_with_the_exact_error() -> None:
    profiler = FakeProfiler(fails=frozenset({(1, 4)}))
    walker = Walker(steps=((0, 3),))
    result = await search(quick(iterations=1, fix_rounds=2), profiler, walker)
    assert point(result.best.source) == (1, 3)
    broken, repaired = result.attempts
    assert broken.error is not None
    assert "line 8: SBUF overflow" in broken.error
    assert repaired.order == (*broken.order[:4], 1)


async def test_what_the_screen_rejects_is_fixed_without_a_run() -> None:
    async def screen(source: str) -> Failure | None:
        if point(source) != (1, 4):
            return None
        return Failure(FailureKind.REJECTED, "SBUF overflow", 8, code="R051")

    profiler = FakeProfiler()
    walker = Walker(steps=((0, 3),))
    result = await search(quick(iterations=1, fix_rounds=1), profiler, walker, screen=screen)
    assert point(result.best.source) == (1, 3)
    assert result.attempts[0].error == "line 8: SBUF overflow [R051]"
    assert (1, 4) not in [where for where, _ in profiler.calls]


async def test_wrong_outputs_go_to_the_fixer_and_never_into_the_beam() -> None:
    profiler = FakeProfiler(wrong=frozenset({(3, 1)}))
    result = await search(quick(iterations=1), profiler, Walker(steps=((2, 0), (1, 0))))
    assert [a.verdict for a in result.attempts if point(a.source or TEXT) == (3, 1)] == [
        Verdict.INCORRECT
    ]
    assert point(result.best.source) == (2, 1)


async def test_falls_back_when_the_best_fails_the_final_verification() -> None:
    profiler = FakeProfiler(wrong_late=frozenset({(3, 1)}))
    result = await search(quick(iterations=1), profiler, Walker(steps=((2, 0), (1, 0))))
    assert point(result.best.source) == (2, 1)
    assert any("dropped" in note for note in result.notes)


async def test_of_equally_fast_kernels_the_simplest_is_taken() -> None:
    walker = Walker(steps=((5, 0), (0, 1)))
    exact = await search(quick(iterations=2), walker=walker)
    assert point(exact.best.source) == (6, 2)
    rough = await search(quick(iterations=2, min_improvement=0.2), walker=walker)
    assert point(rough.best.source) == (6, 1)
    assert len(rough.best.steps) == 1


async def test_the_planner_learns_what_did_not_help_an_ancestor() -> None:
    walker = Walker(steps=((1, 0), (-1, 0), (0, -1)))
    await search(quick(iterations=2, beam=1), walker=walker)
    (first, nothing), (second, told) = walker.told_fruitless
    assert (first, nothing) == ("baseline", ())
    assert second != "baseline"
    assert set(told) == {"step -1,0", "step 0,-1"}


async def test_stops_when_nothing_improves() -> None:
    result = await search(quick(iterations=9, patience=2), walker=Walker(steps=((-1, 0), (0, -1))))
    assert result.iterations == 2
    assert "nothing improved" in result.stopped
    assert not result.verified


async def test_stops_when_the_planner_has_nothing_left() -> None:
    result = await search(quick(iterations=9), walker=Walker(steps=()))
    assert result.iterations == 1
    assert "nothing left" in result.stopped


async def test_stops_at_the_limit_on_evaluations() -> None:
    profiler = FakeProfiler()
    result = await search(quick(max_evaluations=5, iterations=9), profiler)
    assert sum(not seeds for _, seeds in profiler.calls) == 5
    assert "limit" in result.stopped


async def test_the_budget_ends_the_search_and_still_gives_a_result() -> None:
    profiler = FakeProfiler(shuffle=1)
    started = time.monotonic()
    result = await search(quick(budget_seconds=0.02, iterations=10_000, patience=10_000), profiler)
    assert time.monotonic() - started < 60
    assert "budget" in result.stopped
    assert latency(*point(result.best.source)) <= latency(1, 1)
    assert profiler.running == 0


async def test_pairs_become_experiences_within_their_limits() -> None:
    walker = Walker()
    result = await search(quick(iterations=3, top_k=4, exp_n=3), walker=walker)
    assert result.verified
    assert walker.seen_experiences[0] == ()
    assert any(walker.seen_experiences)
    assert all(len(seen) <= 3 for seen in walker.seen_experiences)


@pytest.mark.parametrize("top_k", [0, 1, 4, 8])
async def test_at_most_top_k_pairs_half_of_them_speedups(top_k: int) -> None:
    learned: list[Experience] = []

    class Recording(Lessons):
        async def learn(self, *arguments: object) -> list[Experience]:  # type: ignore[override]
            found = await super().learn(*arguments)  # type: ignore[arg-type]
            learned.extend(found)
            return found

    steps = tuple((a, b) for a in (-2, -1, 1, 2) for b in (-3, 0, 3))
    chosen = quick(iterations=1, top_k=top_k, plans=12)
    await search(chosen, walker=Walker(steps=steps), lessons=Recording())
    helpful = [e for e in learned if e.helpful]
    assert len(learned) <= top_k
    assert len(helpful) <= top_k // 2
    if top_k >= 4:
        assert len(helpful) == top_k // 2
        assert helpful[0].ratio == max(e.ratio for e in helpful)


async def test_without_memory_the_planner_sees_no_experience() -> None:
    walker = Walker()
    initial = [Experience("e", "title", "text")]
    await search(quick(memory_policy="none"), walker=walker, lessons=Lessons(initial=initial))
    assert set(walker.seen_experiences) == {()}


async def test_progress_tells_the_truth() -> None:
    events: list[SearchEvent] = []
    result = await search(quick(), listener=events.append)
    assert events[-1].evaluations == result.evaluations
    assert all(0 <= e.fraction <= 1 for e in events)
    assert [e.evaluations for e in events] == sorted(e.evaluations for e in events)
    assert all(e.message for e in events)
    assert events[-1].speedup == pytest.approx(latency(1, 1) / result.best.latency_ms)


async def test_roles_that_raise_do_not_end_the_run() -> None:
    class Broken(Walker):
        async def execute(self, *arguments: object, **options: object) -> object:  # type: ignore[override]
            raise KeyError("oops")

    result = await search(quick(iterations=1), walker=Broken())
    assert not result.verified
    assert {a.verdict for a in result.attempts} == {Verdict.NOT_WRITTEN}
    assert "KeyError" in (result.attempts[0].error or "")


@pytest.mark.parametrize(
    "bad", [{"beam": 0}, {"plans": 0}, {"top_k": -1}, {"memory_policy": "telepathy"}]
)
def test_settings_refuse_nonsense(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        SearchSettings(**bad)  # type: ignore[arg-type]


def test_settings_survive_json() -> None:
    import json

    published = SearchSettings.published()
    assert SearchSettings.from_json(json.loads(json.dumps(published.to_json()))) == published
