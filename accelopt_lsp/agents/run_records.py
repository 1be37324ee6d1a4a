"""One stored run, and how rows of the run store are read."""

from __future__ import annotations

import json
import re
import secrets
import sqlite3
import time
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from accelopt_lsp.agents.codec import CodecError, arguments_from_json, experience_from_json
from accelopt_lsp.agents.database import DatabaseProblem
from accelopt_lsp.agents.process_identity import is_alive, this_process
from accelopt_lsp.agents.roles import Experience
from accelopt_lsp.nki.arguments import KernelArguments


@frozen(slots=True)
class RunRecord:
    """A run as stored.

    Attributes:
        id: random, short enough to type.
        created, updated: seconds since the epoch.
        status: ``running``, ``interrupted`` (its process is gone), ``finished``, ``cancelled``,
            ``failed``.
        path, function, target, dialect, text, arguments, reference: the problem.
        settings: search settings as plain data.
        roles: name of each role's implementation.
        version: version of this package.
        initial: experiences given to the planner at the start, kept for a resumed run; None
            if the run did not get that far.
        baseline_ms, best_ms: latencies, as far as known.
        evaluations: evaluations that finished.
        result: the report of a finished run.
        process: which process carries it out, or did.
    """

    id: str
    created: float
    updated: float
    status: str
    path: str
    function: str
    target: str
    dialect: str
    text: str
    arguments: KernelArguments
    reference: str | None
    settings: Mapping[str, Any]
    roles: Mapping[str, str]
    version: str
    initial: tuple[Experience, ...] | None = None
    baseline_ms: float | None = None
    best_ms: float | None = None
    evaluations: int = 0
    result: Mapping[str, Any] | None = field(default=None, repr=False)
    process: str | None = None

    @property
    def at_work_elsewhere(self) -> bool:
        """Another process of this machine is carrying it out."""
        mine = self.process == this_process()
        return self.status == "running" and not mine and is_alive(self.process) is True

    def summary(self) -> dict[str, Any]:
        """One line of ``accelopt runs list``."""
        speedup = None
        if self.baseline_ms and self.best_ms:
            speedup = self.baseline_ms / self.best_ms
        return {
            "run": self.id,
            "created": self.created,
            "status": self.status,
            "path": self.path,
            "function": self.function,
            "target": self.target,
            "baseline_ms": self.baseline_ms,
            "best_ms": self.best_ms,
            "speedup": speedup,
            "evaluations": self.evaluations,
        }


class UnknownRun(LookupError):
    """No run has this id."""


def read_experience(text: str) -> Experience | None:
    """A stored experience; None if it cannot be read."""
    try:
        return experience_from_json(json.loads(text))
    except (CodecError, json.JSONDecodeError):
        return None


_JSON_COLUMNS = frozenset({"seeds", "outcome", "plan", "experience", "exchange"})


def decoded(row: sqlite3.Row) -> dict[str, Any]:
    return {
        name: json.loads(row[name]) if name in _JSON_COLUMNS else row[name]
        for name in row.keys()  # noqa: SIM118 - a Row iterates over values
        if name != "run"
    }


def read_record(row: sqlite3.Row) -> RunRecord:
    try:
        return RunRecord(
            id=row["id"],
            created=row["created"],
            updated=row["updated"],
            status=_status(row),
            path=row["path"],
            function=row["function"],
            target=row["target"],
            dialect=row["dialect"],
            text=row["text"],
            arguments=arguments_from_json(json.loads(row["arguments"])),
            reference=row["reference"],
            settings=json.loads(row["settings"]),
            roles=json.loads(row["roles"]),
            version=row["version"],
            initial=None
            if row["initial"] is None
            else tuple(experience_from_json(e) for e in json.loads(row["initial"])),
            baseline_ms=row["baseline_ms"],
            best_ms=row["best_ms"],
            evaluations=row["evaluations"],
            result=json.loads(row["result"]) if row["result"] else None,
            process=row["process"],
        )
    except (CodecError, json.JSONDecodeError) as error:
        raise DatabaseProblem(f"run {row['id']} cannot be read: {error}") from error


def _status(row: sqlite3.Row) -> str:
    gone = row["status"] == "running" and is_alive(row["process"]) is False
    return "interrupted" if gone else row["status"]


def place_in_search(name: str) -> tuple[int, ...]:
    """Numbers of a candidate's id: ``i2.c0.p10.a0.f0`` comes after ``i2.c0.p9.a0.f0``."""
    return tuple(int(number) for number in re.findall(r"\d+", name))


def new_run_id() -> str:
    """Time, so that ids sort, and six random hexadecimal digits."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
