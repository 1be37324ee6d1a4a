"""Check files: analysis over many paths, with excludes, suppressions and a baseline."""

from __future__ import annotations

import fnmatch
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from accelopt_lsp.analysis import AnalysisOptions, FileAnalysis, analyze
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.arguments import ArgumentSpec
from accelopt_lsp.nki.diagnostics import Diagnostic, Severity
from accelopt_lsp.workbench.requests import RequestError, read_source
from accelopt_lsp.workbench.settings import Settings, settings_for

DEFAULT_EXCLUDES = (
    ".git",
    ".hg",
    ".venv",
    "venv",
    "node_modules",
    "__pycache__",
    "build",
    "dist",
    ".tox",
    ".mypy_cache",
    ".ruff_cache",
    "site-packages",
)
PARALLEL_FROM = 12
"""Fewer files are done before a pool of processes has started."""
MAX_FILE_BYTES = 4_000_000
_NKI_WORDS = ("nki",)


@frozen(slots=True)
class FileDiagnostic:
    """A finding with the file it is in.

    Attributes:
        path: as given by the caller, with forward slashes.
        diagnostic: the finding.
        line_text: the line it starts on, stripped; a baseline recognises findings by it.
    """

    path: str
    diagnostic: Diagnostic
    line_text: str = ""

    @property
    def fixable(self) -> bool:
        return self.diagnostic.fix is not None

    def fingerprint(self) -> str:
        """Identity for baselines: path, code and text of the line, not its number."""
        text = f"{self.path}\0{self.diagnostic.code}\0{self.line_text}"
        return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@frozen(slots=True)
class CheckReport:
    """What a check found.

    Attributes:
        diagnostics: by path and place.
        files: files that were looked at.
        kernels_analyzed: kernels in them.
        problems: files that could not be read, with the reason.
        suppressed_by_baseline: findings that the baseline knows.
    """

    diagnostics: tuple[FileDiagnostic, ...] = ()
    files: int = 0
    kernels_analyzed: int = 0
    problems: tuple[tuple[str, str], ...] = field(default=())
    suppressed_by_baseline: int = 0

    def count(self, severity: Severity) -> int:
        return sum(d.diagnostic.severity is severity for d in self.diagnostics)

    def exit_code(self, *, strict: bool = False) -> int:
        """1 with an error (with anything at all if ``strict``), else 0."""
        if strict:
            return int(bool(self.diagnostics))
        return int(self.count(Severity.ERROR) > 0)


def options_for(
    settings: Settings,
    target: str | None = None,
    overrides: Mapping[str, ArgumentSpec | Mapping[str, ArgumentSpec]] | None = None,
    path: Path | None = None,
) -> AnalysisOptions:
    """Analysis options from settings for a file; ``target`` wins over what files say."""
    return AnalysisOptions(
        target=target,
        default_target=settings.target,
        nki_version=settings.nki_version,
        ignore=settings.ignored_in(path),
        severities=settings.severity,
        overrides=overrides or {},
    )


def check_text(
    text: str,
    path: Path | None = None,
    settings: Settings | None = None,
    *,
    target: str | None = None,
) -> FileAnalysis:
    """Analyze one text. Never raises on its contents."""
    options = options_for(settings or Settings(), target, path=path)
    return analyze(Document.parse(text), path=path, options=options)


def check_paths(
    paths: Iterable[Path],
    settings: Settings | None = None,
    *,
    target: str | None = None,
    baseline: Path | None = None,
    progress: Callable[[int, int], Any] | None = None,
    jobs: int | None = None,
) -> CheckReport:
    """Check files, folders and patterns such as ``kernels/*.py``.

    Args:
        paths: what to check; a folder means all its Python files.
        settings: settings for all files; None takes each file's project.
        target: target that wins over what the files say.
        baseline: file of known findings, which are not reported again.
        progress: called with (files done, files in all).
        jobs: worker processes; None takes one a core.

    Raises:
        RequestError: a path does not exist, or the baseline cannot be read.
        SettingsError: a project's settings cannot be used.
    """
    known = read_baseline(baseline) if baseline is not None else frozenset()
    files = list(find_files(paths, settings))
    found: list[FileDiagnostic] = []
    problems: list[tuple[str, str]] = []
    kernels = 0
    for done, result in enumerate(_run(files, settings, target, jobs), 1):
        if progress is not None:
            progress(done, len(files))
        kernels += result.kernels
        found.extend(result.diagnostics)
        if result.problem is not None:
            problems.append((result.path, result.problem))
    kept = [d for d in found if d.fingerprint() not in known]
    return CheckReport(
        tuple(sorted(kept, key=lambda d: (d.path, d.diagnostic.span, d.diagnostic.code))),
        len(files),
        kernels,
        tuple(problems),
        len(found) - len(kept),
    )


@frozen(slots=True)
class _Result:
    path: str
    diagnostics: tuple[FileDiagnostic, ...] = ()
    kernels: int = 0
    problem: str | None = None


def _run(
    files: list[Path], settings: Settings | None, target: str | None, jobs: int | None
) -> Iterator[_Result]:
    workers = jobs if jobs is not None else (os.cpu_count() or 1)
    work = [(path, settings, target) for path in files]
    if len(files) < PARALLEL_FROM or workers < 2:
        yield from map(_check_file, work)
        return
    with ProcessPoolExecutor(max_workers=workers) as pool:
        yield from pool.map(_check_file, work, chunksize=4)


def _check_file(work: tuple[Path, Settings | None, str | None]) -> _Result:
    path, settings, target = work
    shown = path.as_posix()
    try:
        text = read_source(path)
    except RequestError as error:
        return _Result(shown, problem=str(error))
    if len(text) > MAX_FILE_BYTES or not any(word in text for word in _NKI_WORDS):
        return _Result(shown)
    settings = settings or settings_for(path)
    try:
        analysis = check_text(text, path, settings, target=target)
    except Exception as error:
        # One file that cannot be analyzed must not hide what the others hold.
        reason = f"the analysis failed ({type(error).__name__}: {error}); this is a defect"
        return _Result(shown, problem=reason)
    lines = text.split("\n")
    found = tuple(
        FileDiagnostic(shown, d, _line(lines, d.span.start.line)) for d in analysis.diagnostics
    )
    return _Result(shown, found, len(analysis.kernels))


def _line(lines: list[str], number: int) -> str:
    return lines[number - 1].strip() if 1 <= number <= len(lines) else ""


def find_files(paths: Iterable[Path], settings: Settings | None = None) -> Iterator[Path]:
    """Python files of paths, folders and patterns, each once, in a stable order.

    Files that are named are always checked; excludes apply to what a folder holds.

    Raises:
        RequestError: a path does not exist, or a pattern matches nothing.
    """
    seen: set[Path] = set()
    for path in paths:
        for file in _expand(path, settings):
            key = file.resolve()
            if key not in seen:
                seen.add(key)
                yield file


def _expand(path: Path, settings: Settings | None) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    if path.is_dir():
        patterns = (settings or settings_for(path)).exclude
        yield from _walk(path, patterns)
        return
    text = str(path)
    if any(char in text for char in "*?["):
        anchor = Path(path.anchor) if path.anchor else Path()
        relative = text[len(path.anchor) :] if path.anchor else text
        matches = sorted(p for p in anchor.glob(relative) if p.is_file())
        if matches:
            yield from (m for m in matches if m.suffix in (".py", ".pyi"))
            return
        raise RequestError(f"no file matches {text}")
    raise RequestError(f"no such file or folder: {path}")


def _walk(folder: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        here = Path(root)
        folders[:] = sorted(f for f in folders if not _excluded(here / f, folder, patterns))
        for name in sorted(names):
            file = here / name
            if name.endswith(".py") and not _excluded(file, folder, patterns):
                yield file


def _excluded(path: Path, folder: Path, patterns: tuple[str, ...]) -> bool:
    if path.name in DEFAULT_EXCLUDES:
        return True
    relative = path.relative_to(folder).as_posix()
    return any(
        fnmatch.fnmatch(relative, p) or fnmatch.fnmatch(path.name, p.rstrip("/")) for p in patterns
    )


def read_baseline(path: Path) -> frozenset[str]:
    """Fingerprints of known findings.

    Raises:
        RequestError: it cannot be read.
    """
    try:
        data = json.loads(path.read_text("utf-8"))
        return frozenset(str(item) for item in data["fingerprints"])
    except FileNotFoundError:
        raise RequestError(f"no such baseline: {path}; write one with --write-baseline") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RequestError(f"cannot read the baseline {path}: {error}") from None


def write_baseline(report: CheckReport, path: Path) -> None:
    """Write all findings of a report as known."""
    fingerprints = sorted({d.fingerprint() for d in report.diagnostics})
    text = json.dumps({"schema_version": 1, "fingerprints": fingerprints}, indent=2)
    path.write_text(text + "\n", encoding="utf-8")


def relative_to(report: CheckReport, folder: Path) -> CheckReport:
    """The same report with paths relative to a folder, where they are below it."""
    base = folder.resolve()

    def shown(path: str) -> str:
        full = Path(path).resolve()
        return full.relative_to(base).as_posix() if full.is_relative_to(base) else path

    moved = tuple(evolve(d, path=shown(d.path)) for d in report.diagnostics)
    return evolve(report, diagnostics=moved)
