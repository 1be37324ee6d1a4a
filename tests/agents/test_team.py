"""A team's layer of the memory: drawn on like the user's own, and only read."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelopt_lsp.agents.memory import OptimizationMemory
from accelopt_lsp.agents.roles import Experience, Tags
from accelopt_lsp.agents.team import read_team
from accelopt_lsp.nki.arguments import parse_spec
from accelopt_lsp.workbench.memory import export_memory
from accelopt_lsp.workbench.optimize import OptimizeRequest, optimize_kernel
from accelopt_lsp.workbench.requests import KernelRequest
from tests.agents.landscape import TEXT, FakeProfiler, Walker, quick, roles

pytestmark = pytest.mark.usefixtures("data_dir")
TAGS = Tags(("dma_copy",), "dma", "nest0", "f32", "legacy", "trn1")


def experience(name: str, helpful: bool = True) -> Experience:
    return Experience(name, f"strategy {name}", "text", "", "", 2.0, helpful, TAGS)


@pytest.fixture
def team(tmp_path: Path) -> Path:
    """A project whose team has two experiences."""
    file = tmp_path / "team" / "memory.jsonl"
    file.parent.mkdir()
    memory = OptimizationMemory(tmp_path / "theirs.sqlite3")
    memory.add(experience("walk"))
    memory.add(experience("jump"))
    file.write_text("".join(line + "\n" for line in memory.export_lines()))
    memory.close()
    (tmp_path / "pyproject.toml").write_text('[tool.accelopt]\nteam-memory = "team/memory.jsonl"\n')
    (tmp_path / "kernel.py").write_text(TEXT)
    return file


async def optimize(folder: Path, walker: Walker) -> tuple[str, ...]:
    kernel = KernelRequest(folder / "kernel.py", arguments={"x": parse_spec("f32[128,512]")})
    report = await optimize_kernel(
        OptimizeRequest(kernel, quick()), roles=roles(walker), profiler=FakeProfiler()
    )
    return report.notes


async def test_runs_draw_on_it_and_take_over_what_won(team: Path) -> None:
    before = team.read_bytes()
    walker = Walker()
    await optimize(team.parent.parent, walker)
    assert set(walker.seen_experiences[0]) == {"walk", "jump"}
    used = walker.seen_experiences[0][0]
    memory = OptimizationMemory()
    kept = {e.id: e for e in memory.list()}
    memory.close()
    # The walker draws on the first experience that it is shown, and its steps come true.
    assert kept[used].wins == 1
    assert kept[used].trusted
    drawn_on = {ids[0] for ids in walker.seen_experiences}
    assert kept.keys() & {"walk", "jump"} == drawn_on & {"walk", "jump"}
    assert team.read_bytes() == before


async def test_what_the_user_has_wins_over_the_teams(team: Path) -> None:
    memory = OptimizationMemory()
    memory.add(experience("walk"))
    memory.record_use(["walk"], won=True)
    found = memory.retrieve(TAGS, 8, beside=read_team(team)[0])
    memory.close()
    assert [(e.id, e.wins, e.trusted) for e in found] == [("walk", 1, True), ("jump", 0, False)]


async def test_a_broken_team_file_is_a_note(team: Path) -> None:
    team.write_text(team.read_text() + "rubbish\n{}\n[]\n3\n")
    walker = Walker()
    (note,) = [n for n in await optimize(team.parent.parent, walker) if "team" in n]
    assert "line 3" in note
    assert "and 1 more" in note
    assert len(walker.seen_experiences[0]) == 2
    team.unlink()
    assert any("cannot be read" in n for n in await optimize(team.parent.parent, Walker()))


def test_adopting_leaves_what_is_known(tmp_path: Path) -> None:
    memory = OptimizationMemory(tmp_path / "m.sqlite3")
    memory.add(experience("walk"))
    memory.record_use(["walk"], won=True)
    assert memory.adopt(experience("walk")) == "walk"
    assert memory.get("walk").wins == 1
    assert memory.adopt(experience("jump", helpful=False)) == "jump"
    assert len(memory) == 2
    memory.close()


def test_export_is_what_a_team_reads(tmp_path: Path) -> None:
    memory = OptimizationMemory()
    memory.add(experience("walk"))
    memory.close()
    export_memory(tmp_path / "x.jsonl")
    assert [e.id for e in read_team(tmp_path / "x.jsonl")[0]] == ["walk"]
