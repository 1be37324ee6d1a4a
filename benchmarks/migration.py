"""How many legacy kernels ``accelopt migrate`` turns into current ones that compute the same.

Usage: ``python benchmarks/migration.py CHECKOUT...``

Each CHECKOUT is a working copy of github.com/zhang677/AccelOpt (its NKIBench), of
github.com/aws-neuron/aws-neuron-sdk at tag v2.26.0 (its legacy tutorials), or any other folder,
whose legacy kernels get their arguments from directives; without one the repository's own kernels
are taken. Every kernel is migrated and run in a process of its own. NKIBench's are held against
their references, all others against the original on the same inputs. Printed is one line a kernel,
with the reason where it is not migrated or computes something else, and the totals.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from static_cases import Case, calls_of, find_cases

ROOT = Path(__file__).parents[1]
OWN = (
    "examples/legacy",
    "tests/analysis/kernels",
    "tests/analysis/cases",
    "tests/rewrites/cases",
    "tests/simulator/kernels/legacy",
)
PLAIN = "folder"
_FRAMEWORKS = re.compile(
    r"^(?:(?:import|from) (?:torch|scipy|jax)\b|\w+ = nki\.compiler\.).*$", re.MULTILINE
)


def cases_of(checkout: Path) -> Iterator[Case]:
    """The legacy kernels of a checkout, by what it is a checkout of."""
    if (checkout / "NKIBench").is_dir():
        yield from find_cases(checkout, None, None, None, None)
    elif (checkout / "general" / "nki" / "examples").is_dir():
        yield from find_cases(None, None, None, checkout, None)
    else:
        yield from plain_cases(checkout, (checkout,))


def plain_cases(checkout: Path, folders: tuple[Path, ...]) -> Iterator[Case]:
    """Legacy kernels of folders, one case a file."""
    from accelopt_lsp.analysis.kernels import find_kernels
    from accelopt_lsp.analysis.syntax import Document
    from accelopt_lsp.nki.dialects import Dialect

    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            text = path.read_text("utf-8", "replace")
            if "neuronxcc" not in text or path.name.endswith(".out.py"):
                continue
            found = [k for k in find_kernels(Document.parse(text)) if k.dialect is Dialect.LEGACY]
            if found:
                yield Case(PLAIN, str(path), found[0].qualname, checkout=str(checkout))


def migrated(case: Case) -> dict[str, Any]:
    """What came of one case: ``outcome`` is ``same``, ``differs``, ``refused`` or ``not run``."""
    from accelopt_lsp.workbench.migrate import MigrateRequest, migrate_file
    from accelopt_lsp.workbench.requests import KernelRequest, RequestError

    path = Path(case.file)
    try:
        if case.collection != PLAIN:
            return _with_arguments(case)
        request = MigrateRequest(KernelRequest(path))
        report = asyncio.run(migrate_file(request))
    except RequestError as error:
        return {"outcome": "refused", "reason": str(error)}
    done = [c for c in report.checks if c.correct is not None]
    wrong = [c for c in done if not c.correct]
    if wrong:
        return {"outcome": "differs", "reason": wrong[0].reason or f"error {wrong[0].error}"}
    if not done:
        return {"outcome": "not run", "reason": report.checks[0].reason}
    return {"outcome": "same", "error": max(c.error or 0.0 for c in done)}


def _with_arguments(case: Case) -> dict[str, Any]:
    """A kernel whose arguments its checkout has in a reference or a test of its own."""
    from accelopt_lsp.analysis.kernels import find_kernels
    from accelopt_lsp.analysis.syntax import Document
    from accelopt_lsp.nki.arguments import KernelArguments, parse_spec
    from accelopt_lsp.nki.targets import get_target
    from accelopt_lsp.profiler.base import Job, Limits
    from accelopt_lsp.profiler.simulator import hook
    from accelopt_lsp.rewrites import NotApplicable
    from accelopt_lsp.rewrites.migrate import migrate_text
    from accelopt_lsp.workbench.migrate import check_migration

    path = Path(case.file)
    hook.install()
    try:
        with tempfile.TemporaryDirectory() as scratch:
            call = calls_of(case, lambda tree: tree, Path(scratch))[0]
    finally:
        hook.uninstall()
    values = {name: parse_spec(spec) for name, spec in call.arguments.items()}
    given = KernelArguments(values=values, grid=call.grid)
    target = call.target or "trn1"
    # Kernels of tutorials stand beside what runs them, which nothing here needs.
    text = _FRAMEWORKS.sub("", path.read_text("utf-8"))
    launched = getattr(call.function, "function", None)
    function = getattr(launched, "__name__", case.function)
    names = [k.qualname for k in find_kernels(Document.parse(text)) if k.name == function]
    try:
        made = migrate_text(text, dict.fromkeys(names, given), get_target(target), only=function)
    except NotApplicable as error:
        return {"outcome": "refused", "reason": str(error)}
    reference = Path(case.source) if case.collection == "nkibench" else None
    job = Job(
        path=path,
        source=made.text,
        function=names[0] if names else function,
        arguments=given,
        target=target,
        seeds=(0,),
        reference=reference,
        baseline=None if reference else text,
        limits=Limits(seconds=900.0),
    )
    check = asyncio.run(check_migration(job))
    if check.correct:
        return {"outcome": "same", "error": check.error}
    if check.correct is None:
        return {"outcome": "not run", "reason": check.reason}
    return {"outcome": "differs", "reason": check.reason or f"relative error {check.error}"}


def run_case(case: Case, seconds: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", case.to_json()]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return {"outcome": "not run", "reason": f"not done within {seconds} s"}
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        last = done.stderr.strip().splitlines()
        return {"outcome": "not run", "reason": last[-1] if last else "the process ended"}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("checkouts", nargs="*", type=Path, metavar="CHECKOUT")
    parser.add_argument("--jobs", type=int, default=1, help="kernels at a time")
    parser.add_argument("--seconds", type=int, default=900, help="limit for one kernel")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases with TEXT in their name")
    parser.add_argument("--one", metavar="CASE", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        print(json.dumps(migrated(Case(**json.loads(options.one)))))
        return 0
    cases = [case for checkout in options.checkouts for case in cases_of(checkout.resolve())]
    if not options.checkouts:
        cases = list(plain_cases(ROOT, tuple(ROOT / folder for folder in OWN)))
    cases = [case for case in cases if options.only in case.name]
    totals: dict[str, int] = {}
    with ThreadPoolExecutor(options.jobs) as pool:
        for case, row in zip(
            cases, pool.map(lambda c: run_case(c, options.seconds), cases), strict=True
        ):
            totals[row["outcome"]] = totals.get(row["outcome"], 0) + 1
            error = row.get("error")
            tail = row.get("reason") or (f"relative error {error:.2g}" if error else "")
            print(f"{row['outcome']:8} {case.name}  {tail}".rstrip(), flush=True)
    listed = ", ".join(f"{count} {name}" for name, count in sorted(totals.items()))
    print(f"{len(cases)} kernels: {listed}")
    return int("differs" in totals)


if __name__ == "__main__":
    raise SystemExit(main())
