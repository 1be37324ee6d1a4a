"""Check files: what the analysis of many paths finds, and which of it is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache as cache_by_argument
from hashlib import sha256
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from accelopt_lsp.nki.diagnostics import Diagnostic, Severity
from accelopt_lsp.workbench.check_cache import CheckCache, Checked, check_key
from accelopt_lsp.workbench.check_files import find_files
from accelopt_lsp.workbench.check_runs import Work, check_text, options_for, run_checks
from accelopt_lsp.workbench.requests import RequestError, read_source
from accelopt_lsp.workbench.settings import Settings, settings_for

__all__ = [
    "CheckReport",
    "FileDiagnostic",
    "Selection",
    "check_paths",
    "check_source",
    "check_text",
    "find_files",
    "options_for",
    "relative_to",
]
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
        """``--fix`` mends it; what other fixes change, somebody should look at."""
        return self.diagnostic.fix is not None and self.diagnostic.fix.safe

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
        kernels_unknown: those of them that lack an argument's SPEC, so that little could be said.
        problems: files that could not be read, with the reason.
        suppressed_by_baseline: findings that a baseline knows.
        cached: files whose findings an earlier check had left.
    """

    diagnostics: tuple[FileDiagnostic, ...] = ()
    files: int = 0
    kernels_analyzed: int = 0
    kernels_unknown: int = 0
    problems: tuple[tuple[str, str], ...] = field(default=())
    suppressed_by_baseline: int = 0
    cached: int = 0

    def count(self, severity: Severity) -> int:
        return sum(d.diagnostic.severity is severity for d in self.diagnostics)

    def exit_code(self, *, strict: bool = False) -> int:
        """1 with an error (with anything at all if ``strict``), else 0."""
        if strict:
            return int(bool(self.diagnostics))
        return int(self.count(Severity.ERROR) > 0)


@frozen(slots=True)
class Selection:
    """Which findings are reported: codes, or beginnings of codes.

    Attributes:
        select: only these; empty for all.
        ignore: not these.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    @classmethod
    def parse(cls, select: Iterable[str], ignore: Iterable[str]) -> Selection:
        """Codes, beginnings of codes and names of rules; several may be joined by commas.

        Raises:
            RequestError: no rule is called like that.
        """
        return cls(_codes(select), _codes(ignore))

    def takes(self, code: str) -> bool:
        return (not self.select or code.startswith(self.select)) and not (
            self.ignore and code.startswith(self.ignore)
        )


def _codes(given: Iterable[str]) -> tuple[str, ...]:
    texts = [part.strip() for item in given for part in item.split(",") if part.strip()]
    if not texts:
        return ()
    from accelopt_lsp.analysis.rules import find_rule, known_codes

    codes = []
    for text in texts:
        rule = find_rule(text)
        code = rule.code if rule is not None else text.upper()
        if not any(known.startswith(code) for known in known_codes()):
            raise RequestError(f"no rule is called {text!r}; accelopt explain CODE tells about one")
        codes.append(code)
    return tuple(codes)


def check_paths(
    paths: Iterable[Path],
    settings: Settings | None = None,
    *,
    target: str | None = None,
    selection: Selection | None = None,
    exclude: Sequence[str] = (),
    progress: Callable[[int, int], Any] | None = None,
    jobs: int | None = None,
    cache: CheckCache | None = None,
) -> CheckReport:
    """Check files, folders and patterns such as ``kernels/*.py``.

    Args:
        paths: what to check; a folder means all its Python files.
        settings: settings for all files; None takes each file's project.
        target: target that wins over what the files say.
        selection: which findings are reported.
        exclude: patterns of what folders hold that is left out, besides the settings'.
        progress: called with (files done, files in all).
        jobs: worker processes; None takes one a core.
        cache: findings of earlier checks. Where it knows all files, no worker is started.

    Raises:
        RequestError: a path does not exist.
        SettingsError: a project's settings cannot be used.
    """
    files = list(find_files(paths, settings, exclude))
    report = _Collector(selection or Selection())
    works: list[Work] = []
    settings_in = cache_by_argument(settings_for)
    for path in files:
        try:
            text = read_source(path)
        except RequestError as error:
            report.problem(path, str(error))
            continue
        if len(text) <= MAX_FILE_BYTES and any(word in text for word in _NKI_WORDS):
            works.append(Work(path, text, settings or settings_in(path.parent), target))
    keys = {w.path: check_key(w.path, w.text, w.settings, target) for w in works} if cache else {}
    known = cache.find(keys.values()) if cache is not None else {}
    new: dict[str, Checked] = {}
    left = []
    for work in works:
        checked = known.get(keys.get(work.path, ""))
        if checked is None:
            left.append(work)
        else:
            report.add(work, checked)
    done = len(files) - len(left)
    for work, checked, problem in run_checks(left, jobs):
        done += 1
        if checked is not None:
            report.add(work, checked)
            if cache is not None:
                new[keys[work.path]] = checked
        else:
            report.problem(work.path, problem)
        if progress is not None:
            progress(done, len(files))
    if cache is not None and new:
        cache.keep(new)
    return report.finished(len(files), len(works) - len(left))


def check_source(
    text: str,
    path: Path | None,
    *,
    target: str | None = None,
    selection: Selection | None = None,
) -> CheckReport:
    """Check a text that is in no file, or not yet.

    Args:
        text: the source.
        path: the file that it is meant for: whose project's settings count, and that is
            shown; None where nobody says.
        target: target that wins over what the text says.
        selection: which findings are reported.

    Raises:
        SettingsError: the project's settings cannot be used.
    """
    settings = settings_for(path or Path.cwd())
    report = _Collector(selection or Selection())
    work = Work(path or Path("-"), text, settings, target)
    analysis = check_text(text, path, settings, target=target)
    report.add(work, Checked.of(analysis))
    return report.finished(1, 0)


class _Collector:
    """Puts a report together."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._found: list[FileDiagnostic] = []
        self._problems: list[tuple[str, str]] = []
        self._kernels = self._unknown = 0

    def problem(self, path: Path, message: str) -> None:
        self._problems.append((path.as_posix(), message))

    def add(self, work: Work, checked: Checked) -> None:
        lines = work.text.split("\n") if checked.diagnostics else []
        shown = work.path.as_posix()
        self._kernels += checked.kernels
        self._unknown += checked.unknown
        for diagnostic in checked.diagnostics:
            if self._selection.takes(diagnostic.code):
                line = _line(lines, diagnostic.span.start.line)
                self._found.append(FileDiagnostic(shown, diagnostic, line))

    def finished(self, files: int, cached: int) -> CheckReport:
        self._found.sort(key=lambda d: (d.path, d.diagnostic.span, d.diagnostic.code))
        problems = tuple(sorted(self._problems))
        return CheckReport(
            tuple(self._found), files, self._kernels, self._unknown, problems, cached=cached
        )


def _line(lines: list[str], number: int) -> str:
    return lines[number - 1].strip() if 1 <= number <= len(lines) else ""


def relative_to(report: CheckReport, folder: Path) -> CheckReport:
    """The same report with paths relative to a folder, where they are below it."""
    base = folder.resolve()

    def shown(path: str) -> str:
        full = Path(path).resolve()
        return full.relative_to(base).as_posix() if full.is_relative_to(base) else path

    moved = tuple(evolve(d, path=shown(d.path)) for d in report.diagnostics)
    return evolve(report, diagnostics=moved)
