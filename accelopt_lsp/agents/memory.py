"""The optimization memory: what earlier kernels taught, per user, for the next planner.

Experiences go both ways (what helped, what to avoid), carry the situation they were seen in
and count how often they helped again. Several editors and terminals share one file. Imported
experiences are untrusted text: limited in length, parsed strictly, never executed.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from attrs import evolve, frozen

from accelopt_lsp.agents.codec import (
    CodecError,
    dumps,
    experience_from_json,
    experience_to_json,
)
from accelopt_lsp.agents.database import Database, data_dir, has_fts5
from accelopt_lsp.agents.retrieval import merged, near_duplicate, rank, words
from accelopt_lsp.agents.roles import Experience, Tags

MAX_LINE_BYTES = 1 << 20
MAX_IMPORT_LINES = 100_000
_LIMITS = {"id": 64, "title": 300, "text": 8_000, "before": 8_000, "after": 8_000}
_CODE_LIMIT = 256_000
_TAG_LIMIT = 200

_SCHEMA_1 = """
CREATE TABLE experiences (
    id TEXT PRIMARY KEY,
    created REAL NOT NULL,
    used REAL NOT NULL,
    strategy TEXT NOT NULL,
    bottleneck TEXT NOT NULL,
    dialect TEXT NOT NULL,
    helpful INTEGER NOT NULL,
    wins INTEGER NOT NULL,
    losses INTEGER NOT NULL,
    pinned INTEGER NOT NULL,
    trusted INTEGER NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX experiences_by_strategy ON experiences (strategy, bottleneck, dialect, helpful);
CREATE INDEX experiences_by_time ON experiences (created);
CREATE TABLE applied (
    key TEXT PRIMARY KEY,
    created REAL NOT NULL
);
"""


def _create(connection: sqlite3.Connection) -> None:
    for statement in _SCHEMA_1.split(";"):
        if statement.strip():
            connection.execute(statement)
    if has_fts5(connection):
        connection.execute(
            "CREATE VIRTUAL TABLE words USING fts5(id UNINDEXED, title, text, before, after)"
        )


MIGRATIONS = (_create,)
"""Append to this; never change what is in it."""


class UnknownExperience(LookupError):
    """No experience has this id."""


@frozen(slots=True)
class ImportResult:
    """What an import did: lines taken, merged into known ones, and refused with reasons."""

    added: int
    merged: int
    refused: tuple[tuple[int, str], ...]


class OptimizationMemory:
    """Experiences of one user, in ``memory.sqlite3`` under the data folder.

    Raises:
        DatabaseProblem: the memory cannot be used; the message says what to do.
    """

    def __init__(self, path: Path | None = None, busy_seconds: float = 30.0) -> None:
        self.path = path or data_dir() / "memory.sqlite3"
        self._database = Database(self.path, MIGRATIONS, "optimization memory", busy_seconds)
        with self._database.read() as connection:
            self._fts = (
                connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'words'").fetchone()
                is not None
            )

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for people, such as that a damaged file was moved aside."""
        return tuple(self._database.notes)

    def close(self) -> None:
        self._database.close()

    def __len__(self) -> int:
        with self._database.read() as connection:
            return int(connection.execute("SELECT count(*) FROM experiences").fetchone()[0])

    # -- learning ---------------------------------------------------------------------

    def add(self, experience: Experience, key: str | None = None) -> str:
        """Keep an experience, merged into a near-duplicate if there is one; gives its id.

        Args:
            key: names the occasion; adding twice under one key adds once, so that a resumed
                run does not count anything twice.
        """
        with self._database.write() as connection:
            if key is not None and not _first_time(connection, key):
                return experience.id
            return self._add(connection, experience)[0]

    def adopt(self, experience: Experience) -> str:
        """Take over what a run draws on and this memory lacks; gives the id it has here.

        What is known already, or an equal of it, stays as it is.
        """
        with self._database.write() as connection:
            twin = self._twin(connection, experience)
            if twin is not None:
                return twin.id
            self._write(connection, experience)
            return experience.id

    def _add(self, connection: sqlite3.Connection, experience: Experience) -> tuple[str, bool]:
        twin = self._twin(connection, experience)
        if twin is None:
            self._write(connection, experience)
            return experience.id, True
        self._write(connection, merged(twin, experience))
        return twin.id, False

    def _twin(self, connection: sqlite3.Connection, experience: Experience) -> Experience | None:
        row = connection.execute(
            "SELECT * FROM experiences WHERE id = ?", (experience.id,)
        ).fetchone()
        if row is not None:
            return _experience(row)
        rows = connection.execute(
            "SELECT * FROM experiences WHERE strategy = ? AND bottleneck = ? AND dialect = ?"
            " AND helpful = ? ORDER BY created, id LIMIT 200",
            _lookup(experience),
        )
        for row in rows:
            known = _experience(row)
            if near_duplicate(known, experience):
                return known
        return None

    def _write(self, connection: sqlite3.Connection, experience: Experience) -> None:
        now = time.time()
        connection.execute(
            "INSERT INTO experiences VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"
            " ON CONFLICT (id) DO UPDATE SET used = excluded.used, strategy = excluded.strategy,"
            " bottleneck = excluded.bottleneck, dialect = excluded.dialect,"
            " helpful = excluded.helpful, wins = excluded.wins, losses = excluded.losses,"
            " pinned = excluded.pinned, trusted = excluded.trusted, body = excluded.body",
            (
                experience.id,
                experience.origin.created or now,
                now,
                *_lookup(experience),
                experience.wins,
                experience.losses,
                experience.pinned,
                experience.trusted,
                dumps(experience_to_json(experience)),
            ),
        )
        if self._fts:
            connection.execute("DELETE FROM words WHERE id = ?", (experience.id,))
            connection.execute(
                "INSERT INTO words VALUES (?,?,?,?,?)",
                (
                    experience.id,
                    experience.title,
                    experience.text,
                    experience.before,
                    experience.after,
                ),
            )

    def record_use(self, ids: Iterable[str], won: bool, key: str | None = None) -> None:
        """Count a plan that drew on these experiences as a win or a loss.

        A first win here makes an imported experience trusted.
        """
        column = "wins" if won else "losses"
        with self._database.write() as connection:
            if key is not None and not _first_time(connection, key):
                return
            for name in sorted(set(ids)):
                connection.execute(
                    f"UPDATE experiences SET {column} = {column} + 1, used = ?,"
                    " trusted = max(trusted, ?) WHERE id = ?",
                    (time.time(), int(won), name),
                )

    # -- retrieval --------------------------------------------------------------------

    def retrieve(
        self,
        want: Tags,
        limit: int,
        text: str = "",
        *,
        candidates: int = 2_000,
        failure_share: float = 0.25,
        beside: Iterable[Experience] = (),
    ) -> list[Experience]:
        """Experiences that fit a situation, best first, at most ``limit``.

        Structure decides first (bottleneck, instructions, dialect, ...), words second, with
        diversity and a share of what is to be avoided.

        Args:
            text: words that describe the kernel, for the text part.
            candidates: so many of the most recently used are looked at.
            beside: experiences of another layer, where this memory does not have them.
        """
        if limit <= 0:
            return []
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT * FROM experiences ORDER BY pinned DESC, used DESC, id LIMIT ?",
                (candidates,),
            ).fetchall()
        known = [_experience(row) for row in rows]
        ids = {experience.id for experience in known}
        known += [experience for experience in beside if experience.id not in ids]
        scores = self._text_scores(text, candidates) if text else {}
        return rank(known, want, limit, scores, failure_share)

    def queue(self, limit: int) -> list[Experience]:
        """The latest ``limit`` experiences, oldest first: the published policy."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT * FROM experiences ORDER BY created DESC, id LIMIT ?", (max(0, limit),)
            ).fetchall()
        return [_experience(row) for row in reversed(rows)]

    def search(self, text: str, limit: int = 20) -> list[Experience]:
        """Experiences by their words, best first."""
        scores = self._text_scores(text, limit * 4)
        found = [self.get(name) for name in scores]
        found.sort(key=lambda e: (-scores[e.id], e.id))
        return found[:limit]

    def _text_scores(self, text: str, limit: int) -> dict[str, float]:
        terms = list(dict.fromkeys(words(text)))[:64]
        if not terms:
            return {}
        with self._database.read() as connection:
            if self._fts:
                query = " OR ".join(f'"{term}"' for term in terms)
                rows = connection.execute(
                    "SELECT id, bm25(words) AS score FROM words WHERE words MATCH ?"
                    " ORDER BY score, id LIMIT ?",
                    (query, limit),
                ).fetchall()
                # bm25 gives negative numbers, the smallest for the best.
                found = {row["id"]: -float(row["score"]) for row in rows}
            else:
                found = {}
                for row in connection.execute("SELECT * FROM experiences"):
                    e = _experience(row)
                    have = set(words(f"{e.title} {e.text} {e.before} {e.after}"))
                    hits = sum(term in have for term in terms)
                    if hits:
                        found[e.id] = float(hits)
        best = max(found.values(), default=0.0)
        return {name: score / best if best > 0 else 1.0 for name, score in found.items()}

    # -- browsing ---------------------------------------------------------------------

    def get(self, name: str) -> Experience:
        """One experience, by its id or an unambiguous beginning of it.

        Raises:
            UnknownExperience: none or several match.
        """
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT * FROM experiences WHERE substr(id, 1, ?) = ? ORDER BY id LIMIT 2",
                (len(name), name),
            ).fetchall()
        exact = [row for row in rows if row["id"] == name]
        rows = exact or rows
        if not name or not rows:
            raise UnknownExperience(f"no experience {name!r}; `accelopt memory list` shows them")
        if len(rows) > 1:
            raise UnknownExperience(f"several experiences begin with {name!r}; give more of the id")
        return _experience(rows[0])

    def list(self, limit: int | None = None) -> Sequence[Experience]:
        """Experiences, newest first."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT * FROM experiences ORDER BY created DESC, id LIMIT ?",
                (-1 if limit is None else limit,),
            ).fetchall()
        return [_experience(row) for row in rows]

    def pin(self, name: str, pinned: bool = True) -> Experience:
        """Keep an experience whatever is pruned (or no longer).

        Raises:
            UnknownExperience: no such experience.
        """
        experience = self.get(name)
        with self._database.write() as connection:
            connection.execute(
                "UPDATE experiences SET pinned = ? WHERE id = ?", (pinned, experience.id)
            )
        return evolve(experience, pinned=pinned)

    def forget(self, name: str) -> Experience:
        """Remove one experience and give it back.

        Raises:
            UnknownExperience: no such experience.
        """
        experience = self.get(name)
        with self._database.write() as connection:
            self._remove(connection, [experience.id])
        return experience

    def prune(self, keep: int = 1_000) -> int:
        """Remove the least useful beyond ``keep``; pinned ones stay. Gives the number removed.

        Useful means a high share of wins, then recently used.
        """
        with self._database.write() as connection:
            rows = connection.execute(
                "SELECT id FROM experiences WHERE pinned = 0 ORDER BY"
                " (wins + 1.0) / (wins + losses + 2.0) DESC, used DESC, id"
            ).fetchall()
            pinned = connection.execute(
                "SELECT count(*) FROM experiences WHERE pinned = 1"
            ).fetchone()[0]
            surplus = [row["id"] for row in rows[max(0, keep - int(pinned)) :]]
            self._remove(connection, surplus)
        return len(surplus)

    def _remove(self, connection: sqlite3.Connection, names: Iterable[str]) -> None:
        for name in names:
            connection.execute("DELETE FROM experiences WHERE id = ?", (name,))
            if self._fts:
                connection.execute("DELETE FROM words WHERE id = ?", (name,))

    # -- exchange ---------------------------------------------------------------------

    def export_lines(self, *, with_code: bool = False) -> Iterator[str]:
        """JSON lines, oldest first; the kernels' text only if asked for."""
        for experience in reversed(self.list()):
            yield dumps(experience_to_json(experience, with_code=with_code))

    def import_lines(self, lines: Iterable[str]) -> ImportResult:
        """Take experiences from JSON lines, marked untrusted until they win here.

        Wins, losses and pins of whoever exported them are kept as figures but a pin is not
        taken over. Bad lines are refused with their number and a reason; the rest is taken.
        """
        added = joined = 0
        refused: list[tuple[int, str]] = []
        for number, line in enumerate(lines, 1):
            if number > MAX_IMPORT_LINES:
                refused.append((number, f"more than {MAX_IMPORT_LINES} lines; the rest is skipped"))
                break
            if not line.strip():
                continue
            try:
                experience = parse_untrusted(line)
            except CodecError as error:
                refused.append((number, str(error)))
                continue
            with self._database.write() as connection:
                _, fresh = self._add(connection, experience)
            added += fresh
            joined += not fresh
        return ImportResult(added, joined, tuple(refused))


def parse_untrusted(line: str) -> Experience:
    """An experience from one JSON line of somebody else.

    Raises:
        CodecError: too long, no JSON, unknown fields, wrong types.
    """
    if len(line.encode("utf-8", "surrogatepass")) > MAX_LINE_BYTES:
        raise CodecError(f"longer than {MAX_LINE_BYTES} bytes")
    try:
        data = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise CodecError(f"not JSON: {error}") from error
    experience = experience_from_json(data)
    texts = {name: getattr(experience, name) for name in _LIMITS}
    for name, limit in _LIMITS.items():
        _check_text(name, texts[name], limit)
    if not experience.id or not experience.title.strip():
        raise CodecError("id and title must not be empty")
    for name in ("slow", "fast"):
        _check_text(name, getattr(experience, name) or "", _CODE_LIMIT)
    tags = experience.tags
    if len(tags.instructions) > _TAG_LIMIT:
        raise CodecError(f"more than {_TAG_LIMIT} instructions")
    short = (*tags.instructions, tags.bottleneck, tags.loop_pattern, tags.dtype, tags.dialect)
    for value in (*short, tags.target, experience.rewrite):
        _check_text("tag", value or "", _TAG_LIMIT)
    if not (0 <= experience.wins < 1 << 31 and 0 <= experience.losses < 1 << 31):
        raise CodecError("wins and losses must be counts")
    return evolve(experience, trusted=False, pinned=False)


def _check_text(name: str, value: str, limit: int) -> None:
    if len(value) > limit:
        raise CodecError(f"{name} is longer than {limit} characters")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise CodecError(f"{name} is not valid Unicode") from error
    if any(ord(char) < 32 and char not in "\n\t\r" for char in value):
        raise CodecError(f"{name} has control characters")


def _lookup(experience: Experience) -> tuple[str, str, str, bool]:
    return (
        experience.rewrite or "",
        experience.tags.bottleneck or "",
        experience.tags.dialect or "",
        experience.helpful,
    )


def _first_time(connection: sqlite3.Connection, key: str) -> bool:
    done = connection.execute("INSERT OR IGNORE INTO applied VALUES (?,?)", (key, time.time()))
    return done.rowcount == 1


def _experience(row: sqlite3.Row) -> Experience:
    """Columns that change in place win over the body they were written with."""
    return evolve(
        experience_from_json(json.loads(row["body"])),
        wins=row["wins"],
        losses=row["losses"],
        pinned=bool(row["pinned"]),
        trusted=bool(row["trusted"]),
    )
