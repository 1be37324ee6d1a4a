"""pytest plugin: one JSON line a test, for the tables of ``benchmarks/conformance``.

The file is named by ``CONFORMANCE_REPORT``; ``CONFORMANCE_SECONDS`` limits one test's time on the
processor, so that what else runs does not decide which tests end.
``CONFORMANCE_CASES`` limits the cases of one test function: those with the smallest numbers in
their names are run, which are the smallest shapes.
"""

from __future__ import annotations

import json
import math
import os
import re
import signal
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest


class TooSlow(BaseException):
    """A test took longer than a table is worth waiting for."""


def _stop(signum: int, frame: FrameType | None) -> None:
    raise TooSlow(f"longer than {os.environ['CONFORMANCE_SECONDS']} s")


def _size(item: Any) -> tuple[bool, float]:
    """Small shapes first, and after them those beyond what a kernel takes."""
    numbers = [int(n) for n in re.findall(r"\d+", item.name)]
    return "boundary" in item.name, sum(math.log2(n) for n in numbers if n > 1)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Keep the smallest cases of each test function, and begin with the smallest of all."""
    limit = int(os.environ.get("CONFORMANCE_CASES", "0"))
    if not limit:
        return
    functions: dict[str, list[Any]] = {}
    for item in items:
        functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = [i for cases in functions.values() for i in sorted(cases, key=_size)[:limit]]
    config.hook.pytest_deselected(items=[i for i in items if i not in kept])
    items[:] = sorted(kept, key=_size)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: Any) -> Iterator[None]:
    """Limit the test's time."""
    seconds = int(os.environ.get("CONFORMANCE_SECONDS", "0"))
    if seconds:
        signal.signal(signal.SIGPROF, _stop)
        signal.setitimer(signal.ITIMER_PROF, seconds)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Iterator[None]:
    """Write what came of it, with the last line of the exception that stopped it."""
    result = yield
    report = result.get_result()  # type: ignore[attr-defined]
    if report.when != "call" and report.outcome == "passed":
        return
    why = ""
    if call.excinfo is not None:
        value = call.excinfo.value
        cause = _root(value)
        text = re.sub(r"\s+", " ", str(cause)).strip()
        where = _where(cause)
        why = f"{type(cause).__name__}: {text}{where}"
    outcome = report.outcome
    if hasattr(report, "wasxfail") and outcome == "skipped":
        outcome, why = "passed", f"the test expects it to fail: {why}"
    line = {
        "id": item.nodeid,
        "outcome": outcome,
        "why": why,
        "seconds": round(time.time() - call.start, 3),
        "ran": dict(item.user_properties).get("ran", {}),
    }
    with open(os.environ["CONFORMANCE_REPORT"], "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _root(error: BaseException) -> BaseException:
    """The first cause of an exception."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _where(error: BaseException) -> str:
    """Where in the tested checkout it was raised."""
    trace, found = error.__traceback__, ""
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if "accelopt_lsp" not in path and "site-packages" not in path and "/lib/python" not in path:
            found = f" ({os.path.basename(path)}:{trace.tb_lineno})"
        trace = trace.tb_next
    return found
