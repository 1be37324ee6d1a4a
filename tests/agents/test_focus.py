"""A search that keeps to some lines: what it plans, what it lets a model write, what it finds."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from accelopt_lsp.agents.focus import Focus, focused
from accelopt_lsp.agents.llm.prompts import planner_messages
from accelopt_lsp.agents.normalise import fingerprint
from accelopt_lsp.agents.offline import OfflineAgent
from accelopt_lsp.agents.roles import Attempt, Candidate, Draft, Plan, Problem, Roles, Usage
from accelopt_lsp.agents.settings import SearchSettings
from accelopt_lsp.nki.targets import get_target
from accelopt_lsp.workbench.check import check_text
from accelopt_lsp.workbench.optimize import OptimizeRequest, optimize_kernel
from accelopt_lsp.workbench.requests import KernelRequest, RequestError
from accelopt_lsp.workbench.settings import Settings

LOOP = """    for i in range(16):
        y{n}_tile = nl.ndarray((128, 2048), dtype=y.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=y{n}_tile, src=y)
        x{n}_tile = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=x{n}_tile, src=x[i * 128 : (i + 1) * 128, :])
        total{n} = nl.ndarray((128, 2048), dtype=out{n}.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=total{n}, data1=x{n}_tile, data2=y{n}_tile, op=nl.add)
        nisa.dma_copy(dst=out{n}[i * 128 : (i + 1) * 128, :], src=total{n})
"""
TEXT = f"""import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=bf16[2048,2048] y=bf16[128,2048]
@nki.jit
def kernel(x, y):
    out1 = nl.ndarray((2048, 2048), dtype=x.dtype, buffer=nl.shared_hbm)
    out2 = nl.ndarray((2048, 2048), dtype=x.dtype, buffer=nl.shared_hbm)
{LOOP.format(n=1)}{LOOP.format(n=2)}    return out1, out2
"""
FIRST, SECOND = (11, 18), (19, 26)


def problem_of(text: str) -> Problem:
    path = Path("kernel.py")
    (kernel,) = check_text(text, path, Settings()).kernels
    assert kernel.profile is not None
    return Problem(
        path,
        text,
        "kernel",
        kernel.arguments,
        get_target("trn2"),
        kernel.source.dialect,
        kernel.profile,
    )


def candidate_of(problem: Problem) -> Candidate:
    return Candidate((), problem.text, problem.profile, fingerprint(problem.text))


def offline() -> Roles:
    agent = OfflineAgent()
    return Roles(agent, agent, agent, agent)


@pytest.mark.parametrize("lines", [FIRST, SECOND])
async def test_plans_are_about_the_lines(lines: tuple[int, int]) -> None:
    problem = problem_of(TEXT)
    candidate = candidate_of(problem)
    everywhere = await offline().planner.plan(problem, candidate, (), 50, seed=0)
    expected = {(p.rewrite, p.line) for p in everywhere if lines[0] <= (p.line or 0) <= lines[1]}
    assert {line for _, line in expected} < {p.line for p in everywhere}
    roles = focused(offline(), TEXT, lines)
    here = await roles.planner.plan(problem, candidate, (), 50, seed=0)
    assert {(p.rewrite, p.line) for p in here} == expected


def test_without_lines_nothing_is_held_back() -> None:
    roles = offline()
    assert focused(roles, TEXT, None) is roles


async def test_the_lines_are_found_again_in_later_versions() -> None:
    problem = problem_of(TEXT)
    candidate = candidate_of(problem)
    roles = focused(offline(), TEXT, FIRST)
    plans = await roles.planner.plan(problem, candidate, (), 50, seed=0)
    hoist = next(p for p in plans if p.rewrite == "hoist-load")
    draft = await roles.executor.execute(problem, candidate, hoist, variant=0, seed=0)
    assert draft.source is not None
    first, last = Focus(TEXT, SECOND).within(draft.source)
    lines = draft.source.split("\n")
    assert lines[first - 1 : last] == LOOP.format(n=2).rstrip("\n").split("\n")


class Model:
    """Writes what it is given."""

    name = "model"
    usage = Usage()

    def __init__(self, source: str) -> None:
        self.source = source

    async def execute(self, problem: Problem, candidate: Candidate, plan: Plan, **_: object):
        return Draft(self.source)

    async def fix(self, problem: Problem, attempt: Attempt, *, seed: int) -> Draft:
        return Draft(self.source)


ADDED = TEXT.replace("    for i", "    spare = 1\n    for i", 1)
WRITTEN = {
    "inside": (TEXT.replace("total1", "sum1"), None),
    "added outside": (ADDED, None),
    "changed outside": (TEXT.replace("total2", "sum2"), "line 24 was changed or removed"),
    "removed outside": (TEXT.replace("    out2 = nl.ndarray((2048, 2048)", "    out2 = x  #"),
                        "line 10 was changed or removed"),
}  # fmt: skip


@pytest.mark.parametrize(("source", "why"), WRITTEN.values(), ids=WRITTEN)
async def test_what_a_model_writes_keeps_to_the_lines(source: str, why: str | None) -> None:
    problem = problem_of(TEXT)
    agent = OfflineAgent()
    model = Model(source)
    roles = focused(Roles(agent, model, model, agent), TEXT, FIRST)
    candidate = candidate_of(problem)
    plan = Plan("do better", "because")
    executed = await roles.executor.execute(problem, candidate, plan, variant=0, seed=0)
    fixed = await roles.fixer.fix(problem, Attempt((1,), candidate, plan, None), seed=0)
    for draft in (executed, fixed):
        assert draft is not None
        assert (draft.source is None) is (why is not None)
        assert why is None or why in (draft.error or "")


async def test_lines_outside_the_kernel_are_refused() -> None:
    request = OptimizeRequest(
        KernelRequest(Path("kernel.py"), TEXT), SearchSettings(lines=(1, 4)), use_memory=False
    )
    with pytest.raises(RequestError, match="lines 1-4 are not in kernel kernel"):
        await optimize_kernel(request)


def test_a_recorded_run_keeps_its_lines() -> None:
    settings = SearchSettings(lines=SECOND)
    assert SearchSettings.from_json(settings.to_json()) == settings


async def test_a_search_changes_its_loop_and_no_other() -> None:
    search = SearchSettings(lines=SECOND, iterations=1, plans=2, final_seeds=(0,))
    request = OptimizeRequest(KernelRequest(Path("kernel.py"), TEXT), search, use_memory=False)
    report = await optimize_kernel(request)
    assert report.new_text is not None
    assert LOOP.format(n=1) in report.new_text
    assert LOOP.format(n=2) not in report.new_text


def test_a_model_is_told_the_lines() -> None:
    problem = problem_of(TEXT)
    candidate = candidate_of(problem)
    for focus, told in ((SECOND, "lines 19 to 26"), (None, "The whole kernel may change")):
        messages = planner_messages(evolve(problem, focus=focus), candidate, (), (), (), 3)
        assert told in messages[-1]["content"]
