"""What an optimization is asked for and what it reports."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from accelopt_lsp.agents.codec import plan_to_json
from accelopt_lsp.agents.roles import Experience, Plan, Usage
from accelopt_lsp.agents.settings import SearchSettings
from accelopt_lsp.nki.lines import split_lines
from accelopt_lsp.nki.profile import SCHEMA_VERSION, Profile
from accelopt_lsp.profiler.base import Failure, Rescaling
from accelopt_lsp.workbench.profile import failure_json
from accelopt_lsp.workbench.requests import KernelRequest, ResolvedKernel


@frozen(slots=True)
class OptimizeRequest:
    """What to optimize, and how.

    Attributes:
        kernel: which kernel, with what.
        search: every choice of the search.
        agents: ``offline`` or ``llm``.
        llm: settings of models that win over the project's and the environment's, such as
            ``model`` and ``base_url``; see :mod:`accelopt_lsp.agents.llm.settings`.
        backend: what runs attempts.
        use_cache: take results of earlier, equal evaluations, and keep these.
        read_paths: further folders that kernels may read.
        use_memory: draw on the optimization memory and add to it.
        memory_policy: which experiences to start with; None takes the project's choice, else the
            search's.
        resume: id of a run to go on with; kernel and settings are then the run's.
        replay: id of a run whose recorded replies are taken instead of a model's; kernel and
            settings are that run's, and no endpoint is asked.
        data_dir: folder of run store and memory; None takes the user's.
    """

    kernel: KernelRequest
    search: SearchSettings = SearchSettings()
    agents: str = "offline"
    llm: Mapping[str, Any] = field(factory=dict)
    backend: str = "simulator"
    use_cache: bool = True
    read_paths: tuple[Path, ...] = ()
    use_memory: bool = True
    memory_policy: str | None = None
    resume: str | None = None
    replay: str | None = None
    data_dir: Path | None = None


@frozen(slots=True)
class Strategy:
    """One step from the baseline to the result, with its evidence.

    Attributes:
        plan: what was done and why.
        before_ms, after_ms: latency before and after the step.
        experiences: experiences that the plan drew on.
    """

    plan: Plan
    before_ms: float
    after_ms: float
    experiences: tuple[Experience, ...] = ()

    @property
    def speedup(self) -> float:
        return self.before_ms / self.after_ms

    def to_json(self) -> dict[str, Any]:
        return {
            **plan_to_json(self.plan),
            "latency_before_ms": self.before_ms,
            "latency_after_ms": self.after_ms,
            "speedup": self.speedup,
            "experiences": [
                {"id": e.id, "title": e.title, "wins": e.wins, "losses": e.losses}
                for e in self.experiences
            ],
        }


@frozen(slots=True)
class OptimizeReport:
    """What came of it.

    Attributes:
        run: id in the run store; None if there is no store.
        kernel: what was optimized.
        baseline: its profile; None if it could not be run.
        best: profile of the result; the baseline's if nothing better was found.
        new_text: the file with the faster kernel; None if nothing better was found.
        correct: the result's outputs equal the reference's on all seeds; None if unchecked.
        strategies: the steps that led to it.
        evaluations: kernels profiled or verified, those that a resumed run found included.
        usage: calls, tokens and dollars of all roles.
        stopped: why the search ended.
        notes: remarks for people.
        failure: why the baseline could not be run.
        seeds, rescaled: inputs on which a run verifies what it ends with; only where this is not
            that yet (see :func:`~accelopt_lsp.workbench.recheck.recheck`).
    """

    run: str | None
    kernel: ResolvedKernel
    baseline: Profile | None
    best: Profile | None
    new_text: str | None
    correct: bool | None
    strategies: tuple[Strategy, ...] = ()
    evaluations: int = 0
    usage: Usage = Usage()
    stopped: str = ""
    notes: tuple[str, ...] = ()
    failure: Failure | None = field(default=None)
    seeds: tuple[int, ...] = ()
    rescaled: tuple[Rescaling, ...] = ()

    @property
    def improved(self) -> bool:
        return self.new_text is not None

    @property
    def speedup(self) -> float | None:
        """Latency before over latency after; None if either is unknown."""
        if self.baseline is None or self.best is None:
            return None
        before, after = self.baseline.latency_ms, self.best.latency_ms
        return None if before is None or not after else before / after

    @property
    def diff(self) -> str:
        """Unified diff; empty if nothing changed."""
        if self.new_text is None:
            return ""
        return unified_diff(self.kernel.text, self.new_text, self.kernel.path)

    def to_json(self) -> dict[str, Any]:
        """The object of ``accelopt optimize --json``."""
        if self.failure is not None:
            return {**failure_json(self.failure, self.kernel), "run": self.run}
        return {
            "schema_version": SCHEMA_VERSION,
            "run": self.run,
            "kernel": self.kernel.source.qualname,
            "target": self.kernel.target,
            "baseline": self.baseline.to_json() if self.baseline else None,
            "best": self.best.to_json() if self.best else None,
            "speedup": self.speedup,
            "improved": self.improved,
            "correct": self.correct,
            "diff": self.diff,
            "evaluations": self.evaluations,
            "strategies": [s.to_json() for s in self.strategies],
            "tokens": self.usage.tokens,
            "cost_usd": self.usage.cost_usd,
            "stopped": self.stopped,
            "notes": list(self.notes),
        }


def unified_diff(before: str, after: str, path: Path) -> str:
    """A unified diff that ``patch -p1`` and ``git apply`` take."""
    lines = difflib.unified_diff(
        split_lines(before),
        split_lines(after),
        f"a/{path.name}",
        f"b/{path.name}",
    )
    return "".join(
        line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines
    )
