"""What analysis says about kernels that are known to work.

    valid_kernels.py CHECKOUT... [--target NAME ...] [--given] [--show CODE] [--json FILE]

CHECKOUTs are working copies of AWS's public repositories: nki-library, nki-samples, the SDK
documentation (today's and that of release 2.26), and of github.com/zhang677/AccelOpt with NKIBench.
Every Python file in which ``nki.jit`` or one of its siblings makes a kernel is analyzed, with all
arguments that can be found, on each kernel's default target and on each ``--target``.

A rule may be an error only where no kernel of these fails, so whatever is an error is printed. A
kernel that breaks a rule on purpose, and an example that is broken, stands in
``valid_kernels.toml`` with its reason. Anything else makes the script exit with 1; entries that
nothing needs are printed too. The table at the end counts files and places by code and severity:
a warning on many valid kernels is wrong, or should be a hint; ``--show CODE`` lists its places.

``--given`` analyzes the cases of ``static_counts.py`` as well, each in a process of its own:
kernels with the arguments that their own examples, tests and benchmarks call them with.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path

import static_cases
import static_counts
from attrs import asdict, evolve, frozen
from static_cases import Case

from accelopt_lsp.analysis import AnalysisOptions, analyze
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.arguments import parse_spec
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


def jobs_of(checkouts: Iterable[Path], targets: list[str]) -> list[Job]:
    """Analyses of whole files, in the order of the files."""
    found: list[Job] = []
    for checkout in checkouts:
        for file in kernel_files(checkout):
            shown = f"{checkout.name}/{file.relative_to(checkout).as_posix()}"
            found.append(Job(file, shown))
            found.extend(Job(file, shown, target, target) for target in targets)
    return found


_COLLECTIONS = {
    "nkibench": "NKIBench",
    "samples": "src/nki_samples",
    "sdk": "nki/examples",
    "sdk_legacy": "general/nki/examples",
    "library": "src/nkilib_src",
}
"""A folder by which each collection of static_cases.py is recognised."""


def cases_of(checkouts: Iterable[Path], scratch: Path) -> list[Case]:
    """Kernels with the arguments that they are called with."""
    found: dict[str, Path | None] = dict.fromkeys(_COLLECTIONS)
    for checkout in checkouts:
        for name, folder in _COLLECTIONS.items():
            if (checkout / folder).is_dir():
                found[name] = checkout.resolve()
    if found["library"] is not None:
        found["library"] = static_counts.repaired(found["library"], scratch)
    return list(static_cases.find_cases(**found))


CHUNK = 8
"""Cases that one process analyzes after each other."""


def run_cases(cases: list[Case]) -> tuple[list[Place], list[str]]:
    """Some cases in a process of their own: what was said, and what could not be analyzed."""
    texts = [case.to_json() for case in cases]
    command = [sys.executable, __file__, "--cases", *texts]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    except subprocess.TimeoutExpired:
        return [], [f"{case.name}: longer than 900 s" for case in cases]
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or [""])[-1]
        return [], [f"{case.name}: {reason}" for case in cases]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    return [Place(**row) for row in found["places"]], found["problems"]


def child(texts: list[str]) -> int:
    """Analyze cases and print what was said about them as JSON."""
    from accelopt_lsp.profiler.simulator import hook
    from accelopt_lsp.profiler.simulator.kernels import Kernel

    sys.path.insert(0, str(static_cases.CONFORMANCE))
    hook.install()
    launch = vars(Kernel)["launch"]
    places: list[dict[str, object]] = []
    problems: list[str] = []
    for text in texts:
        case = Case(**json.loads(text))
        try:
            places.extend(asdict(place) for place in places_of(case))
        except Exception as error:  # noqa: BLE001 - whatever a file raises belongs into the list
            problems.append(f"{case.name}: {type(error).__name__}: {error}")
        # An example's call is caught where it would launch; the next file may launch for itself.
        setattr(Kernel, "launch", launch)  # noqa: B010 - a method, which mypy lets nobody assign
    print()
    print(json.dumps({"places": places, "problems": problems}))
    return 0


def places_of(case: Case) -> list[Place]:
    """What is said about a case's kernels with the arguments that they are called with."""
    with tempfile.TemporaryDirectory() as scratch:
        calls = static_cases.calls_of(case, lambda tree: tree, Path(scratch))
        return [place for call in calls for place in _said(case, call)]


def _said(case: Case, call: static_cases.Call) -> list[Place]:
    kernel = static_counts.kernel_of(case, call)
    name = kernel.function.__qualname__.replace(".<locals>", "")
    values = {n: parse_spec(spec) for n, spec in call.arguments.items()}
    options = AnalysisOptions(
        target=call.target, overrides={name: values}, grid=call.grid, suppressions=False
    )
    file = Path(static_counts.file_of(case, call))
    result = analyze(Document.parse(file.read_text("utf-8")), path=file, options=options)
    shown = f"{case.collection}/{file.relative_to(case.checkout).as_posix()}"
    label = ", ".join(filter(None, ("given arguments", case.label)))
    return [
        Place(shown, d.span.start.line, d.code, d.severity.value, d.message, label)
        for k in result.kernels
        if name in (k.source.name, k.source.qualname)
        for d in k.diagnostics
    ]


def analyzed(job: Job) -> tuple[int, list[Place]]:
    """Kernels that were analyzed, and what was said about them."""
    options = AnalysisOptions(target=job.target, nki_version=job.version, suppressions=False)
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
    parser.add_argument("checkouts", nargs="*", type=Path, metavar="CHECKOUT")
    parser.add_argument("--target", action="append", default=[], help="analyze for it as well")
    parser.add_argument("--nki-version", help="as if the project's settings said so")
    parser.add_argument("--given", action="store_true", help="with arguments of their own calls")
    parser.add_argument("--cases", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--show", action="append", default=[], metavar="CODE")
    parser.add_argument("--json", type=Path, help="write all diagnostics to a file")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    options = parser.parse_args()
    if options.cases:
        return child(options.cases)
    for checkout in options.checkouts:
        if not checkout.is_dir():
            parser.error(f"no such folder: {checkout}")
    if not options.checkouts:
        parser.error("name a checkout")
    jobs = jobs_of(options.checkouts, options.target)
    jobs = [evolve(job, version=options.nki_version) for job in jobs]
    kernels, places = 0, []
    with ProcessPoolExecutor(max_workers=options.jobs) as pool:
        for job, (count, found) in zip(jobs, pool.map(analyzed, jobs, chunksize=2), strict=True):
            kernels += count if not job.label else 0
            places.extend(found)
    analyses = len(jobs)
    if options.given:
        with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(options.jobs) as threads:
            cases = cases_of(options.checkouts, Path(scratch))
            analyses += len(cases)
            chunks = [cases[i : i + CHUNK] for i in range(0, len(cases), CHUNK)]
            for found, problems in threads.map(run_cases, chunks):
                places.extend(found)
                for problem in problems:
                    print("not analyzed:", problem.splitlines()[0][:200])
    unexpected = report(places, known_errors(), options.show)
    table(places)
    number = len({job.shown for job in jobs})
    print(
        f"\n{number} files, {kernels} kernels, {analyses} analyses, {unexpected} unexpected errors"
    )
    if options.json is not None:
        rows = [asdict(place) for place in places]
        options.json.write_text(json.dumps(rows, indent=1), "utf-8")
    return int(unexpected > 0)


if __name__ == "__main__":
    sys.exit(main())
