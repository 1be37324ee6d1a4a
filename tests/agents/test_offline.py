"""The offline roles, with a catalogue of fake rewrites."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from attrs import evolve, frozen

from accelopt_lsp.agents.normalise import fingerprint, function_text, loop_depth
from accelopt_lsp.agents.offline import OfflineAgent
from accelopt_lsp.agents.relief import relief
from accelopt_lsp.agents.roles import (
    Attempt,
    Candidate,
    Experience,
    Pair,
    Plan,
    Problem,
    Tags,
    Verdict,
)
from accelopt_lsp.agents.situations import busy_engines, shape_class, tags_of
from accelopt_lsp.nki.arguments import KernelArguments, parse_spec
from accelopt_lsp.nki.profile import Bound, Issued, LineProfile, WhatIf
from accelopt_lsp.nki.targets import get_target
from accelopt_lsp.profiler.base import Failure, FailureKind
from accelopt_lsp.rewrites.base import Description, NotApplicable, Rewrite, RewriteContext, Site
from tests.agents.landscape import TEXT, problem


@frozen
class SetNumber:
    """Sets one of the kernel's numbers to one of several values."""

    name: str
    letter: str
    values: tuple[int, ...]
    bottlenecks: tuple[str, ...] = ()
    refuses: frozenset[int] = frozenset()

    @property
    def title(self) -> str:
        return f"Set {self.letter}"

    @property
    def tags(self) -> tuple[str, ...]:
        return ()

    @property
    def description(self) -> Description:
        return Description(
            f"Set {self.letter}", "a strategy", "before()", "after()", self.bottlenecks
        )

    def find(self, context: RewriteContext) -> tuple[Site, ...]:
        match = re.search(rf"^    {self.letter} = ", context.text, re.MULTILINE)
        if match is None:
            raise NotApplicable("no such number")
        line = context.text[: match.end()].count("\n") + 1
        return tuple(
            Site(
                self.name,
                f"{self.name}{n}",
                f"{self.letter} = {n}",
                {"block": n},
                "it helps",
                line,
                rank,
            )
            for rank, n in enumerate(self.values)
        )

    def apply(self, context: RewriteContext, site: Site) -> str:
        value = site.parameters["block"]
        if value in self.refuses:
            raise NotApplicable("doubtful")
        return re.sub(
            rf"^(    {self.letter} = ).*$", rf"\g<1>{value}", context.text, flags=re.MULTILINE
        )


A = SetNumber("set-a", "A", (8, 4, 2), ("dma",))
B = SetNumber("set-b", "B", (8, 4, 2), ("tensor",))


def baseline(task: Problem) -> Candidate:
    return Candidate((), task.text, task.profile, fingerprint(task.text))


async def plans(
    *rewrites: Rewrite,
    task: Problem | None = None,
    count: int = 4,
    experiences: tuple[Experience, ...] = (),
    tried: tuple[Plan, ...] = (),
    seed: int = 0,
) -> list[Plan]:
    task = task or problem()
    found = await OfflineAgent(rewrites).plan(
        task, baseline(task), experiences, count, seed=seed, tried=tried
    )
    return list(found)


async def test_the_bottleneck_decides_what_comes_first() -> None:
    assert (await plans(B, A))[0].rewrite == "set-a"
    tensor = problem()
    tensor = evolve(tensor, profile=evolve(tensor.profile, bound=Bound.TENSOR))
    assert (await plans(B, A, task=tensor))[0].rewrite == "set-b"


async def test_bounded_shares_decide_where_they_are_known() -> None:
    task = problem()
    shares = {"tensor": 0.7, "dma_bandwidth": 0.2, "launch": 0.1}
    mixed = evolve(task, profile=evolve(task.profile, bounded_shares=shares))
    first = (await plans(A, B, task=mixed))[0]
    assert first.rewrite == "set-b"
    assert "bounded by tensor 70%, dma bandwidth 20%, launch 10%" in first.rationale


def whats(change: str, speedup: float, line: int | None = None) -> WhatIf:
    return WhatIf(change, line, 1.0 / speedup, speedup)


@pytest.mark.parametrize(
    ("bottlenecks", "shares", "found", "expected"),
    [
        (("dma",), {"dma_bandwidth": 0.5, "room": 0.2, "vector": 0.3}, None, 0.7),
        (("dma", "latency"), {"dma_latency": 0.4, "sync": 0.1, "tensor": 0.5}, None, 0.5),
        (("tensor",), {"dma_bandwidth": 1.0}, None, 0.0),
        (("dma",), {"dma_bandwidth": 0.7, "vector": 0.3}, (whats("dma_free", 1.25),), 0.2),
        (("dma",), {"dma_bandwidth": 0.7}, (whats("dma_free", 1.25), whats("x", 2.0, 7)), 0.5),
        (("dma",), {"dma_bandwidth": 0.7}, (whats("load_hoisted", 2.0, 8),), 0.7),
        (("dma", "latency"), {"dma_bandwidth": 0.7}, (whats("dma_free", 1.25),), 0.7),
    ],
)
def test_relief_is_what_a_rewrite_can_take_away(bottlenecks, shares, found, expected) -> None:
    profile = evolve(problem().profile, bounded_shares=shares, what_ifs=found)
    assert relief(bottlenecks, 7, profile) == pytest.approx(expected)


async def test_the_dearest_line_comes_first() -> None:
    costly = problem()
    lines = (LineProfile(8, "dma", 1, busy_ms=9.0), LineProfile(7, "dma", 1, busy_ms=1.0))
    costly = evolve(costly, profile=evolve(costly.profile, lines=lines))
    first = (await plans(evolve(A, bottlenecks=()), evolve(B, bottlenecks=()), task=costly))[0]
    assert first.line == 8
    assert "90%" in first.rationale


async def test_plans_mix_rewrites_and_respect_the_count() -> None:
    found = await plans(A, B, count=4)
    assert len(found) == 4
    assert sorted(p.rewrite or "" for p in found) == ["set-a", "set-a", "set-b", "set-b"]
    assert len(await plans(A, count=2)) == 2
    assert len(await plans(A, count=99)) == 3


async def test_what_was_tried_is_not_proposed_again() -> None:
    first = await plans(A, B, count=3)
    rest = await plans(A, B, count=99, tried=tuple(first))
    assert len(rest) == 3
    assert not {(p.rewrite, p.parameters["block"]) for p in first} & {
        (p.rewrite, p.parameters["block"]) for p in rest
    }


async def test_what_did_not_help_an_ancestor_comes_back_last() -> None:
    first = await plans(A, B, count=6)
    moved = evolve(first[0], title=first[0].title + " (line 7)", line=7)
    agent, task = OfflineAgent([A, B]), problem()
    again = await agent.plan(task, baseline(task), (), 6, seed=0, fruitless=(first[0], moved))
    assert {p.title for p in again} == {p.title for p in first} - {first[0].title}
    rest = await agent.plan(task, baseline(task), (), 6, seed=0, fruitless=first)
    assert len(rest) == 6


async def test_experience_changes_the_order() -> None:
    tags = Tags(("dma_copy",), "dma", "nest0", "f32", "legacy", "trn1")
    good = Experience("good", "t", "t", rewrite="set-b", tags=tags, ratio=9.0, wins=9)
    bad = Experience("bad", "t", "t", rewrite="set-a", tags=tags, ratio=9.0, helpful=False, wins=9)
    found = await plans(A, B, experiences=(good, bad))
    assert found[0].rewrite == "set-b"
    assert found[0].experiences == ("good",)


async def test_same_seed_same_plans() -> None:
    assert await plans(A, B, seed=5) == await plans(A, B, seed=5)


async def test_variants_take_other_parameters() -> None:
    task, agent = problem(), OfflineAgent([A])
    (plan, *_) = await agent.plan(task, baseline(task), (), 1, seed=0)
    drafts = [await agent.execute(task, baseline(task), plan, variant=v, seed=0) for v in range(4)]
    assert [d.source is None for d in drafts] == [False, False, False, True]
    assert len({d.source for d in drafts}) == 4
    assert drafts[1].plan is not None
    assert drafts[1].plan.parameters == {"block": 4}


async def test_what_does_not_apply_says_why() -> None:
    task = problem()
    agent = OfflineAgent([evolve(A, refuses=frozenset({8}))])
    (plan, *_) = await agent.plan(task, baseline(task), (), 1, seed=0)
    draft = await agent.execute(task, baseline(task), plan, variant=0, seed=0)
    assert draft.source is None
    assert "doubtful" in (draft.error or "")
    unknown = await agent.execute(task, baseline(task), Plan("do magic", ""), variant=0, seed=0)
    assert "magic" in (unknown.error or "")


def failed(task: Problem, plan: Plan, message: str) -> Attempt:
    failure = Failure(FailureKind.REJECTED, message)
    return Attempt(
        (1, 0, 0, 0, 0),
        baseline(task),
        plan,
        TEXT,
        verdict=Verdict.FAILED,
        failure=failure,
        error=message,
    )


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("SBUF overflow: 300 KiB a partition, 176 KiB are there", {"block": 4}),
        ("4096 is not divisible by 1536", {"block": 4}),
        ("PSUM tile too large", {"block": 4}),
        ("name 'y' is not defined", None),
    ],
)
async def test_the_fixer_turns_to_smaller_blocks(
    message: str, expected: dict[str, int] | None
) -> None:
    task, agent = problem(), OfflineAgent([A])
    (plan, *_) = await agent.plan(task, baseline(task), (), 1, seed=0)
    draft = await agent.fix(task, failed(task, plan, message), seed=0)
    if expected is None:
        assert draft is None
    else:
        assert draft is not None
        assert draft.plan is not None
        assert draft.plan.parameters == expected
        assert "A = 4" in (draft.source or "")


async def test_the_fixer_gives_up_at_the_smallest() -> None:
    task, agent = problem(), OfflineAgent([A])
    plan = (await agent.plan(task, baseline(task), (), 3, seed=0))[-1]
    assert plan.parameters == {"block": 2}
    assert await agent.fix(task, failed(task, plan, "SBUF overflow"), seed=0) is None


@pytest.mark.parametrize("helpful", [True, False])
async def test_the_summary_tells_strategy_and_evidence(helpful: bool) -> None:
    task, agent = problem(), OfflineAgent([A])
    (plan, *_) = await agent.plan(task, baseline(task), (), 1, seed=0)
    slow = evolve(
        task.profile,
        latency_ms=4.0,
        counters={"hbm_read_bytes": 9e9},
        issued=Issued({"dma_copy": 100}),
    )
    fast = evolve(
        task.profile,
        latency_ms=2.0,
        counters={"hbm_read_bytes": 1e9},
        issued=Issued({"dma_copy": 10}),
    )
    attempt = Attempt((1, 0, 0, 0, 0), baseline(task), plan, TEXT, profile=fast)
    pair = Pair(attempt, (TEXT, slow), (TEXT, fast), helpful)
    lesson = await agent.summarize(task, pair, run="r1")
    assert lesson.title == ("Set A" if helpful else "Avoid here: Set A")
    assert "a strategy" in lesson.text
    assert "2.00 times" in lesson.text
    assert "HBM reads 9000 MB against 1000 MB" in lesson.text
    assert "100 instructions against 10" in lesson.text
    assert (lesson.before, lesson.after) == ("before()", "after()")
    assert (lesson.ratio, lesson.helpful, lesson.rewrite) == (2.0, helpful, "set-a")
    assert lesson.tags.bottleneck == "dma"
    assert lesson.origin.run == "r1"
    assert lesson.slow == function_text(TEXT, "kernel")
    assert lesson.id == (await agent.summarize(task, pair, run="r2")).id


def test_tags_describe_the_situation() -> None:
    task = problem()
    assert tags_of(task, task.text, task.profile) == Tags(
        ("dma_copy",), "dma", "nest0", "f32", "legacy", "trn1", (), "2d-fits-wide"
    )


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        ({"x": "f32[128,512]"}, "2d-fits-wide"),
        ({"x": "bf16[4096,512]"}, "2d-fits-tall"),
        ({"x": "bf16[512,512]", "w": "bf16[512,1000]"}, "2d-fits-square"),
        ({"x": "bf16[100,128]"}, "2d-fits-square-ragged"),
        ({"x": "f32[8192,8192]", "eps": "1e-5"}, "2d-streams-square"),
        ({"x": "f32[4096]"}, "1d-fits-wide"),
        ({"x": "(f32[128,8,1024], f32[1])"}, "3d-fits-wide"),
        ({"n": "3"}, None),
    ],
)
def test_shapes_are_classed(specs: dict[str, str], expected: str | None) -> None:
    arguments = KernelArguments(values={n: parse_spec(s) for n, s in specs.items()})
    assert shape_class(arguments, get_target("trn1")) == expected


def test_engines_that_matter_are_named() -> None:
    profile = evolve(
        problem().profile,
        latency_ms=1.0,
        engine_busy_ms={"vector": 0.5, "dma": 0.1, "scalar": 0.05},
    )
    assert busy_engines(profile) == ("dma", "vector")


NEST = """
class Outer:
    @decorated
    def method(self):
        for i in range(3):
            while i:
                for j in range(2):
                    pass
        for k in range(2):
            pass

def plain():
    pass
"""


def test_functions_are_found_by_qualified_name() -> None:
    assert function_text(NEST, "Outer.method").startswith("@decorated\n    def method")
    assert function_text(NEST, "plain") == "def plain():\n    pass"
    assert function_text(NEST, "missing") == NEST
    assert loop_depth(NEST, "Outer.method") == 3
    assert loop_depth(NEST, "plain") == 0


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("x = f(1,2)  # note", True),
        ("x = f(\n    1,\n    2)\n\n", True),
        ("\n\nx=f(1, 2)", True),
        ("x = f(1, 3)", False),
        ("x = f(12)", False),
        ("y = f(1, 2)", False),
    ],
)
def test_fingerprints_ignore_layout_and_comments(other: str, same: bool) -> None:
    assert (fingerprint(other) == fingerprint("x = f(1, 2)\n")) is same


def test_fingerprints_see_blocks() -> None:
    inside = "for i in x:\n    f()\n    g()\n"
    outside = "for i in x:\n    f()\ng()\n"
    assert fingerprint(inside) != fingerprint(outside)
    assert fingerprint(inside) == fingerprint("for i in x:\n        f()\n\n        g()\n")
    assert fingerprint("def broken(:") == fingerprint("def  broken(:  ")


def test_strings_keep_their_white_space() -> None:
    assert fingerprint("x = 'a b'") != fingerprint("x = 'a  b'")


def test_nothing_on_disk_is_needed() -> None:
    assert not Path(problem().path).exists()
