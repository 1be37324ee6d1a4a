"""SQLite files that survive crashes, several processes, old and new versions of this package.

Write-ahead logging, a busy timeout, foreign keys, one transaction a change. A file that is no
database any more is moved aside with a note and work goes on with a fresh one; an older schema
is migrated; a newer one, and one of another program, is refused and left alone. What may not be
written is read.
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


class ForeignDatabase(DatabaseProblem):
    """A database of another program."""


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
        application: number in the file's header that says whose it is.
        repair: move a damaged file aside and begin a new one; else a damaged file is a problem.

    Attributes:
        notes: remarks for people.

    Raises:
        NewerSchema: the file was written by a later version.
        ForeignDatabase: it was written by another program.
        DatabaseBusy: locked for longer than the busy timeout.
        DatabaseProblem: the file or its folder cannot be read or written.
    """

    def __init__(
        self,
        path: Path,
        migrations: Sequence[Migration],
        what: str,
        busy_seconds: float = BUSY_SECONDS,
        *,
        application: int = 0,
        repair: bool = True,
    ) -> None:
        self.path = path
        self.what = what
        self.notes: list[str] = []
        self._migrations = tuple(migrations)
        self._busy = busy_seconds
        self._application = application
        self._repair = repair
        self._lock = threading.RLock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DatabaseProblem(f"cannot create {path.parent} for the {what}: {error}") from error
        self._connection = self._open()
        self._identity = _identity(path)

    @property
    def replaced(self) -> bool:
        """Whether the file was removed or replaced since it was opened."""
        return _identity(self.path) != self._identity

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """The connection, for queries."""
        with self._lock, self._translated():
            yield self._connection

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """The connection, for several queries that all see the same state."""
        with self._lock, self._translated(), self._transaction("BEGIN"):
            yield self._connection

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it is kept, or none."""
        with self._lock, self._translated(), self._transaction("BEGIN IMMEDIATE"):
            yield self._connection

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        self._connection.execute(begin)
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            # SQLite itself rolls back where a disk is full.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

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
            if _is_forbidden(error) and self.path.is_file():
                return self._open_to_read(error)
            if not _is_corrupt(error) or not self._repair:
                raise self._problem(error) from error
        try:
            with _exclusive(self.path):
                return self._replace()
        except OSError as error:
            raise DatabaseProblem(
                f"the {self.what} {self.path} is damaged and cannot be moved aside: {error}"
            ) from error

    def _replace(self) -> sqlite3.Connection:
        """A new database in place of a damaged one."""
        try:
            # Another process may have replaced the file in the meantime.
            return self._connect()
        except sqlite3.DatabaseError as error:
            if not _is_corrupt(error):
                raise self._problem(error) from error
            self._move_aside(error)
        try:
            return self._connect()
        except sqlite3.DatabaseError as error:
            raise self._problem(error) from error

    def _open_to_read(self, reason: sqlite3.DatabaseError) -> sqlite3.Connection:
        """The database as it is, where neither it nor its folder may be written.

        Without a log beside it the file can be read as it stands; with one, only SQLite can say
        what is in it.
        """
        log = self.path.with_name(self.path.name + "-wal")
        still = not log.exists() or not log.stat().st_size
        for options in ("mode=ro", "immutable=1") if still else ("mode=ro",):
            try:
                connection = sqlite3.connect(
                    f"{self.path.resolve().as_uri()}?{options}",
                    uri=True,
                    timeout=self._busy,
                    isolation_level=None,
                    check_same_thread=False,
                )
                connection.row_factory = sqlite3.Row
                if self._version(connection) < len(self._migrations):
                    connection.close()
                    break
            except sqlite3.DatabaseError:
                continue
            self._note_read_only()
            return connection
        raise self._problem(reason) from reason

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=self._busy, isolation_level=None, check_same_thread=False
        )
        try:
            connection.row_factory = sqlite3.Row
            connection.execute(f"PRAGMA busy_timeout = {int(self._busy * 1000)}")
            self._check(connection)
            self._version(connection)
            self._use_wal(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            self._migrate(connection)
        except BaseException:
            connection.close()
            raise
        if not os.access(self.path, os.W_OK):
            self._note_read_only()
        return connection

    def _note_read_only(self) -> None:
        self.notes.append(f"the {self.what} {self.path} is read-only; nothing new is kept")

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

    def _version(self, connection: sqlite3.Connection) -> int:
        """Version of the schema.

        Raises:
            NewerSchema: the file was written by a later version.
            ForeignDatabase: it was written by another program.
        """
        version = _pragma(connection, "user_version")
        whose = _pragma(connection, "application_id")
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if whose not in (0, self._application) or (not version and tables):
            raise ForeignDatabase(
                f"{self.path} is a database, but no {self.what}; move it away, or set "
                f"{DATA_DIR_VARIABLE} to another folder"
            )
        if version > len(self._migrations):
            raise NewerSchema(
                f"the {self.what} {self.path} was written by a later version of accelopt-lsp "
                f"(schema {version}, this version knows {len(self._migrations)}); upgrade, or set "
                f"{DATA_DIR_VARIABLE} to another folder"
            )
        return version

    def _migrate(self, connection: sqlite3.Connection) -> None:
        newest = len(self._migrations)
        if self._version(connection) == newest:
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Read again under the lock: another process may have migrated meanwhile.
            for step in range(self._version(connection), newest):
                self._migrations[step](connection)
            connection.execute(f"PRAGMA user_version = {newest}")
            connection.execute(f"PRAGMA application_id = {self._application}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

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


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_CORRUPT = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_FORBIDDEN = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM})


def _code(error: sqlite3.DatabaseError) -> int:
    """Primary result code, 0 if it does not come from SQLite."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _is_busy(error: sqlite3.DatabaseError) -> bool:
    return _code(error) in _BUSY


def _is_corrupt(error: sqlite3.DatabaseError) -> bool:
    text = str(error)
    return _code(error) in _CORRUPT or "malformed" in text or "unsupported file format" in text


def _is_forbidden(error: sqlite3.DatabaseError) -> bool:
    return _code(error) in _FORBIDDEN


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
