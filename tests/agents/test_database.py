"""Files that are no database of ours, cannot be written, or are used by several at once."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from accelopt_lsp.agents.database import DatabaseProblem, ForeignDatabase
from accelopt_lsp.agents.memory import OptimizationMemory
from accelopt_lsp.agents.roles import Experience, Tags
from accelopt_lsp.agents.store import RunStore

OPEN: dict[str, Callable[[Path], OptimizationMemory | RunStore]] = {
    "memory": OptimizationMemory,
    "runs": RunStore,
}


@pytest.fixture(params=OPEN)
def opener(request: pytest.FixtureRequest) -> Callable[[Path], OptimizationMemory | RunStore]:
    return OPEN[request.param]


def of_another_program(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
        connection.execute("INSERT INTO bookmarks VALUES ('kept')")
    connection.close()


def marked_as_anothers(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA application_id = 12345")
        connection.execute("PRAGMA user_version = 1")
    connection.close()


@pytest.mark.parametrize("make", [of_another_program, marked_as_anothers])
def test_anothers_database_is_refused_and_left_alone(
    tmp_path: Path, opener: Callable[[Path], object], make: Callable[[Path], None]
) -> None:
    path = tmp_path / "x.sqlite3"
    make(path)
    before = path.read_bytes()
    with pytest.raises(ForeignDatabase, match=r"is a database, but no .*ACCELOPT_DATA_DIR"):
        opener(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["x.sqlite3"]


def test_one_of_ours_is_not_taken_for_the_other(tmp_path: Path) -> None:
    RunStore(tmp_path / "x.sqlite3").close()
    with pytest.raises(ForeignDatabase):
        OptimizationMemory(tmp_path / "x.sqlite3")


@pytest.mark.parametrize("size", [0, 1, 99, 100, 512, 4096, 5000, 12_288, -4096, -1])
def test_a_truncated_file_is_replaced_or_read_but_never_lost(tmp_path: Path, size: int) -> None:
    path = tmp_path / "x.sqlite3"
    RunStore(path).close()
    data = path.read_bytes()
    path.write_bytes(data[:size])
    kept = path.read_bytes()
    store = RunStore(path)
    assert store.runs() == []
    asides = list(tmp_path.glob("*.corrupt-*"))
    assert len(asides) == len(store.notes)
    assert [a.read_bytes() for a in asides] == [kept] * len(asides)
    assert asides or size in (0, 1, -1)
    store.close()


def test_a_damaged_file_stays_where_it_is_for_who_only_looks(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite3"
    path.write_bytes(b"this is no database" * 100)
    with pytest.raises(DatabaseProblem, match="cannot be used"):
        OptimizationMemory(path, repair=False)
    assert [p.name for p in tmp_path.iterdir()] == ["x.sqlite3"]


def test_a_folder_in_its_place_is_a_problem(
    tmp_path: Path, opener: Callable[[Path], object]
) -> None:
    (tmp_path / "x.sqlite3").mkdir()
    with pytest.raises(DatabaseProblem, match="cannot be used"):
        opener(tmp_path / "x.sqlite3")
    (tmp_path / "file").write_text("")
    with pytest.raises(DatabaseProblem, match="cannot create"):
        opener(tmp_path / "file" / "x.sqlite3")


def without_rights(work: Callable[[], str]) -> str:
    """What work says in a process that the files' permissions bind."""
    reading, writing = os.pipe()
    number = os.fork()
    if not number:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            os.write(writing, work().encode())
        except BaseException as error:
            os.write(writing, repr(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        said = pipe.read()
    os.waitpid(number, 0)
    return said


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize("folder_too", [False, True])
def test_what_may_not_be_written_is_read(folder_too: bool) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        path = folder / "memory.sqlite3"
        memory = OptimizationMemory(path)
        memory.add(Experience("a", "words", "words"))
        memory.close()
        path.chmod(0o444)
        folder.chmod(0o555 if folder_too else 0o777)

        def work() -> str:
            opened = OptimizationMemory(path)
            found = opened.retrieve(Tags(), 3, "words") + opened.search("words")
            assert [e.id for e in found] == ["a", "a"]
            with pytest.raises(DatabaseProblem, match="readonly"):
                opened.add(Experience("b", "b", "b"))
            return opened.notes[0]

        said = without_rights(work)
        folder.chmod(0o755)
        assert said.endswith("is read-only; nothing new is kept"), said
        assert [e.id for e in OptimizationMemory(path).list()] == ["a"]


def test_a_full_disk_is_said_and_what_was_there_stays(tmp_path: Path) -> None:
    memory = OptimizationMemory(tmp_path / "memory.sqlite3")
    memory.add(Experience("a", "kept", "kept"))
    with memory._database.read() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 1}")
    big = Experience("b", "large", "large " * 1000, slow="x" * 100_000)
    with pytest.raises(DatabaseProblem, match="full"):
        memory.add(big)
    with memory._database.read() as connection:
        connection.execute("PRAGMA max_page_count = 1000000")
    assert memory.add(big) == "b"
    assert [e.id for e in memory.search("kept")] == ["a"]
    memory.close()
