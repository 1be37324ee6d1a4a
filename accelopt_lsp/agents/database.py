"""SQLite files that survive crashes, several processes, old and new versions of this package.

Write-ahead logging, a busy timeout, foreign keys, one transaction a change. A file that is no
database any more is moved aside with a note and work goes on with a fresh one; an older schema
is migrated; a newer one is refused.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from platformdirs import user_data_dir

Migration = Callable[[sqlite3.Connection], None]
"""Brings a database from one schema version to the next, inside a transaction."""
BUSY_SECONDS = 30.0
DATA_DIR_VARIABLE = "ACCELOPT_DATA_DIR"
_QUICK_CHECK_BYTES = 64 << 20
"""Larger files are not read through whenever they are opened."""


class DatabaseProblem(RuntimeError):
    """A database that cannot be used. The message says what to do."""


class NewerSchema(DatabaseProblem):
    """Written by a later version of this package."""


class DatabaseBusy(DatabaseProblem):
    """Another process holds the lock for longer than the busy timeout."""


def data_dir() -> Path:
    """Folder of the user's databases: ``$ACCELOPT_DATA_DIR`` or the platform's data folder."""
    given = os.environ.get(DATA_DIR_VARIABLE)
    return Path(given).expanduser() if given else Path(user_data_dir("accelopt"))


class Database:
    """One SQLite file, shared by the threads of this process.

    Args:
        path: the file; its folder is created.
        migrations: ``migrations[v]`` leads from version ``v`` to ``v + 1``.
        what: name for messages, such as ``optimization memory``.
        busy_seconds: how long to wait for another process's transaction.

    Raises:
        NewerSchema: the file was written by a later version.
        DatabaseBusy: locked for longer than the busy timeout.
        DatabaseProblem: the file or its folder cannot be read or written.
    """

    def __init__(
        self,
        path: Path,
        migrations: Sequence[Migration],
        what: str,
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        self.path = path
        self.what = what
        self.notes: list[str] = []
        self._migrations = tuple(migrations)
        self._busy = busy_seconds
        self._lock = threading.RLock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DatabaseProblem(f"cannot create {path.parent} for the {what}: {error}") from error
        self._connection = self._open()

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """The connection, for queries."""
        with self._lock, self._translated():
            yield self._connection

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it is kept, or none."""
        with self._lock, self._translated():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.IntegrityError:
            raise
        except sqlite3.DatabaseError as error:
            raise self._problem(error) from error

    def _problem(self, error: sqlite3.DatabaseError) -> DatabaseProblem:
        if _is_busy(error):
            return DatabaseBusy(
                f"the {self.what} {self.path} is locked by another process; waited {self._busy:g} s"
            )
        return DatabaseProblem(f"the {self.what} {self.path} cannot be used: {error}")

    def _open(self) -> sqlite3.Connection:
        try:
            return self._connect()
        except DatabaseProblem:
            raise
        except sqlite3.DatabaseError as error:
            if not _is_corrupt(error):
                raise self._problem(error) from error
        with _exclusive(self.path):
            try:
                # Another process may have replaced the file in the meantime.
                return self._connect()
            except sqlite3.DatabaseError as error:
                if not _is_corrupt(error):
                    raise self._problem(error) from error
                self._move_aside(error)
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=self._busy, isolation_level=None, check_same_thread=False
        )
        try:
            connection.row_factory = sqlite3.Row
            connection.execute(f"PRAGMA busy_timeout = {int(self._busy * 1000)}")
            self._check(connection)
            self._use_wal(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            self._migrate(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self, connection: sqlite3.Connection) -> None:
        if self.path.stat().st_size > _QUICK_CHECK_BYTES:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            return
        found = connection.execute("PRAGMA quick_check(1)").fetchone()
        if found[0] != "ok":
            raise sqlite3.DatabaseError(f"database disk image is malformed: {found[0]}")

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        deadline = time.monotonic() + self._busy
        while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            try:
                # SQLite does not wait for the lock here, whatever the busy timeout.
                mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
                continue
            if mode != "wal":
                # A file system without shared memory: the rollback journal is safe as well.
                return

    def _migrate(self, connection: sqlite3.Connection) -> None:
        newest = len(self._migrations)
        version = _version(connection)
        if version == newest:
            return
        if version > newest:
            raise NewerSchema(
                f"the {self.what} {self.path} was written by a later version of accelopt-lsp "
                f"(schema {version}, this version knows {newest}); upgrade, or set "
                f"{DATA_DIR_VARIABLE} to another folder"
            )
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Read again under the lock: another process may have migrated meanwhile.
            for step in range(_version(connection), newest):
                self._migrations[step](connection)
                connection.execute(f"PRAGMA user_version = {step + 1}")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def _move_aside(self, error: sqlite3.DatabaseError) -> None:
        stamp = time.strftime("%Y%m%d-%H%M%S")
        aside = self.path.with_name(f"{self.path.name}.corrupt-{stamp}-{os.getpid()}")
        os.replace(self.path, aside)
        for suffix in ("-wal", "-shm"):
            log = self.path.with_name(self.path.name + suffix)
            if log.exists():
                os.replace(log, aside.with_name(aside.name + suffix))
        self.notes.append(
            f"the {self.what} was damaged ({error}); it was moved to {aside} and a new one begun"
        )


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _is_busy(error: sqlite3.DatabaseError) -> bool:
    text = str(error)
    return isinstance(error, sqlite3.OperationalError) and ("locked" in text or "busy" in text)


def _is_corrupt(error: sqlite3.DatabaseError) -> bool:
    text = str(error)
    return "not a database" in text or "malformed" in text or "unsupported file format" in text


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Hold a lock file while a damaged database is replaced (advisory; POSIX only)."""
    with open(path.with_name(path.name + ".lock"), "w", encoding="utf-8") as handle:
        try:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        except ImportError:
            pass
        yield


def has_fts5(connection: sqlite3.Connection) -> bool:
    """Whether this SQLite was built with full-text search."""
    try:
        connection.execute("CREATE VIRTUAL TABLE temp.fts_probe USING fts5(x)")
        connection.execute("DROP TABLE temp.fts_probe")
    except sqlite3.OperationalError:
        return False
    return True
