"""Kernels that look faster without being so, and honest ones that resemble them.

A case is a file in ``cases/cheats``: ``# base:`` names the kernel that it claims to improve,
``# expect:`` the gate that must refuse it and words of the message. Files in ``cases/honest`` pass.
"""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

import pytest
from attrs import evolve

from accelopt_lsp.agents.evaluate import Evaluator
from accelopt_lsp.agents.gates import Gates
from accelopt_lsp.agents.honesty import suspicious, uses
from accelopt_lsp.agents.normalise import fingerprint
from accelopt_lsp.agents.roles import Attempt, Candidate, Plan, Verdict
from accelopt_lsp.agents.scales import other_scales, usable
from accelopt_lsp.agents.search import SearchSettings
from accelopt_lsp.agents.verify import Verifier
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.nki.targets import get_target
from accelopt_lsp.profiler.simulator import SimulatorProfiler
from accelopt_lsp.workbench.profile import job_for
from accelopt_lsp.workbench.requests import KernelRequest, resolve_kernel

FOLDER = Path(__file__).parent / "cases"
CHEATS = sorted((FOLDER / "cheats").glob("*.py"))
HONEST = sorted((FOLDER / "honest").glob("*.py"))
STATIC = ("imports", "files", "tampering", "state", "randomness")
COMPUTING = ("another_order", "product_in_the_other_order", "softmax_of_scaled_inputs")
"""Honest cases that compute otherwise; the others only look odd, and are traced."""
SETTINGS = SearchSettings(concurrency=1)


def header(path: Path, name: str) -> str:
    found = re.search(rf"^# {name}: (.*)$", path.read_text(), re.MULTILINE)
    assert found is not None, f"{path.name} has no '# {name}:'"
    return found[1]


def expected(path: Path) -> tuple[str, str]:
    gate, _, words = header(path, "expect").partition(": ")
    return gate, words


def base(path: Path) -> str:
    return (FOLDER / "bases" / f"{header(path, 'base')}.py").read_text()


SEEN = [p for p in CHEATS if expected(p)[0] in STATIC]
RUN = [p for p in CHEATS if expected(p)[0] not in STATIC]


class Bench:
    """What judges attempts at one base kernel, as a run of the optimizer would."""

    def __init__(self, folder: Path, name: str) -> None:
        for file in (FOLDER / "bases").glob(f"{name}*.py"):
            shutil.copy(file, folder)
        self.kernel = resolve_kernel(KernelRequest(folder / f"{name}.py"))
        self.scales = other_scales(SETTINGS, self.kernel.text)
        reference = self.kernel.reference
        job = evolve(
            job_for(self.kernel),
            baseline=None if reference else self.kernel.text,
            cache=folder / "expected",
            rescaled=tuple(r for scale in self.scales for r in scale),
            hidden=() if reference is None else (reference,),
        )
        self.evaluator = Evaluator(SimulatorProfiler(lanes=1), job)
        self.baseline: Profile | None = None

    async def judge(self, text: str, *, compared: bool = True) -> Attempt:
        kernel = self.kernel
        if self.baseline is None:
            found = await self.evaluator.evaluate(kernel.text)
            assert isinstance(found, Profile)
            self.baseline = found
            self.seeds, remarks = await usable(self.evaluator, kernel.text, self.scales)
            assert remarks == ()
        function = kernel.source.qualname
        size = 2 * 128 * 8192 if kernel.path.stem == "norm" else None
        gates = Gates(
            kernel.text, function, kernel.arguments, get_target("trn1"), self.baseline, size
        )
        verifier = Verifier(self.evaluator, gates, SETTINGS, other_seeds=self.seeds)
        parent = Candidate((), kernel.text, self.baseline, fingerprint(kernel.text))
        attempt = Attempt((1, 0, 0, 0, 0), parent, Plan("plan", "why"), text)
        return await (verifier.final(attempt) if compared else verifier.trace(attempt))


@pytest.fixture(scope="module")
def benches(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Bench]:
    names = ("norm", "softmax", "product")
    return {name: Bench(tmp_path_factory.mktemp(name), name) for name in names}


def test_there_are_enough_of_them() -> None:
    assert len(CHEATS) >= 40
    assert {expected(path)[0] for path in CHEATS} >= {
        *STATIC,
        "launch",
        "outputs",
        "precision",
        "values",
    }


@pytest.mark.parametrize("path", SEEN, ids=lambda p: p.stem)
def test_what_shows_in_the_text_is_refused_before_it_is_run(path: Path) -> None:
    gate, words = expected(path)
    found = suspicious(base(path), path.read_text())
    assert any(use.gate == gate and words in use.message for use in found), found
    line = next(use.line for use in found if use.gate == gate)
    assert 0 < line <= len(path.read_text().splitlines())
    # Who wrote it into the kernel in the first place may go on with it.
    assert suspicious(path.read_text(), path.read_text()) == ()


@pytest.mark.parametrize("path", RUN, ids=lambda p: p.stem)
async def test_what_shows_in_a_run_is_refused(path: Path, benches: dict[str, Bench]) -> None:
    gate, words = expected(path)
    assert suspicious(base(path), path.read_text()) == ()
    attempt = await benches[header(path, "base")].judge(path.read_text())
    assert attempt.verdict in (Verdict.REFUSED, Verdict.INCORRECT, Verdict.FAILED)
    assert gate == "values" or words in (attempt.error or ""), attempt.error


@pytest.mark.parametrize("path", HONEST, ids=lambda p: p.stem)
async def test_honest_kernels_pass(path: Path, benches: dict[str, Bench]) -> None:
    assert suspicious(base(path), path.read_text()) == ()
    compared = path.stem in COMPUTING
    attempt = await benches[header(path, "base")].judge(path.read_text(), compared=compared)
    assert attempt.verdict is (Verdict.VERIFIED if compared else Verdict.TRACED), attempt.error


def test_published_kernels_and_examples_do_nothing_suspicious(examples: Path) -> None:
    for path in examples.glob("*/*.py"):
        if not path.stem.endswith("_reference"):
            assert uses(path.read_text()) == [], path


@pytest.mark.parametrize("text", ["", "def kernel(:", "x = 1", "\x00", "(" * 500])
def test_any_text_has_an_answer(text: str) -> None:
    assert uses(text) == []


def test_every_case_parses() -> None:
    for path in (*CHEATS, *HONEST):
        ast.parse(path.read_text())
