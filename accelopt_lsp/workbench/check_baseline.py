"""Baselines: findings that are known, so that only new ones are reported."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from attrs import evolve

from accelopt_lsp.workbench.check import CheckReport, FileDiagnostic
from accelopt_lsp.workbench.requests import RequestError

SCHEMA_VERSION = 2


def read_baseline(path: Path) -> Counter[str]:
    """Fingerprints of known findings, each as often as it is known.

    Raises:
        RequestError: it cannot be read.
    """
    try:
        data = json.loads(path.read_text("utf-8"))
        listed = data["fingerprints"]
        if data["schema_version"] != SCHEMA_VERSION or not isinstance(listed, list):
            raise ValueError(f"it is not of schema version {SCHEMA_VERSION}")
        return Counter(str(item) for item in listed)
    except FileNotFoundError:
        raise RequestError(f"no such baseline: {path}; write one with --write-baseline") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RequestError(f"cannot read the baseline {path}: {error}") from None


def write_baseline(report: CheckReport, path: Path) -> None:
    """Write all findings of a report as known.

    Raises:
        RequestError: it cannot be written.
    """
    fingerprints = sorted(_fingerprint(d, path) for d in report.diagnostics)
    text = json.dumps({"schema_version": SCHEMA_VERSION, "fingerprints": fingerprints}, indent=2)
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise RequestError(f"cannot write the baseline {path}: {error.strerror}") from None


def only_new(report: CheckReport, path: Path) -> CheckReport:
    """A report without the findings that a baseline knows, wherever their lines are now.

    Of findings that look alike, as many are known as there were.

    Raises:
        RequestError: the baseline cannot be read.
    """
    left = read_baseline(path)
    new: list[FileDiagnostic] = []
    for found in report.diagnostics:
        fingerprint = _fingerprint(found, path)
        if left[fingerprint] > 0:
            left[fingerprint] -= 1
        else:
            new.append(found)
    known = len(report.diagnostics) - len(new)
    return evolve(report, diagnostics=tuple(new), suppressed_by_baseline=known)


def _fingerprint(found: FileDiagnostic, baseline: Path) -> str:
    """Identity of a finding; its path as seen from the baseline, so that checkouts may move."""
    folder = baseline.resolve().parent
    path = Path(found.path).resolve()
    shown = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else found.path
    return evolve(found, path=shown).fingerprint()
