"""Fixtures that run kernels in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from accelopt_lsp.profiler.simulator import elision, hook, ordering
from accelopt_lsp.profiler.simulator import kernels as running
from tests.simulator.helpers import Runner, run_file


@pytest.fixture
def stand_ins() -> Iterator[None]:
    """``nki`` and ``neuronxcc.nki`` are the simulator during the test."""
    hook.install()
    yield
    hook.uninstall()


@pytest.fixture
def run_text(stand_ins: None, tmp_path: Path) -> Runner:
    """Run ``kernel`` of a source text in this process."""

    def run(
        text: str,
        *inputs: Any,
        target: str = "trn1",
        full: bool = True,
        grid: Any = (),
        order: Any = None,
    ) -> running.Outcome:
        path = tmp_path / "case.py"
        path.write_text(text)
        return run_file(path, *inputs, target=target, full=full, grid=grid, order=order)

    return run


@pytest.fixture
def run_path(stand_ins: None) -> Runner:
    """Run ``kernel`` of a file in this process."""
    return run_file


@pytest.fixture(params=["as issued", "reordered"])
def replays(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replays leave no copies out, or all that they can, and compute by demand."""
    eager = request.param == "reordered"
    monkeypatch.setattr(elision, "WORTHWHILE", 0 if eager else 1 << 40)
    monkeypatch.setattr(ordering, "MUCH", 0 if eager else 1 << 40)
