"""The run store: every run, candidate, plan, evaluation and experience, as they happen.

One transaction an evaluation, so that a crash or a kill loses none that finished. A resumed
run asks the store before it evaluates anything and so repeats nothing.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from accelopt_lsp.agents.codec import (
    CodecError,
    arguments_to_json,
    dumps,
    experience_to_json,
    outcome_from_json,
    outcome_to_json,
    plan_to_json,
)
from accelopt_lsp.agents.database import Database, DatabaseProblem, data_dir
from accelopt_lsp.agents.process_identity import this_process
from accelopt_lsp.agents.roles import Attempt, Experience, Plan
from accelopt_lsp.agents.run_records import (
    RunRecord,
    UnknownRun,
    decoded,
    new_run_id,
    place_in_search,
    read_experience,
    read_record,
)
from accelopt_lsp.agents.run_schema import APPLICATION_ID, MIGRATIONS
from accelopt_lsp.profiler.base import Outcome

_NOT_MEANT = 2
"""Mark of an experience that the memory is not to have."""

P = ParamSpec("P")
T = TypeVar("T")


def _noted(
    method: Callable[Concatenate[RunStore, P], T],
) -> Callable[..., T | None]:
    """A problem becomes a note: a search does not end because a disk is full."""

    @wraps(method)
    def noting(self: RunStore, *args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return method(self, *args, **kwargs)
        except DatabaseProblem as problem:
            self.note(f"{problem}; not all of this run is recorded")
        except sqlite3.IntegrityError:
            self.note("the run was removed from the run store; what it does is not recorded")
        return None

    return noting


class RunStore:
    """Runs of one user, in ``runs.sqlite3`` under the data folder.

    What cannot be recorded or found of a run once it has begun is a note, no error.

    Raises:
        DatabaseProblem: the store cannot be used; the message says what to do.
    """

    def __init__(self, path: Path | None = None, busy_seconds: float = 30.0) -> None:
        self.path = path or data_dir() / "runs.sqlite3"
        self._database = Database(
            self.path, MIGRATIONS, "run store", busy_seconds, application=APPLICATION_ID
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for people, each once."""
        return tuple(dict.fromkeys(self._database.notes))

    def note(self, text: str) -> None:
        """Add a remark for people."""
        self._database.notes.append(text)

    @property
    def size_bytes(self) -> int:
        """Bytes on disk, the log included."""
        files = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def close(self) -> None:
        self._database.close()

    # -- writing ----------------------------------------------------------------------

    def begin(self, record: RunRecord) -> str:
        """Store a new run and give its id."""
        run = record.id or new_run_id()
        with self._database.write() as connection:
            connection.execute(
                "INSERT INTO runs (id, created, updated, status, path, function, target, dialect,"
                " text, arguments, reference, settings, roles, version, process)"
                " VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                (
                    run,
                    record.created,
                    record.updated,
                    record.status,
                    record.path,
                    record.function,
                    record.target,
                    record.dialect,
                    record.text,
                    dumps(arguments_to_json(record.arguments)),
                    record.reference,
                    dumps(dict(record.settings)),
                    dumps(dict(record.roles)),
                    record.version,
                    this_process(),
                ),
            )
        return run

    @_noted
    def reopen(self, run: str) -> None:
        """A run goes on, in this process."""
        with self._database.write() as connection:
            connection.execute(
                "UPDATE runs SET status = 'running', process = ?, updated = ? WHERE id = ?",
                (this_process(), time.time(), run),
            )

    @_noted
    def record_evaluation(
        self,
        run: str,
        key: str,
        source: str,
        seeds: Iterable[int],
        outcome: Outcome,
        seconds: float,
    ) -> None:
        """Keep a finished evaluation; a second one with the same key changes nothing."""
        latency = getattr(outcome, "latency_ms", None)
        now = time.time()
        with self._database.write() as connection:
            added = connection.execute(
                "INSERT OR IGNORE INTO evaluations VALUES (?,?,?,?,?,?,?,?)",
                (
                    run,
                    key,
                    now,
                    seconds,
                    dumps(list(seeds)),
                    source,
                    dumps(outcome_to_json(outcome)),
                    latency,
                ),
            ).rowcount
            connection.execute(
                "UPDATE runs SET updated = ?, evaluations = evaluations + ? WHERE id = ?",
                (now, added, run),
            )

    @_noted
    def record_plans(self, run: str, iteration: int, candidate: str, plans: Iterable[Plan]) -> None:
        """Keep the plans written for one candidate in one iteration."""
        rows = [
            (run, candidate, iteration, position, dumps(plan_to_json(plan)))
            for position, plan in enumerate(plans)
        ]
        with self._database.write() as connection:
            connection.executemany("INSERT OR REPLACE INTO plans VALUES (?,?,?,?,?)", rows)

    @_noted
    def record_iteration(
        self,
        run: str,
        iteration: int,
        attempts: Iterable[Attempt],
        beam: Iterable[tuple[str, float]],
    ) -> None:
        """Keep what became of an iteration's attempts, and the beam that came out of it."""
        rows = [
            (
                run,
                a.id,
                a.parent.id,
                dumps(plan_to_json(a.plan)),
                a.fingerprint,
                a.source,
                a.verdict.value,
                a.latency_ms,
                a.error,
            )
            for a in attempts
        ]
        places = [(run, iteration, place, name, ms) for place, (name, ms) in enumerate(beam)]
        with self._database.write() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO attempts VALUES (?,?,?,?,?,?,?,?,?)", rows
            )
            connection.execute(
                "DELETE FROM beams WHERE run = ? AND iteration = ?", (run, iteration)
            )
            connection.executemany("INSERT INTO beams VALUES (?,?,?,?,?)", places)

    @_noted
    def record_experience(
        self, run: str, key: str, experience: Experience, *, remember: bool = True
    ) -> None:
        """Keep an experience.

        Args:
            remember: the memory is to have it, too, sooner or later.
        """
        with self._database.write() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO experiences VALUES (?,?,?,?)",
                (run, key, dumps(experience_to_json(experience)), 0 if remember else _NOT_MEANT),
            )

    @_noted
    def experience(self, run: str, key: str) -> Experience | None:
        """What a run has learned from an attempt, or None."""
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT experience FROM experiences WHERE run = ? AND key = ?", (run, key)
            ).fetchone()
        return None if row is None else read_experience(row["experience"])

    @_noted
    def mark_remembered(self, run: str, key: str) -> None:
        """The memory has this experience."""
        with self._database.write() as connection:
            connection.execute(
                "UPDATE experiences SET remembered = 1 WHERE run = ? AND key = ?", (run, key)
            )

    @_noted
    def record_exchange(self, run: str, key: str, exchange: Mapping[str, Any]) -> None:
        """Keep a request to a model and its reply, as plain data.

        Args:
            exchange: has at least ``role``, ``model``, ``tokens`` and ``cost_usd``.
        """
        with self._database.write() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO exchanges VALUES (?,?,?,?,?,?,?,?)",
                (
                    run,
                    key,
                    time.time(),
                    exchange["role"],
                    exchange["model"],
                    exchange["tokens"],
                    exchange["cost_usd"],
                    dumps(dict(exchange)),
                ),
            )

    @_noted
    def set_initial(self, run: str, experiences: Iterable[Experience]) -> None:
        """Keep the experiences that the planner starts with."""
        with self._database.write() as connection:
            connection.execute(
                "UPDATE runs SET initial = ? WHERE id = ?",
                (dumps([experience_to_json(e) for e in experiences]), run),
            )

    @_noted
    def set_latencies(self, run: str, baseline_ms: float | None, best_ms: float | None) -> None:
        """Latencies in milliseconds, for listings; no best one leaves what was known."""
        with self._database.write() as connection:
            connection.execute(
                "UPDATE runs SET baseline_ms = ?, best_ms = COALESCE(?, best_ms), updated = ?"
                " WHERE id = ?",
                (baseline_ms, best_ms, time.time(), run),
            )

    @_noted
    def finish(self, run: str, status: str, result: Mapping[str, Any] | None = None) -> None:
        """Close a run."""
        with self._database.write() as connection:
            connection.execute(
                "UPDATE runs SET status = ?, result = COALESCE(?, result), updated = ?"
                " WHERE id = ?",
                (status, dumps(dict(result)) if result is not None else None, time.time(), run),
            )

    # -- reading ----------------------------------------------------------------------

    @_noted
    def evaluation(self, run: str, key: str) -> tuple[Outcome, float] | None:
        """(outcome, seconds) of a finished evaluation, or None."""
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT outcome, seconds FROM evaluations WHERE run = ? AND key = ?", (run, key)
            ).fetchone()
        if row is None:
            return None
        try:
            return outcome_from_json(json.loads(row["outcome"])), float(row["seconds"])
        except (CodecError, json.JSONDecodeError):
            return None

    @_noted
    def exchange(self, run: str, key: str) -> dict[str, Any] | None:
        """A recorded request to a model with its reply, or None."""
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT exchange FROM exchanges WHERE run = ? AND key = ?", (run, key)
            ).fetchone()
        if row is None:
            return None
        try:
            found = json.loads(row["exchange"])
        except json.JSONDecodeError:
            return None
        return found if isinstance(found, dict) else None

    def spending(self, run: str) -> list[dict[str, Any]]:
        """What a run's models have cost, by role and model, dearest first.

        ``tokens`` is None where an endpoint did not count some, ``cost_usd`` where a price or a
        count was unknown; ``counted_tokens`` is what was counted.
        """
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT role, model, count(*) AS requests, sum(tokens) AS counted_tokens,"
                " sum(coalesce(json_extract(exchange, '$.spent.cached'), 0)) AS cached_tokens,"
                " CASE WHEN sum(coalesce(json_extract(exchange, '$.spent.uncounted'), 0)) = 0"
                " THEN sum(tokens) END AS tokens,"
                " CASE WHEN count(cost_usd) = count(*) THEN sum(cost_usd) END AS cost_usd"
                " FROM exchanges WHERE run = ? AND json_valid(exchange) GROUP BY role, model"
                " ORDER BY cost_usd DESC, counted_tokens DESC, role",
                (run,),
            ).fetchall()
        return [dict(row) for row in rows]

    def evaluation_count(self, run: str) -> int:
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT count(*) FROM evaluations WHERE run = ?", (run,)
            ).fetchone()
        return int(row[0])

    def load(self, run: str) -> RunRecord:
        """One run, by its id or an unambiguous beginning of it.

        Raises:
            UnknownRun: none or several match.
        """
        if not run:
            raise UnknownRun("a run's id is empty; `accelopt runs list` shows them")
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT * FROM runs WHERE id >= ? AND id < ? ORDER BY id LIMIT 2",
                (run, f"{run}\U0010ffff"),
            ).fetchall()
        exact = [row for row in rows if row["id"] == run]
        rows = exact or rows
        if not rows:
            raise UnknownRun(f"no run {run!r}; `accelopt runs list` shows them")
        if len(rows) > 1:
            raise UnknownRun(f"several runs begin with {run!r}; give more of the id")
        return read_record(rows[0])

    def runs(self, limit: int | None = None) -> list[RunRecord]:
        """Runs, newest first."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT * FROM runs ORDER BY created DESC, id LIMIT ?",
                (-1 if limit is None else limit,),
            ).fetchall()
        return [read_record(row) for row in rows]

    def __len__(self) -> int:
        with self._database.read() as connection:
            return int(connection.execute("SELECT count(*) FROM runs").fetchone()[0])

    def attempts(self, run: str) -> list[dict[str, Any]]:
        """Attempts of a run by their place in the search, with the titles of their plans."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT id, parent, verdict, latency_ms, error, plan FROM attempts WHERE run = ?",
                (run,),
            ).fetchall()
        found = []
        for row in rows:
            plan = json.loads(row["plan"])
            named = {name: row[name] for name in ("id", "parent", "verdict", "latency_ms", "error")}
            found.append({**named, "title": plan["title"], "plan": plan})
        return sorted(found, key=lambda attempt: place_in_search(attempt["id"]))

    def last_beam(self, run: str) -> list[str]:
        """Ids of the candidates in a run's latest beam, best first."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT candidate FROM beams WHERE run = ? AND iteration ="
                " (SELECT max(iteration) FROM beams WHERE run = ?) ORDER BY place",
                (run, run),
            ).fetchall()
        return [row["candidate"] for row in rows]

    def lessons(self, run: str) -> list[dict[str, Any]]:
        """What a run has learned, without the kernels."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT experience FROM experiences WHERE run = ? ORDER BY key", (run,)
            ).fetchall()
        found = (read_experience(row["experience"]) for row in rows)
        return [experience_to_json(e, with_code=False) for e in found if e is not None]

    def pending_experiences(self) -> list[tuple[str, str, Experience]]:
        """(run, key, experience) that no memory has yet."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT run, key, experience FROM experiences WHERE remembered = 0"
                " ORDER BY run, key"
            ).fetchall()
        found = ((row["run"], row["key"], read_experience(row["experience"])) for row in rows)
        return [(run, key, experience) for run, key, experience in found if experience is not None]

    def export(self, run: str) -> dict[str, Any]:
        """Everything about one run as plain data.

        Raises:
            UnknownRun: no such run.
        """
        record = self.load(run)
        tables: dict[str, list[dict[str, Any]]] = {}
        order = {
            "evaluations": "created, key",
            "plans": "iteration, candidate, position",
            "attempts": "id",
            "beams": "iteration, place",
            "experiences": "key",
            "exchanges": "created, key",
        }
        with self._database.read() as connection:
            for table, columns in order.items():
                rows = connection.execute(
                    f"SELECT * FROM {table} WHERE run = ? ORDER BY {columns}",
                    (record.id,),
                ).fetchall()
                tables[table] = [decoded(row) for row in rows]
        return {
            "schema_version": 1,
            **record.summary(),
            "dialect": record.dialect,
            "text": record.text,
            "arguments": arguments_to_json(record.arguments),
            "reference": record.reference,
            "settings": dict(record.settings),
            "roles": dict(record.roles),
            "version": record.version,
            "result": record.result,
            **tables,
        }

    def prune(self, keep: int) -> int:
        """Remove all but the latest ``keep`` runs, and give their room back to the disk.

        Runs that are at work stay, and so do those with lessons that the memory lacks. Gives the
        number removed.
        """
        surplus = [r.id for r in self.runs()[keep:] if r.status != "running"]
        with self._database.write() as connection:
            wanted = {
                row["run"]
                for row in connection.execute("SELECT run FROM experiences WHERE remembered = 0")
            }
            removed = [(run,) for run in surplus if run not in wanted]
            connection.executemany("DELETE FROM runs WHERE id = ?", removed)
        if removed:
            with self._database.read() as connection:
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return len(removed)

    def delete(self, run: str) -> None:
        """Remove a run and all that belongs to it.

        Raises:
            UnknownRun: no such run.
        """
        record = self.load(run)
        with self._database.write() as connection:
            connection.execute("DELETE FROM runs WHERE id = ?", (record.id,))
