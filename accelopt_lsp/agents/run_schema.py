"""Tables of the run store, and how a store of an earlier version becomes one of this."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

APPLICATION_ID = 0x41635275
"""``AcRu`` in the file's header: whose database it is."""

_SCHEMA_1 = """
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    status TEXT NOT NULL,
    path TEXT NOT NULL,
    function TEXT NOT NULL,
    target TEXT NOT NULL,
    dialect TEXT NOT NULL,
    text TEXT NOT NULL,
    arguments TEXT NOT NULL,
    reference TEXT,
    settings TEXT NOT NULL,
    roles TEXT NOT NULL,
    version TEXT NOT NULL,
    initial TEXT,
    baseline_ms REAL,
    best_ms REAL,
    evaluations INTEGER NOT NULL DEFAULT 0,
    result TEXT
);
CREATE TABLE evaluations (
    run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    created REAL NOT NULL,
    seconds REAL NOT NULL,
    seeds TEXT NOT NULL,
    source TEXT NOT NULL,
    outcome TEXT NOT NULL,
    latency_ms REAL,
    PRIMARY KEY (run, key)
);
CREATE TABLE plans (
    run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
    candidate TEXT NOT NULL,
    iteration INTEGER NOT NULL,
    position INTEGER NOT NULL,
    plan TEXT NOT NULL,
    PRIMARY KEY (run, iteration, candidate, position)
);
CREATE TABLE attempts (
    run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    parent TEXT NOT NULL,
    plan TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    source TEXT,
    verdict TEXT NOT NULL,
    latency_ms REAL,
    error TEXT,
    PRIMARY KEY (run, id)
);
CREATE TABLE beams (
    run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
    iteration INTEGER NOT NULL,
    place INTEGER NOT NULL,
    candidate TEXT NOT NULL,
    latency_ms REAL NOT NULL,
    PRIMARY KEY (run, iteration, place)
);
CREATE TABLE experiences (
    run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    experience TEXT NOT NULL,
    remembered INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run, key)
);
CREATE INDEX runs_by_time ON runs (created);
"""

_SCHEMA_2 = """
CREATE TABLE exchanges (
    run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    created REAL NOT NULL,
    role TEXT NOT NULL,
    model TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    cost_usd REAL,
    exchange TEXT NOT NULL,
    PRIMARY KEY (run, key)
);
"""


_SCHEMA_3 = """
ALTER TABLE runs ADD COLUMN process TEXT
"""


def _script(schema: str) -> Callable[[sqlite3.Connection], None]:
    def migrate(connection: sqlite3.Connection) -> None:
        for statement in schema.split(";"):
            if statement.strip():
                connection.execute(statement)

    return migrate


MIGRATIONS = (_script(_SCHEMA_1), _script(_SCHEMA_2), _script(_SCHEMA_3))
"""Append to this; never change what is in it."""
