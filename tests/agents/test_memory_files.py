"""Files of the memory: damage, locks, versions, several processes at once, kills."""

from __future__ import annotations

import json
import signal
import sqlite3
from pathlib import Path

import pytest
from attrs import evolve

from accelopt_lsp.agents import memory as memory_module
from accelopt_lsp.agents import memory_schema
from accelopt_lsp.agents.codec import experience_to_json
from accelopt_lsp.agents.database import DatabaseBusy, NewerSchema
from accelopt_lsp.agents.memory import OptimizationMemory
from accelopt_lsp.agents.roles import Experience, Origin
from tests.agents.landscape import start
from tests.agents.lessons import lesson


def test_a_damaged_file_is_moved_aside_and_work_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite3"
    path.write_bytes(b"this is no database" * 100)
    memory = OptimizationMemory(path)
    memory.add(lesson("a"))
    (note,) = memory.notes
    (aside,) = tmp_path.glob("memory.sqlite3.corrupt-*")
    assert str(aside) in note
    assert aside.read_bytes().startswith(b"this is no database")
    memory.close()
    reopened = OptimizationMemory(path)
    assert (len(reopened), reopened.notes) == (1, ())
    reopened.close()


def test_a_file_with_broken_pages_is_moved_aside(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite3"
    memory = OptimizationMemory(path)
    for number in range(200):
        memory.add(lesson(f"n{number}", text="x" * 500))
    memory.close()
    data = bytearray(path.read_bytes())
    for page in range(2, len(data) // 4096 - 1):
        data[page * 4096 : page * 4096 + 2048] = b"\xff" * 2048
    path.write_bytes(bytes(data))
    memory = OptimizationMemory(path)
    assert len(memory.notes) == 1
    assert len(memory) == 0
    assert len(list(tmp_path.glob("*.corrupt-*"))) == 1
    memory.close()


def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite3"
    OptimizationMemory(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(NewerSchema, match=r"later version.*upgrade"):
        OptimizationMemory(path)
    assert list(tmp_path.glob("*.corrupt-*")) == []


def test_an_older_schema_is_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "memory.sqlite3"
    memory = OptimizationMemory(path)
    memory.add(lesson("a"))
    memory.close()

    def add_column(connection: sqlite3.Connection) -> None:
        connection.execute("ALTER TABLE applied ADD COLUMN note TEXT")

    monkeypatch.setattr(memory_module, "MIGRATIONS", (*memory_schema.MIGRATIONS, add_column))
    memory = OptimizationMemory(path)
    assert memory.get("a").title == "strategy a"
    memory.close()
    with sqlite3.connect(path) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        assert version == len(memory_schema.MIGRATIONS) + 1
    connection.close()


def first_schema(path: Path, experiences: list[Experience]) -> None:
    """A memory as the first version of the package kept it."""
    connection = sqlite3.connect(path)
    connection.executescript(memory_schema._SCHEMA_1)
    connection.execute(
        "CREATE VIRTUAL TABLE words USING fts5(id UNINDEXED, title, text, before, after)"
    )
    for e in experiences:
        body = experience_to_json(e)
        for name in ("reported_wins", "reported_losses"):
            del body[name]
        for name in ("engines", "shape_class"):
            del body["tags"][name]
        lookup = (e.rewrite or "", e.tags.bottleneck or "", e.tags.dialect or "", e.helpful)
        counts = (e.wins, e.losses, e.pinned, e.trusted)
        connection.execute(
            "INSERT INTO experiences VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",
            (e.id, e.origin.created, 2.0, *lookup, *counts, json.dumps(body)),
        )
        connection.execute(
            "INSERT INTO words VALUES (?,?,?,?,?)", (e.id, e.title, e.text, e.before, e.after)
        )
    connection.execute("INSERT INTO applied VALUES ('run/i1', 1.0)")
    connection.execute("PRAGMA user_version = 1")
    connection.commit()
    connection.close()


def test_memories_of_the_first_schema_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite3"
    old = [
        lesson(
            name,
            origin=Origin(created=1.0 + number),
            wins=number,
            pinned=name == "b",
            trusted=name != "c",
            tags=evolve(lesson("x").tags, engines=(), shape_class=None),
        )
        for number, name in enumerate("abc")
    ]
    first_schema(path, old)
    connection = sqlite3.connect(path)
    connection.execute(
        "INSERT INTO experiences SELECT 'bad', 0, 0, '', '', '', 1, 0, 0, 0, 1, 'no json'"
    )
    connection.commit()
    connection.close()
    memory = OptimizationMemory(path)
    assert list(memory.list()) == list(reversed(old))
    assert memory.search("words about b")[0].id == "b"
    assert len(memory.retrieve(old[0].tags, 8)) == 3
    assert memory.add(lesson("d", rewrite="a"), "run/i1") == "a"
    assert memory.get("a").wins == 0
    memory.close()
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT id, body FROM unreadable").fetchall() == [("bad", "no json")]
    connection.close()


def test_several_processes_migrate_the_memory_at_once(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite3"
    first_schema(path, [lesson(f"n{n}", origin=Origin(created=1.0 + n)) for n in range(300)])
    writers = [start(MANY, str(path), name, "3") for name in ("a", "b", "c")]
    assert [writer.wait(120) for writer in writers] == [0, 0, 0]
    memory = OptimizationMemory(path)
    assert len(memory) == 309
    memory.close()


def test_a_failed_migration_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "memory.sqlite3"
    memory = OptimizationMemory(path)
    memory.add(lesson("a"))
    memory.close()

    def breaks(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM experiences")
        raise RuntimeError("power cut")

    with monkeypatch.context() as patched:
        patched.setattr(memory_module, "MIGRATIONS", (*memory_schema.MIGRATIONS, breaks))
        with pytest.raises(RuntimeError, match="power cut"):
            OptimizationMemory(path)
    memory = OptimizationMemory(path)
    assert len(memory) == 1
    memory.close()


def test_a_lock_that_stays_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite3"
    memory = OptimizationMemory(path, busy_seconds=0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(DatabaseBusy, match="locked by another process"):
        memory.add(lesson("a"))
    other.execute("ROLLBACK")
    memory.add(lesson("a"))
    assert len(memory) == 1
    other.close()
    memory.close()


MANY = """
    import sys
    from pathlib import Path
    from accelopt_lsp.agents.memory import OptimizationMemory
    from accelopt_lsp.agents.roles import Experience, Tags
    memory = OptimizationMemory(Path(sys.argv[1]))
    for number in range(int(sys.argv[3])):
        name = f"{sys.argv[2]}{number}"
        memory.add(Experience(name, name, name, rewrite=name))
        memory.record_use(["shared"], won=True)
        memory.retrieve(Tags(), 3, "words")
"""


def test_several_processes_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite3"
    memory = OptimizationMemory(path)
    memory.add(lesson("shared"))
    count = 40
    writers = [start(MANY, str(path), name, str(count)) for name in ("a", "b")]
    assert [writer.wait(120) for writer in writers] == [0, 0]
    assert len(memory) == 1 + 2 * count
    assert memory.get("shared").wins == 2 * count
    memory.close()


def test_several_processes_create_the_memory_at_once(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite3"
    writers = [start(MANY, str(path), name, "3") for name in ("a", "b", "c")]
    assert [writer.wait(120) for writer in writers] == [0, 0, 0]
    memory = OptimizationMemory(path)
    assert len(memory) == 9
    memory.close()


ENDLESS = """
    import sys
    from pathlib import Path
    from accelopt_lsp.agents.memory import OptimizationMemory
    from accelopt_lsp.agents.roles import Experience
    memory = OptimizationMemory(Path(sys.argv[1]))
    for number in range(1_000_000):
        name = f"{sys.argv[2]}{number}"
        memory.add(Experience(name, name, name * 50, rewrite=name))
        print(number, flush=True)
"""


def test_a_kill_in_the_middle_corrupts_nothing(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite3"
    confirmed: set[str] = set()
    for round in range(4):
        process = start(ENDLESS, str(path), f"r{round}n")
        assert process.stdout is not None
        for line in process.stdout:
            confirmed.add(f"r{round}n{line.strip()}")
            if int(line) >= 7 + 5 * round:
                break
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read()
        confirmed.update(f"r{round}n{line}" for line in rest.split("\n")[:-1] if line)
        process.wait()
    memory = OptimizationMemory(path)
    assert memory.notes == ()
    assert confirmed <= {e.id for e in memory.list()}
    memory.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
