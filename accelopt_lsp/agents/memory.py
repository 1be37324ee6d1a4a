"""The optimization memory: what earlier kernels taught, per user, for the next planner.

Experiences go both ways (what helped, what to avoid), carry the situation they were seen in
and count how often they helped again. Several editors and terminals share one file. Imported
experiences are untrusted text: limited in length, parsed strictly, never executed.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from attrs import evolve, frozen

from accelopt_lsp.agents.codec import CodecError, dumps, experience_to_json
from accelopt_lsp.agents.database import BUSY_SECONDS, Database, DatabaseProblem, data_dir
from accelopt_lsp.agents.memory_lookup import (
    MOST_HITS,
    Found,
    Situations,
    ranked,
    text_hits,
    word_hits,
)
from accelopt_lsp.agents.memory_schema import (
    APPLICATION_ID,
    MIGRATIONS,
    has_words,
    read_row,
    remove_experience,
    write_experience,
)
from accelopt_lsp.agents.retrieval import (
    SIMILAR,
    choose,
    duplicate_class,
    merged,
    near_duplicate,
    quality,
    signature,
)
from accelopt_lsp.agents.roles import Experience, Tags
from accelopt_lsp.agents.untrusted import parse_untrusted

MAX_IMPORT_LINES = 100_000
_LINES_AT_ONCE = 500


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

    Args:
        path: another file.
        busy_seconds: how long to wait for another process's transaction.
        repair: move a damaged file aside and begin a new one.

    Raises:
        DatabaseProblem: the memory cannot be used; the message says what to do.
    """

    def __init__(
        self, path: Path | None = None, busy_seconds: float = BUSY_SECONDS, *, repair: bool = True
    ) -> None:
        self.path = path or data_dir() / "memory.sqlite3"
        self._database = Database(
            self.path,
            MIGRATIONS,
            "optimization memory",
            busy_seconds,
            application=APPLICATION_ID,
            repair=repair,
        )
        self._situations = Situations()
        with self._database.read() as connection:
            self._fts = has_words(connection)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for people, such as that a damaged file was moved aside."""
        return tuple(dict.fromkeys(self._database.notes))

    @property
    def stale(self) -> bool:
        """Whether the file at :attr:`path` is no longer the one that is open."""
        return self._database.replaced

    def close(self) -> None:
        self._database.close()

    def __len__(self) -> int:
        with self._database.read() as connection:
            return int(connection.execute("SELECT count(*) FROM experiences").fetchone()[0])

    # -- learning ---------------------------------------------------------------------

    def add(self, experience: Experience, key: str | None = None) -> str:
        """Keep an experience, merged into a near-duplicate if there is one; gives its id.

        Args:
            key: names the occasion; adding twice under one key adds once and gives the same
                id, so that a resumed run does not count anything twice.
        """
        with self._database.write() as connection:
            if key is None:
                return self._add(connection, experience)[0]
            known = connection.execute("SELECT result FROM applied WHERE key = ?", (key,))
            row = known.fetchone()
            if row is not None:
                return row["result"] or self._twin_id(connection, experience)
            kept = self._add(connection, experience)[0]
            connection.execute("INSERT INTO applied VALUES (?,?,?)", (key, time.time(), kept))
            return kept

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
        both = merged(twin, experience)
        if both != twin:
            self._write(connection, both)
        return twin.id, False

    def _twin_id(self, connection: sqlite3.Connection, experience: Experience) -> str:
        twin = self._twin(connection, experience)
        return experience.id if twin is None else twin.id

    def _twin(self, connection: sqlite3.Connection, experience: Experience) -> Experience | None:
        """The experience of this id, else the oldest near-duplicate."""
        row = connection.execute(
            "SELECT * FROM experiences WHERE id = ?", (experience.id,)
        ).fetchone()
        if row is not None:
            return self._experience(row)
        for row in self._possible_twins(connection, experience):
            known = self._experience(row)
            if known is not None and near_duplicate(known, experience):
                return known
        return None

    def _possible_twins(
        self, connection: sqlite3.Connection, experience: Experience
    ) -> Iterable[sqlite3.Row]:
        class_ = dumps(duplicate_class(experience))
        if experience.rewrite is not None:
            return connection.execute(
                "SELECT * FROM experiences WHERE class = ? ORDER BY created, id", (class_,)
            )
        size, some = signature(experience)
        return connection.execute(
            "SELECT * FROM experiences WHERE number IN (SELECT number FROM signatures"
            f" WHERE class = ? AND word IN ({','.join('?' * len(some))})"
            " AND size BETWEEN ? AND ?) ORDER BY created, id",
            (class_, *some, int(size * SIMILAR), int(size / SIMILAR) + 1),
        )

    def _write(self, connection: sqlite3.Connection, experience: Experience) -> None:
        now = time.time()
        write_experience(connection, experience, experience.origin.created or now, now)

    def record_use(self, ids: Iterable[str], won: bool, key: str | None = None) -> None:
        """Count a plan that drew on these experiences as a win or a loss.

        A first win here makes an imported experience trusted.
        """
        with self._database.write() as connection:
            if key is not None:
                done = connection.execute(
                    "INSERT OR IGNORE INTO applied VALUES (?,?,NULL)", (key, time.time())
                )
                if done.rowcount != 1:
                    return
            for name in sorted(set(ids)):
                row = connection.execute(
                    "SELECT * FROM experiences WHERE id = ?", (name,)
                ).fetchone()
                known = None if row is None else self._experience(row)
                if known is not None:
                    self._count(connection, known, won)

    def _count(self, connection: sqlite3.Connection, known: Experience, won: bool) -> None:
        counted = evolve(
            known,
            wins=known.wins + won,
            losses=known.losses + (not won),
            trusted=known.trusted or won,
        )
        connection.execute(
            "UPDATE experiences SET wins = ?, losses = ?, trusted = ?, quality = ?, used = ?"
            " WHERE id = ?",
            (
                counted.wins,
                counted.losses,
                counted.trusted,
                quality(counted),
                time.time(),
                known.id,
            ),
        )

    # -- retrieval --------------------------------------------------------------------

    def retrieve(
        self,
        want: Tags,
        limit: int,
        text: str = "",
        *,
        failure_share: float = 0.25,
        beside: Iterable[Experience] = (),
    ) -> list[Experience]:
        """Experiences that fit a situation, best first, at most ``limit``.

        Structure decides first (bottleneck, instructions, dialect, ...), words second, with
        diversity and a share of what is to be avoided.

        Args:
            text: words that describe the kernel, for the text part.
            beside: experiences of another layer, where this memory does not have them.
        """
        if limit <= 0:
            return []
        with self._database.snapshot() as connection:
            hits = self._hits(connection, text, MOST_HITS)
            best = ranked(connection, self._situations, want, hits, beside)
            return self._bodies(connection, choose(best, limit, failure_share))

    def _bodies(self, connection: sqlite3.Connection, found: Iterable[Found]) -> list[Experience]:
        bodies: list[Experience] = []
        for item in found:
            if item.experience is not None:
                bodies.append(item.experience)
                continue
            row = connection.execute(
                "SELECT * FROM experiences WHERE number = ?", (item.number,)
            ).fetchone()
            bodies += self._readable([row])
        return bodies

    def queue(self, limit: int) -> list[Experience]:
        """The latest ``limit`` experiences, oldest first: the published policy."""
        return list(reversed(self.list(max(0, limit))))

    def search(self, text: str, limit: int = 20) -> list[Experience]:
        """Experiences by their words, best first."""
        with self._database.snapshot() as connection:
            hits = self._hits(connection, text, limit)
            rows = [
                connection.execute("SELECT * FROM experiences WHERE number = ?", (n,)).fetchone()
                for n in hits
            ]
        return list(self._readable(row for row in rows if row is not None))

    def _hits(self, connection: sqlite3.Connection, text: str, limit: int) -> dict[int, float]:
        if not text:
            return {}
        if self._fts:
            return text_hits(connection, text, limit)
        rows = connection.execute("SELECT * FROM experiences").fetchall()
        read = ((row["number"], self._experience(row)) for row in rows)
        return word_hits(((n, e) for n, e in read if e is not None), text, limit)

    # -- browsing ---------------------------------------------------------------------

    def get(self, name: str) -> Experience:
        """One experience, by its id or an unambiguous beginning of it.

        Raises:
            UnknownExperience: none or several match.
        """
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT * FROM experiences WHERE id >= ? AND id < ? ORDER BY id LIMIT 2",
                (name, f"{name}\U0010ffff"),
            ).fetchall()
        rows = [row for row in rows if row["id"] == name] or rows
        if not name or not rows:
            raise UnknownExperience(f"no experience {name!r}; `accelopt memory list` shows them")
        if len(rows) > 1:
            raise UnknownExperience(f"several experiences begin with {name!r}; give more of the id")
        try:
            return read_row(rows[0])
        except CodecError as error:
            raise DatabaseProblem(f"experience {name} cannot be read: {error}") from error

    def list(self, limit: int | None = None) -> Sequence[Experience]:
        """Experiences, newest first."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT * FROM experiences ORDER BY created DESC, id LIMIT ?",
                (-1 if limit is None else limit,),
            ).fetchall()
        return self._readable(rows)

    def _readable(self, rows: Iterable[sqlite3.Row]) -> Sequence[Experience]:
        found = map(self._experience, rows)
        return [experience for experience in found if experience is not None]

    def _experience(self, row: sqlite3.Row) -> Experience | None:
        """The experience of a row, or None with a note if it cannot be read."""
        try:
            return read_row(row)
        except CodecError as error:
            self._database.notes.append(f"experience {row['id']} cannot be read: {error}")
            return None

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
            row = connection.execute(
                "SELECT number FROM experiences WHERE id = ?", (experience.id,)
            ).fetchone()
            if row is not None:
                remove_experience(connection, row["number"])
        return experience

    def prune(self, keep: int = 1_000) -> int:
        """Remove the least useful beyond ``keep``; pinned ones stay. Gives the number removed.

        Useful means a high share of wins, then recently used.
        """
        with self._database.write() as connection:
            rows = connection.execute(
                "SELECT number FROM experiences WHERE pinned = 0 ORDER BY"
                " (wins + 1.0) / (wins + losses + 2.0) DESC, used DESC, id"
            ).fetchall()
            pinned = connection.execute(
                "SELECT count(*) FROM experiences WHERE pinned = 1"
            ).fetchone()[0]
            surplus = [row["number"] for row in rows[max(0, keep - int(pinned)) :]]
            for number in surplus:
                remove_experience(connection, number)
        return len(surplus)

    # -- exchange ---------------------------------------------------------------------

    def export_lines(self, *, with_code: bool = False) -> Iterator[str]:
        """JSON lines, oldest first; the kernels' text only if asked for."""
        for experience in reversed(self.list()):
            yield dumps(experience_to_json(experience, with_code=with_code))

    def import_lines(self, lines: Iterable[str]) -> ImportResult:
        """Take experiences from JSON lines, marked untrusted until they win here.

        Wins and losses of whoever exported them are kept as what was reported. Bad lines are
        refused with their number and a reason; the rest is taken.
        """
        added = joined = 0
        refused: list[tuple[int, str]] = []
        waiting: list[Experience] = []

        def take() -> None:
            nonlocal added, joined
            with self._database.write() as connection:
                fresh = [self._add(connection, experience)[1] for experience in waiting]
            added += sum(fresh)
            joined += len(fresh) - sum(fresh)
            waiting.clear()

        for number, line in enumerate(lines, 1):
            if number > MAX_IMPORT_LINES:
                refused.append((number, f"more than {MAX_IMPORT_LINES} lines; the rest is skipped"))
                break
            if not line.strip():
                continue
            try:
                waiting.append(parse_untrusted(line))
            except CodecError as error:
                refused.append((number, str(error)))
            if len(waiting) == _LINES_AT_ONCE:
                take()
        take()
        return ImportResult(added, joined, tuple(refused))
