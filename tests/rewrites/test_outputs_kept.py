"""Every site of every rewrite computes what the kernel computed before (on the simulator)."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.profiler.base import Job
from accelopt_lsp.profiler.simulator import SimulatorProfiler
from accelopt_lsp.rewrites import apply_named, catalogue
from tests.rewrites.kernels import all_kernels, context_of, parameters

_KERNELS = dict(all_kernels())
_SITES = 1
"""Best sites tried per kernel and rewrite, besides what a case names; each is a process."""


def _relevant(name: str, rewrite: str) -> bool:
    """Cases are tried with the rewrite that they are for, examples with all."""
    return name.startswith(("examples/", f"{rewrite}/"))


_CASES = [
    pytest.param(text, rewrite.name, id=f"{name}-{rewrite.name}")
    for name, text in _KERNELS.items()
    for rewrite in catalogue()
    if _relevant(name, rewrite.name) and rewrite.find(context_of(text))
]


@pytest.mark.slow
@pytest.mark.parametrize(("text", "rewrite_name"), _CASES)
async def test_rewritten_kernels_verify(text: str, rewrite_name: str, tmp_path: Path) -> None:
    context = context_of(text)
    rewrite = next(r for r in catalogue() if r.name == rewrite_name)
    profiler = SimulatorProfiler()
    path = tmp_path / "kernel.py"
    path.write_text(text, encoding="utf-8")
    changed = {s.id: rewrite.apply(context, s) for s in rewrite.find(context)[:_SITES]}
    if text.startswith("# apply:"):
        changed["case"] = apply_named(
            text, None, rewrite_name, parameters(text), context.arguments, context.target
        )
    for site, source in changed.items():
        outcome = await profiler.profile(
            Job(
                path=path,
                source=source,
                function=context.kernel.qualname,
                arguments=context.arguments,
                target=context.target.name,
                seeds=(0,),
                baseline=text,
            )
        )
        assert isinstance(outcome, Profile), f"{site}: {outcome}"
        assert outcome.correct, f"{site}: relative error {outcome.max_relative_error}"


def test_each_rewrite_applies_to_some_example() -> None:
    found = {
        rewrite.name
        for name, text in _KERNELS.items()
        if name.startswith("examples/")
        for rewrite in catalogue()
        if rewrite.find(context_of(text))
    }
    assert found >= {"block-matmul", "hoist-load", "hoist-invariant", "widen-tile"}
    assert found >= {"fuse-instructions", "swap-engine"}
