"""What analysis says about kernels that are known to work.

    valid_kernels.py CHECKOUT... [--target NAME ...] [--arguments FILE] [--show CODE] [--json FILE]

CHECKOUTs are working copies of AWS's public repositories: nki-library, nki-samples, the SDK
documentation (today's and that of release 2.26), and of github.com/zhang677/AccelOpt with NKIBench.
Every Python file in which ``nki.jit`` or one of its siblings makes a kernel is analyzed, with all
arguments that can be found, on each kernel's default target and on each ``--target``.

A rule may be an error only where no kernel of these fails, so whatever is an error is printed. A
kernel that breaks a rule on purpose, and an example that is broken, stands in
``valid_kernels.toml`` with its reason. Anything else makes the script exit with 1; entries that
nothing needs are printed too. The table at the end counts files and places by code and severity:
a warning on many valid kernels is wrong, or should be a hint; ``--show CODE`` lists its places.

``--arguments`` is ``conformance/nki_library_arguments.toml`` or a file like it: the kernels that
it names are analyzed once more for every case, with its arguments.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from accelopt_lsp.analysis import AnalysisOptions, analyze
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.arguments import ArgumentSpec, LiteralSpec, parse_spec
from accelopt_lsp.nki.diagnostics import Severity

KNOWN = Path(__file__).with_suffix(".toml")
WORDS = ("nki.jit", "nki_jit", "nki.baremetal", "nki.benchmark", "nki.profile", "@jit", "nki.trace")
SKIPPED = frozenset({".git", "__pycache__", "build", ".venv", "venv"})


@frozen(slots=True)
class Job:
    """One analysis of one file."""

    file: Path
    shown: str
    target: str | None = None
    label: str = ""
    kernel: str | None = None
    arguments: Mapping[str, ArgumentSpec] = field(factory=dict)
    version: str | None = None


@frozen(slots=True)
class Place:
    """One diagnostic."""

    file: str
    line: int
    code: str
    severity: str
    message: str
    label: str

    def text(self) -> str:
        how = f" ({self.label})" if self.label else ""
        return f"{self.file}:{self.line}: {self.severity} {self.code}{how} {self.message}"


@frozen(slots=True)
class Known:
    """Errors that are right: file pattern, codes and the reason; counts its uses."""

    file: str
    codes: tuple[str, ...]
    reason: str
    text: str = ""

    def covers(self, place: Place) -> bool:
        fits = fnmatch(place.file, f"*{self.file}") and self.text in place.message
        return fits and place.code in self.codes


def kernel_files(checkout: Path) -> Iterator[Path]:
    """Python files of a checkout that make kernels."""
    for file in sorted(checkout.rglob("*.py")):
        if SKIPPED.isdisjoint(file.relative_to(checkout).parts):
            text = file.read_text("utf-8", errors="replace")
            if any(word in text for word in WORDS):
                yield file


def jobs_of(checkouts: Iterable[Path], targets: list[str], arguments: Path | None) -> list[Job]:
    """All analyses, in the order of the files."""
    found: list[Job] = []
    cases = _cases(arguments)
    for checkout in checkouts:
        for file in kernel_files(checkout):
            shown = f"{checkout.name}/{file.relative_to(checkout).as_posix()}"
            found.append(Job(file, shown))
            found.extend(Job(file, shown, target, target) for target in targets)
            for path, kernel, label, values in cases:
                if shown.endswith(path):
                    found.append(Job(file, shown, None, label, kernel, values))
    return found


def _cases(file: Path | None) -> list[tuple[str, str, str, Mapping[str, ArgumentSpec]]]:
    if file is None:
        return []
    found = []
    for case in tomllib.loads(file.read_text("utf-8"))["case"]:
        path, _, kernel = case["kernel"].partition("::")
        values = {}
        for name, value in case.get("arguments", {}).items():
            spec = _spec(value)
            if spec is not None:
                values[name] = spec
        label = ", ".join(filter(None, ("given arguments", case.get("label", ""))))
        found.append((path, kernel, label, values))
    return found


def _spec(value: Any) -> ArgumentSpec | None:
    """A value of the arguments' file; None for what a SPEC cannot say."""
    if isinstance(value, dict):
        value = value.get("tensor")
    if isinstance(value, str):
        try:
            return parse_spec(value)
        except ValueError:
            return None
    return LiteralSpec(value) if isinstance(value, bool | int | float) else None


def analyzed(job: Job) -> tuple[int, list[Place]]:
    """Kernels that were analyzed, and what was said about them."""
    overrides: dict[str, Any] = {}
    if job.kernel is not None:
        overrides[job.kernel] = dict(job.arguments)
    options = AnalysisOptions(
        target=job.target,
        overrides=overrides,
        nki_version=job.version,
        suppressions=False,
    )
    document = Document.parse(job.file.read_text("utf-8", errors="replace"))
    result = analyze(document, path=job.file, options=options)
    places = [
        Place(job.shown, d.span.start.line, d.code, d.severity.value, d.message, job.label)
        for d in result.diagnostics
    ]
    return len(result.kernels), places


def known_errors() -> list[Known]:
    table = tomllib.loads(KNOWN.read_text("utf-8"))
    return [
        Known(row["file"], tuple(row["codes"]), row["reason"], row.get("message", ""))
        for row in table.get("known", ())
    ]


def report(places: list[Place], known: list[Known], shown: list[str]) -> int:
    """Print what was found; how many errors are unexpected."""
    unexpected = 0
    used: Counter[Known] = Counter()
    seen: set[tuple[str, int, str, str]] = set()
    for place in places:
        key = (place.file, place.line, place.code, place.message)
        if place.severity != Severity.ERROR or key in seen:
            if place.code in shown and key not in seen:
                print(place.text())
            seen.add(key)
            continue
        seen.add(key)
        entry = next((k for k in known if k.covers(place)), None)
        if entry is not None:
            used[entry] += 1
        else:
            unexpected += 1
            print("UNEXPECTED", place.text())
    for entry in known:
        if used[entry]:
            print(f"known: {entry.file}: {' '.join(entry.codes)} x{used[entry]}: {entry.reason}")
        else:
            print(f"nothing needs: {entry.file}: {' '.join(entry.codes)}")
    return unexpected


def table(places: list[Place]) -> None:
    """Files and places by code and severity."""
    files: dict[tuple[str, str], set[str]] = defaultdict(set)
    spots: dict[tuple[str, str], set[tuple[str, int]]] = defaultdict(set)
    for place in places:
        key = (place.code, place.severity)
        files[key].add(place.file)
        spots[key].add((place.file, place.line))
    print(f"\n{'code':6}{'severity':14}{'files':>7}{'places':>8}")
    for code, severity in sorted(files):
        key = (code, severity)
        print(f"{code:6}{severity:14}{len(files[key]):>7}{len(spots[key]):>8}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkouts", nargs="+", type=Path, metavar="CHECKOUT")
    parser.add_argument("--target", action="append", default=[], help="analyze for it as well")
    parser.add_argument("--nki-version", help="as if the project's settings said so")
    parser.add_argument("--arguments", type=Path, help="arguments of kernels, as TOML")
    parser.add_argument("--show", action="append", default=[], metavar="CODE")
    parser.add_argument("--json", type=Path, help="write all diagnostics to a file")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    options = parser.parse_args()
    for checkout in options.checkouts:
        if not checkout.is_dir():
            parser.error(f"no such folder: {checkout}")
    jobs = jobs_of(options.checkouts, options.target, options.arguments)
    jobs = [evolve(job, version=options.nki_version) for job in jobs]
    kernels, places = 0, []
    with ProcessPoolExecutor(max_workers=options.jobs) as pool:
        for job, (count, found) in zip(jobs, pool.map(analyzed, jobs, chunksize=2), strict=True):
            kernels += count if not job.label else 0
            places.extend(found)
    unexpected = report(places, known_errors(), options.show)
    table(places)
    number = len({job.shown for job in jobs})
    print(
        f"\n{number} files, {kernels} kernels, {len(jobs)} analyses, {unexpected} unexpected errors"
    )
    if options.json is not None:
        rows = [
            {n: getattr(p, n) for n in ("file", "line", "code", "severity", "message", "label")}
            for p in places
        ]
        options.json.write_text(json.dumps(rows, indent=1), "utf-8")
    return int(unexpected > 0)


if __name__ == "__main__":
    sys.exit(main())
