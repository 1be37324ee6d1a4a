"""Fits the machine constants of Trainium 1 again, and tests how well that carries over.

    calibrate.py CHECKOUT [--measured FILE] [--iterations N] [--json] [--write-constants]
                 [--write-residuals]

CHECKOUT is a working copy of github.com/zhang677/AccelOpt. All constants whose status is
``calibrated`` are fitted to the 14 kernels measured there, once to all of them and once without
each family, which is then predicted. ``docs/trust.md`` says what is minimised.

``--write-constants`` writes the values fitted to all kernels into ``targets.toml``;
``--write-residuals`` writes what the interval around every simulated latency comes from,
``calibration.json``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path

from accelopt_lsp.profiler.simulator.timeline.uncertainty import coverage
from accelopt_lsp.workbench.bench import BenchRequest
from accelopt_lsp.workbench.calibration import ITERATIONS, Calibration, calibrate
from accelopt_lsp.workbench.calibration_store import (
    residuals_with,
    write_constants,
    write_residuals,
)
from accelopt_lsp.workbench.requests import RequestError


def constants_table(found: Calibration) -> str:
    """Every constant: present, prior, fitted, and the range over the fits without a family."""
    lines = [f"{'constant':28}{'present':>10}{'prior':>10}{'fitted':>10}  without a family"]
    for prior in found.priors:
        others = [values[prior.name] for values in found.without.values()]
        span = f"{min(others):.4g} to {max(others):.4g}" if others else ""
        how = "  from active time" if prior.name in found.engine_fitted else ""
        lines.append(
            f"{prior.name:28}{found.target[prior.name]:10.4g}{prior.value:10.4g}"
            f"{found.constants[prior.name]:10.4g}  {span}{how}"
        )
    return "\n".join(lines)


def families_table(found: Calibration) -> str:
    """Every kernel's error, with its family in the fit and without."""
    lines = [
        f"{'family':16}{'kernel':24}{'measured ms':>12}{'present':>9}{'fitted':>9}{'held out':>10}"
    ]
    for p in sorted(found.predictions, key=lambda p: (p.kernel.family, p.kernel.kernel)):
        cells = [p.error(v) for v in (p.present, p.fitted, p.held_out)]
        texts = ["" if c is None else f"{c:+.1%}" for c in cells]
        lines.append(
            f"{p.kernel.family:16}{p.kernel.kernel:24}{p.kernel.measured_ms:12.3f}"
            f"{texts[0]:>9}{texts[1]:>9}{texts[2]:>10}"
        )
    for family in [*found.without, None]:
        cells = [found.mean_error(which, family) for which in ("present", "fitted", "held_out")]
        texts = ["" if c is None else f"{c:.1%}" for c in cells]
        title = f"mean, {family}" if family else "mean of absolute errors"
        lines.append(f"{title:52}{texts[0]:>9}{texts[1]:>9}{texts[2]:>10}")
    return "\n".join(lines)


def coverage_table(found: Calibration) -> str:
    """Whether each kernel lies in the interval that the other families give for it."""
    rows = coverage(residuals_with(found))
    lines = [f"{'kernel':24}{'measured ms':>12}  80 % interval without its family"]
    for row in rows:
        span = f"{row.interval.low_ms:.3f} to {row.interval.high_ms:.3f}"
        mark = "" if row.inside else "  missed"
        wide = "  extrapolated" if row.interval.extrapolated else ""
        lines.append(
            f"{row.residual.kernel:24}{row.residual.measured_ms:12.3f}  {span}{mark}{wide}"
        )
    fitted = {p.kernel.kernel for p in found.predictions}
    own = [row for row in rows if row.residual.kernel in fitted]
    lines.append(
        f"{sum(r.inside for r in own)} of {len(own)} calibration kernels and "
        f"{sum(r.inside for r in rows)} of all {len(rows)} lie within their interval"
    )
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Fit the machine constants of Trainium 1.")
    parser.add_argument("checkout", type=Path, help="working copy of zhang677/AccelOpt")
    parser.add_argument("--measured", type=Path, help="file of other measured kernels")
    parser.add_argument("--iterations", type=int, default=ITERATIONS, help="of Gauss-Newton")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--write-constants", action="store_true", help="into targets.toml")
    parser.add_argument("--write-residuals", action="store_true", help="into calibration.json")
    options = parser.parse_args(arguments)

    def progress(message: str, share: float | None) -> None:
        print(f"\r{message}   ", end="", file=sys.stderr)

    request = BenchRequest(checkout=options.checkout, measured=options.measured)
    try:
        found = asyncio.run(
            calibrate(
                request,
                progress if sys.stderr.isatty() else None,
                iterations=options.iterations,
            )
        )
    except RequestError as error:
        print(error, file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(found.to_json(), indent=1))
    else:
        tables = (constants_table(found), families_table(found), coverage_table(found))
        print("\n\n".join(tables))
    if options.write_constants:
        write_constants(found)
    if options.write_residuals:
        write_residuals(found)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
