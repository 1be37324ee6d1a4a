"""Tables of the optimization memory, and how older ones become the present ones.

Experiences of one situation share a row of tags, so that retrieval compares each situation once.
``quality`` is :func:`~accelopt_lsp.agents.retrieval.quality`, kept beside what it rests on;
``signatures`` lead to possible near-duplicates; ``words`` is the full-text index by number.
"""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import attrs

from accelopt_lsp.agents.codec import CodecError, dumps, experience_from_json
from accelopt_lsp.agents.retrieval import duplicate_class, quality, signature, strategy_key
from accelopt_lsp.agents.roles import Experience, Tags

APPLICATION_ID = 0x41634D65
"""``AcMe`` in the file's header: whose database it is."""

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

_SCHEMA_2 = """
CREATE TABLE situations (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    tags TEXT NOT NULL UNIQUE
);
CREATE TABLE experiences (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    created REAL NOT NULL,
    used REAL NOT NULL,
    situation INTEGER NOT NULL REFERENCES situations (number),
    strategy TEXT NOT NULL,
    class TEXT NOT NULL,
    ratio REAL NOT NULL,
    quality REAL NOT NULL,
    helpful INTEGER NOT NULL,
    wins INTEGER NOT NULL,
    losses INTEGER NOT NULL,
    pinned INTEGER NOT NULL,
    trusted INTEGER NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX experiences_by_situation
    ON experiences (situation, quality DESC, id, strategy, helpful);
CREATE INDEX experiences_by_class ON experiences (class, created, id);
CREATE INDEX experiences_by_time ON experiences (created DESC, id);
CREATE TABLE signatures (
    class TEXT NOT NULL,
    word TEXT NOT NULL,
    size INTEGER NOT NULL,
    number INTEGER NOT NULL REFERENCES experiences (number) ON DELETE CASCADE,
    PRIMARY KEY (class, word, size, number)
) WITHOUT ROWID;
CREATE INDEX signatures_by_number ON signatures (number);
ALTER TABLE applied ADD COLUMN result TEXT
"""


def _run(connection: sqlite3.Connection, script: str) -> None:
    for statement in script.split(";"):
        if statement.strip():
            connection.execute(statement)


def _create(connection: sqlite3.Connection) -> None:
    _run(connection, _SCHEMA_1)


def _with_indices(connection: sqlite3.Connection) -> None:
    """Situations of their own, numbers for experiences, and a full-text index by number."""
    connection.execute("DROP TABLE IF EXISTS words")
    connection.execute("ALTER TABLE experiences RENAME TO earlier")
    connection.execute("DROP INDEX experiences_by_strategy")
    connection.execute("DROP INDEX experiences_by_time")
    _run(connection, _SCHEMA_2)
    if has_fts5(connection):
        connection.execute("CREATE VIRTUAL TABLE words USING fts5(title, text, before, after)")
        connection.execute("CREATE VIRTUAL TABLE vocabulary USING fts5vocab('words', 'row')")
    for row in connection.execute("SELECT * FROM earlier ORDER BY created, id").fetchall():
        try:
            experience = read_row(row)
        except CodecError:
            continue
        write_experience(connection, experience, row["created"], row["used"])
        connection.execute("DELETE FROM earlier WHERE id = ?", (row["id"],))
    if connection.execute("SELECT 1 FROM earlier").fetchone() is None:
        connection.execute("DROP TABLE earlier")
    else:
        connection.execute("ALTER TABLE earlier RENAME TO unreadable")


MIGRATIONS = (_create, _with_indices)
"""Append to this; never change what is in it."""


def has_fts5(connection: sqlite3.Connection) -> bool:
    """Whether this SQLite was built with full-text search."""
    found = connection.execute("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'").fetchone()
    return found is not None


def has_words(connection: sqlite3.Connection) -> bool:
    """Whether there is a full-text index that this SQLite can use."""
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'words'").fetchone()
    return found is not None and has_fts5(connection)


def read_row(row: sqlite3.Row) -> Experience:
    """The experience of a row. Columns that change in place win over the body.

    Raises:
        CodecError: the row cannot be read.
    """
    try:
        experience = experience_from_json(json.loads(row["body"]))
    except (ValueError, RecursionError) as error:
        raise CodecError(str(error)) from error
    return attrs.evolve(
        experience,
        id=row["id"],
        wins=row["wins"],
        losses=row["losses"],
        pinned=bool(row["pinned"]),
        trusted=bool(row["trusted"]),
    )


def write_experience(
    connection: sqlite3.Connection, experience: Experience, created: float, used: float
) -> None:
    """Insert an experience, or replace the one of its id, in all tables."""
    known = connection.execute(
        "SELECT number FROM experiences WHERE id = ?", (experience.id,)
    ).fetchone()
    class_ = dumps(duplicate_class(experience))
    values = {
        "used": used,
        "situation": _situation(connection, experience.tags),
        "strategy": strategy_key(experience),
        "class": class_,
        "ratio": experience.ratio,
        "quality": quality(experience),
        "helpful": experience.helpful,
        "wins": experience.wins,
        "losses": experience.losses,
        "pinned": experience.pinned,
        "trusted": experience.trusted,
        "body": dumps(attrs.asdict(experience)),
    }
    if known is None:
        values |= {"id": experience.id, "created": created}
        number = _insert(connection, values)
    else:
        number = known["number"]
        changes = ", ".join(f"{name} = ?" for name in values)
        connection.execute(
            f"UPDATE experiences SET {changes} WHERE number = ?", (*values.values(), number)
        )
        _forget_words(connection, number)
    if experience.rewrite is None:
        size, some = signature(experience)
        connection.executemany(
            "INSERT INTO signatures VALUES (?,?,?,?)", [(class_, w, size, number) for w in some]
        )
    if has_words(connection):
        connection.execute(
            "INSERT INTO words (rowid, title, text, before, after) VALUES (?,?,?,?,?)",
            (number, experience.title, experience.text, experience.before, experience.after),
        )


def remove_experience(connection: sqlite3.Connection, number: int) -> None:
    """Remove an experience from all tables."""
    _forget_words(connection, number)
    row = connection.execute(
        "SELECT situation FROM experiences WHERE number = ?", (number,)
    ).fetchone()
    connection.execute("DELETE FROM experiences WHERE number = ?", (number,))
    if row is not None:
        connection.execute(
            "DELETE FROM situations WHERE number = ? AND NOT EXISTS"
            " (SELECT 1 FROM experiences WHERE situation = situations.number)",
            (row["situation"],),
        )


def _insert(connection: sqlite3.Connection, values: dict[str, Any]) -> int:
    marks = ",".join("?" * len(values))
    done = connection.execute(
        f"INSERT INTO experiences ({','.join(values)}) VALUES ({marks})", tuple(values.values())
    )
    assert done.lastrowid is not None
    return done.lastrowid


def _forget_words(connection: sqlite3.Connection, number: int) -> None:
    connection.execute("DELETE FROM signatures WHERE number = ?", (number,))
    if has_words(connection):
        connection.execute("DELETE FROM words WHERE rowid = ?", (number,))


def _situation(connection: sqlite3.Connection, tags: Tags) -> int:
    text = dumps(attrs.asdict(tags))
    row = connection.execute("SELECT number FROM situations WHERE tags = ?", (text,)).fetchone()
    if row is not None:
        return int(row["number"])
    done = connection.execute("INSERT INTO situations (tags) VALUES (?)", (text,))
    assert done.lastrowid is not None
    return done.lastrowid
