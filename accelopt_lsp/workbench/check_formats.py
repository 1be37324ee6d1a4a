"""Check reports as text, JSON, SARIF and GitHub annotations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from accelopt_lsp import __version__
from accelopt_lsp.nki.diagnostics import Severity
from accelopt_lsp.workbench.check import CheckReport, FileDiagnostic

SCHEMA_VERSION = 1
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_SARIF_LEVELS = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.INFORMATION: "note",
    Severity.HINT: "note",
}
_GITHUB_LEVELS = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.INFORMATION: "notice",
    Severity.HINT: "notice",
}


def to_json(report: CheckReport) -> dict[str, Any]:
    """The object of ``accelopt check --format json``; lines and columns from 1."""
    return {
        "schema_version": SCHEMA_VERSION,
        "diagnostics": [_row(d) for d in report.diagnostics],
        "files": report.files,
        "kernels_analyzed": report.kernels_analyzed,
        "kernels_unknown": report.kernels_unknown,
        "problems": [{"path": path, "message": text} for path, text in report.problems],
        "suppressed_by_baseline": report.suppressed_by_baseline,
    }


def _row(found: FileDiagnostic) -> dict[str, Any]:
    span = found.diagnostic.span
    return {
        "path": found.path,
        "line": span.start.line,
        "column": span.start.column,
        "end_line": span.end.line,
        "end_column": span.end.column,
        "code": found.diagnostic.code,
        "severity": found.diagnostic.severity.value,
        "message": found.diagnostic.message,
        "fixable": found.fixable,
        "related": [
            {
                "path": shown_path(r.path or found.path),
                "line": r.span.start.line,
                "message": r.message,
            }
            for r in found.diagnostic.related
        ],
    }


def shown_path(path: str) -> str:
    """A path below the current folder as relative to it, as the checked files are named."""
    try:
        return Path(path).relative_to(Path.cwd()).as_posix()
    except ValueError:
        return Path(path).as_posix()


def to_text(report: CheckReport) -> str:
    """One line a finding, as compilers print them, and a summary."""
    lines = []
    for found in report.diagnostics:
        start = found.diagnostic.span.start
        mark = " [*]" if found.fixable else ""
        lines.append(
            f"{found.path}:{start.line}:{start.column}: {found.diagnostic.severity.value} "
            f"{found.diagnostic.code}{mark} {found.diagnostic.message}"
        )
        for related in found.diagnostic.related:
            file = f"{shown_path(related.path)}:" if related.path is not None else "line "
            lines.append(f"    {file}{related.span.start.line}: {related.message}")
    lines.extend(f"{path}: {message}" for path, message in report.problems)
    lines.append(summary(report))
    return "\n".join(lines)


def summary(report: CheckReport) -> str:
    """``2 errors, 1 warning in 3 files, 4 kernels``."""
    counts = [
        _plural(report.count(severity), severity.value)
        for severity in Severity
        if report.count(severity)
    ]
    found = ", ".join(counts) or "no findings"
    text = (
        f"{found} in {_plural(report.files, 'file')}, {_plural(report.kernels_analyzed, 'kernel')}"
    )
    if report.kernels_unknown:
        of_all = "" if report.kernels_analyzed == 1 else f" of {report.kernels_unknown}"
        text += f" (arguments{of_all} unknown: docs/arguments.md)"
    fixable = sum(d.fixable for d in report.diagnostics)
    if fixable:
        text += f"; {fixable} fixable with --fix"
    others = sum(d.diagnostic.fix is not None for d in report.diagnostics) - fixable
    if others:
        text += f"; {others}{' more' if fixable else ''} with a quick fix in an editor"
    if report.suppressed_by_baseline:
        text += f"; {report.suppressed_by_baseline} known from the baseline"
    return text


def _plural(count: int, noun: str) -> str:
    if noun == "information":
        return f"{count} information"
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def to_github(report: CheckReport) -> str:
    """Workflow commands that GitHub shows at the lines of a pull request."""
    lines = []
    for found in report.diagnostics:
        span = found.diagnostic.span
        level = _GITHUB_LEVELS[found.diagnostic.severity]
        place = (
            f"file={_property(found.path)},line={span.start.line},col={span.start.column},"
            f"endLine={span.end.line},endColumn={span.end.column},"
            f"title={_property(found.diagnostic.code)}"
        )
        lines.append(f"::{level} {place}::{_data(found.diagnostic.message)}")
    lines.extend(
        f"::error file={_property(path)}::{_data(message)}" for path, message in report.problems
    )
    return "\n".join(lines)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def to_sarif(report: CheckReport) -> dict[str, Any]:
    """SARIF 2.1.0; columns are Unicode code points."""
    from accelopt_lsp.analysis.rules import find_rule

    codes = sorted({d.diagnostic.code for d in report.diagnostics})
    rules = []
    for code in codes:
        rule = find_rule(code)
        entry: dict[str, Any] = {"id": code}
        if rule is not None:
            entry["name"] = rule.name
            entry["shortDescription"] = {"text": rule.name.replace("-", " ")}
            entry["help"] = {"text": rule.page(), "markdown": rule.page()}
        rules.append(entry)
    driver = {"name": "accelopt", "version": __version__, "rules": rules}
    return {
        "$schema": _SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "columnKind": "unicodeCodePoints",
                "results": [_result(d, codes) for d in report.diagnostics],
            }
        ],
    }


def _result(found: FileDiagnostic, codes: list[str]) -> dict[str, Any]:
    span = found.diagnostic.span
    region = {
        "startLine": span.start.line,
        "startColumn": span.start.column,
        "endLine": span.end.line,
        "endColumn": span.end.column,
    }
    result: dict[str, Any] = {
        "ruleId": found.diagnostic.code,
        "ruleIndex": codes.index(found.diagnostic.code),
        "level": _SARIF_LEVELS[found.diagnostic.severity],
        "message": {"text": found.diagnostic.message},
        "locations": [
            {"physicalLocation": {"artifactLocation": {"uri": _uri(found.path)}, "region": region}}
        ],
        "partialFingerprints": {"accelopt/v1": found.fingerprint()},
    }
    if found.diagnostic.related:
        result["relatedLocations"] = [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": shown_path(r.path or found.path)},
                    "region": {"startLine": r.span.start.line},
                },
                "message": {"text": r.message},
            }
            for r in found.diagnostic.related
        ]
    return result


def _uri(path: str) -> str:
    """A path as a URI; relative ones stay relative."""
    place = Path(path)
    return place.as_uri() if place.is_absolute() else quote(place.as_posix())


def render(report: CheckReport, form: str) -> str:
    """A report in one of the formats ``text``, ``json``, ``sarif`` and ``github``."""
    if form == "text":
        return to_text(report)
    if form == "github":
        return to_github(report)
    data = to_json(report) if form == "json" else to_sarif(report)
    return json.dumps(data, indent=2, ensure_ascii=False)
