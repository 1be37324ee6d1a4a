"""Writes what a calibration found into the data files of a checkout of this project."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

from accelopt_lsp.nki.traffic import spill_share
from accelopt_lsp.profiler.comparison import Comparison
from accelopt_lsp.profiler.measured import MeasuredKernel
from accelopt_lsp.profiler.simulator.timeline.uncertainty import Residual, residuals
from accelopt_lsp.profiler.simulator.variants import VariantProfile
from accelopt_lsp.workbench.calibration import Calibration

TARGETS = Path(str(files("accelopt_lsp.nki").joinpath("data/targets.toml")))
RESIDUALS = Path(str(files("accelopt_lsp.profiler").joinpath("data/calibration.json")))
DIGITS = 4


def with_constants(text: str, found: Calibration) -> str:
    """The text of ``targets.toml`` with the values of the fit to all kernels."""
    head, mark, rest = text.partition(f"[{found.target.name}]")
    section, following, tail = rest.partition("\n[")
    for name, value in found.constants.items():
        section = re.sub(
            rf"(?m)^({re.escape(name)} = {{ value = )[-+.\deE]+",
            rf"\g<1>{float(f'{value:.{DIGITS}g}'):g}",
            section,
        )
    return head + mark + section + following + tail


def write_constants(found: Calibration, path: Path = TARGETS) -> None:
    """Write the fitted constants into ``targets.toml``."""
    path.write_text(with_constants(path.read_text("utf-8"), found), "utf-8")


def residual_rows(found: Calibration) -> list[dict[str, Any]]:
    """What the uncertainty needs of the calibration's kernels: predicted without their family."""
    return [
        _row(p.kernel, p.present, p.held_out.latency_ms)
        for p in found.predictions
        if p.present.latency_ms is not None
    ]


def residuals_with(found: Calibration) -> tuple[Residual, ...]:
    """The residuals of this version, with those of a calibration in place of its kernels'."""
    fresh = [Residual(**row) for row in residual_rows(found)]
    names = {r.kernel for r in fresh}
    return (*fresh, *(r for r in residuals() if r.kernel not in names))


def check_rows(rows: Iterable[Comparison]) -> list[dict[str, Any]]:
    """The same of kernels that nothing was fitted to."""
    return [
        _row(
            r.measured,
            VariantProfile(r.latency_ms, r.bound, {}, r.counters),
            r.latency_ms,
        )
        for r in rows
        if r.latency_ms is not None
    ]


def _row(
    kernel: MeasuredKernel, profile: VariantProfile, held_out_ms: float | None
) -> dict[str, Any]:
    def rounded(value: float | None) -> float | None:
        return None if value is None else round(value, 6)

    share = spill_share(profile.counters)
    return {
        "kernel": kernel.kernel,
        "target": kernel.target,
        "dialect": kernel.dialect.value,
        "family": kernel.family,
        "series": kernel.series,
        "bound": None if profile.bound is None else profile.bound.value,
        "spill_share": rounded(share),
        "measured_ms": kernel.measured_ms,
        "predicted_ms": rounded(profile.latency_ms),
        "held_out_ms": rounded(held_out_ms),
    }


def write_rows(rows: Iterable[dict[str, Any]], path: Path = RESIDUALS) -> None:
    """Store residuals; those of kernels that were not run stay as they are."""
    kept: dict[str, Any] = {}
    if path.is_file():
        kept = {r["kernel"]: r for r in json.loads(path.read_text("utf-8"))["residuals"]}
    kept |= {r["kernel"]: r for r in rows}
    content = {
        "schema_version": 2,
        "source": "benchmarks/calibrate.py and docs/build_trust.py, kernels of *_measured.json",
        "residuals": list(kept.values()),
    }
    path.write_text(json.dumps(content, indent=1) + "\n", "utf-8")


def write_residuals(found: Calibration, path: Path = RESIDUALS) -> None:
    """Store the residuals of a calibration."""
    write_rows(residual_rows(found), path)
