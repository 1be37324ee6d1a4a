"""What experiences say about a step, and how many proven steps a planner plans."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from accelopt_lsp.agents.evidence import OTHER_CHOICE, Evidence, kind_of
from accelopt_lsp.agents.offline import LIKELY, _enough, _parted
from accelopt_lsp.agents.retrieval import structure_score
from accelopt_lsp.agents.roles import Attempt, Candidate, Experience, Plan, Tags, Verdict
from accelopt_lsp.agents.selection import notable, shown
from accelopt_lsp.rewrites import catalogue
from accelopt_lsp.rewrites.base import Site
from tests.agents.landscape import TEXT, profile_of

HERE = Tags(("dma_copy", "activation"), "vector", "nest1", "bf16", "legacy", "trn1")
ELSEWHERE = Tags(("matmul",), "dma", "nest3", "f32", "current", "trn2")
REWRITE = catalogue()[0]


def site(rewrite: str = "fuse-instructions", **parameters: object) -> Site:
    return Site(rewrite, "id", "step", parameters, "", 1)


def experience(kind: str, ratio: float, **changes: object) -> Experience:
    made = Experience(f"{kind}/{ratio}", kind, "text", rewrite=kind, ratio=ratio, tags=HERE)
    return evolve(made, **changes)  # type: ignore[arg-type]


ACTIVATION = site(pattern="activation-sum", line=7)
CHAIN = site(pattern="chain", line=9)


@pytest.mark.parametrize(
    ("parameters", "kind"),
    [
        ({"line": 3, "over": "i"}, "hoist"),
        ({"line": 3, "factor": 4}, "hoist"),
        ({"line": 3, "pattern": "sum"}, "hoist:sum"),
        ({"engine": "scalar", "line": 1}, "hoist:scalar"),
    ],
)
def test_a_kind_is_a_choice_and_no_place_or_size(parameters: dict[str, object], kind: str) -> None:
    assert kind_of("hoist", parameters) == kind


def test_nothing_known_says_nothing() -> None:
    empty = Evidence.of((), HERE)
    assert empty.expected(ACTIVATION) == 0.0
    assert not empty.proven(ACTIVATION)
    assert empty.ids(ACTIVATION) == ()


def test_what_helped_in_a_like_situation_is_proven() -> None:
    found = Evidence.of([experience("fuse-instructions:activation-sum", 1.5)], HERE)
    assert found.proven(ACTIVATION)
    assert found.expected(ACTIVATION) == pytest.approx(
        structure_score(HERE, HERE) * 2 / 3 * (1 - 1 / 1.5)
    )
    assert "1.50 times faster" in found.reason(ACTIVATION)
    far = Evidence.of([experience("fuse-instructions:activation-sum", 1.5)], ELSEWHERE)
    assert 0.0 <= far.expected(ACTIVATION) < found.expected(ACTIVATION)


def test_another_choice_of_the_rewrite_speaks_for_it_and_proves_nothing() -> None:
    found = Evidence.of([experience("fuse-instructions:activation-sum", 1.5)], HERE)
    assert found.expected(CHAIN) == pytest.approx(OTHER_CHOICE * found.expected(ACTIVATION))
    assert not found.proven(CHAIN)
    assert found.ids(CHAIN) == ()
    assert found.ids(ACTIVATION) == ("fuse-instructions:activation-sum/1.5",)


def test_what_harmed_is_avoided_unless_it_helped_elsewhere() -> None:
    kind = "fuse-instructions:chain"
    harmed = experience(kind, 1.4, helpful=False)
    assert Evidence.of([harmed], HERE).expected(CHAIN) < 0
    assert Evidence.of([harmed, experience(kind, 1.1)], HERE).expected(CHAIN) == 0.0
    assert Evidence.of([harmed, experience(kind, 3.0)], HERE).expected(CHAIN) > 0


def test_what_the_kernel_has_behind_it_is_not_proven_again() -> None:
    steps = [Plan("t", "r", "fuse-instructions", {"line": 3, "pattern": "activation-sum"})]
    found = Evidence.of([experience("fuse-instructions:activation-sum", 1.5)], HERE, steps)
    assert found.expected(ACTIVATION) == 0.0


@given(wins=st.integers(0, 50), losses=st.integers(0, 50), ratio=st.floats(1.0, 100.0))
def test_wins_speak_for_and_losses_against(wins: int, losses: int, ratio: float) -> None:
    def chance(won: int, lost: int) -> float:
        known = experience("fuse-instructions:chain", ratio, wins=won, losses=lost)
        return Evidence.of([known], HERE).chance(CHAIN)

    assert 0.0 <= chance(wins, losses) <= 1.0
    assert chance(wins + 1, losses) >= chance(wins, losses) >= chance(wins, losses + 1)


@given(st.lists(st.floats(1.02, 3.0), max_size=8), st.integers(1, 8))
def test_as_many_proven_steps_as_make_one_success_likely(ratios: list[float], count: int) -> None:
    sites = [(REWRITE, site(pattern=f"p{n}")) for n in range(len(ratios))]
    known = [experience(f"fuse-instructions:p{n}", r, wins=9) for n, r in enumerate(ratios)]
    evidence = Evidence.of(known, HERE)
    proven, rest = _parted([*sites, (REWRITE, site(pattern="new"))], evidence)
    assert len(proven) + len(rest) == len(sites) + 1
    chosen = _enough(proven, count, evidence)
    failing = 1.0
    for _, one in chosen[:-1]:
        failing *= 1 - evidence.chance(one)
    assert failing > 1 - LIKELY or not chosen[:-1]
    assert len(chosen) <= count
    failing *= 1 - evidence.chance(chosen[-1][1]) if chosen else 1
    assert len(chosen) in (len(proven), count) or failing <= 1 - LIKELY


NAMES = [Experience(str(n), "t", "t") for n in range(9)]


@given(st.integers(0, 9), st.integers(0, 6), st.integers(0, 3))
def test_a_queue_drops_the_oldest_and_retrieval_the_least_fitting(
    most: int, old: int, new: int
) -> None:
    known, learned = NAMES[:old], NAMES[old : old + new]
    queue = shown(known, learned, most, "queue")
    fitting = shown(known, learned, most, "retrieval")
    assert len(queue) == len(fitting) == min(most, old + new)
    assert list(queue) == [*known, *learned][old + new - len(queue) :]
    assert list(fitting) == [*learned, *known][: len(fitting)]


def attempt(plan: int, variant: int, latency: float) -> Attempt:
    parent = Candidate((), TEXT, evolve(profile_of(1, 1), latency_ms=1.0), "f")
    return Attempt(
        (1, 0, plan, variant, 0),
        parent,
        Plan(f"plan {plan}", "why"),
        TEXT,
        verdict=Verdict.TRACED,
        profile=evolve(profile_of(1, 1), latency_ms=latency),
    )


def test_a_plan_that_helped_is_none_of_what_to_avoid() -> None:
    made = [attempt(0, 0, 0.5), attempt(0, 1, 3.0), attempt(1, 0, 2.0)]
    slow = notable(made, lambda speedup: speedup < 0.8, 8, slowest=True)
    assert [a.order[2] for a in slow] == [1]
    fast = notable(made, lambda speedup: speedup > 1.04, 8, slowest=False)
    assert [a.order[2:4] for a in fast] == [(0, 0)]
