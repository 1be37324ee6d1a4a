"""Lenses show the result of an earlier run of the same text, and run nothing for it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from accelopt_lsp.nki.profile import Provenance
from accelopt_lsp.server.snapshot import KernelView, Request
from accelopt_lsp.server.wording import lens_title
from accelopt_lsp.server.worker import check
from accelopt_lsp.workbench.profile import ProfileRequest, known_profile, profile_kernel
from accelopt_lsp.workbench.requests import KernelRequest

EXAMPLE = Path(__file__).parents[2] / "examples" / "legacy" / "softmax.py"


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ACCELOPT_CACHE_DIR", str(tmp_path))


def view(text: str) -> KernelView:
    return check(Request(path=str(EXAMPLE), text=text)).kernels[0]


def test_a_lens_knows_what_was_simulated() -> None:
    text = EXAMPLE.read_text("utf-8")
    before = view(text).profile
    assert before is not None
    assert before.provenance is Provenance.ESTIMATED
    report = asyncio.run(profile_kernel(ProfileRequest(KernelRequest(EXAMPLE))))
    assert report.profile is not None
    kernel = view(text)
    assert kernel.profile is not None
    assert kernel.profile.cached
    assert kernel.profile.latency_ms == report.profile.latency_ms
    assert "bounded by vector" in lens_title(kernel)
    changed = view(text.replace("nl.exp(", "nl.tanh(")).profile
    assert changed is not None
    assert changed.provenance is Provenance.ESTIMATED


def test_what_cannot_be_run_is_not_known(tmp_path: Path) -> None:
    asyncio.run(profile_kernel(ProfileRequest(KernelRequest(EXAMPLE))))
    assert known_profile(ProfileRequest(KernelRequest(EXAMPLE))) is not None
    assert known_profile(ProfileRequest(KernelRequest(EXAMPLE), use_cache=False)) is None
    assert known_profile(ProfileRequest(KernelRequest(EXAMPLE, function="nothing"))) is None
    assert known_profile(ProfileRequest(KernelRequest(tmp_path / "nothing.py"))) is None
