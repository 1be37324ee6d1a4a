"""The page on what bounds a kernel."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from accelopt_lsp.nki.profile import Bound, Profile, Provenance
from accelopt_lsp.nki.workload import Workload
from accelopt_lsp.server.explanation import _bounds


def test_a_queue_that_bounds_an_estimate_is_named() -> None:
    profile = Profile(
        "k",
        "trn2",
        "static",
        Provenance.ESTIMATED,
        0.6,
        bound=Bound.DMA,
        engine_busy_ms={"vector": 0.5},
    )
    kernel: Any = SimpleNamespace(
        workload=Workload(ceilings_ns={"vector": 5e5, "store queue": 6e5})
    )
    rows = _bounds(kernel, profile)
    assert rows[-1] == "- store queue: 600 µs, one transfer after another"
