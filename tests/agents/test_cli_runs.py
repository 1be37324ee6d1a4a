"""``accelopt runs`` and ``accelopt memory`` as somebody uses them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from accelopt_lsp.agents.codec import dumps, experience_to_json
from accelopt_lsp.agents.database import data_dir as data_folder
from accelopt_lsp.agents.memory import OptimizationMemory
from accelopt_lsp.agents.roles import Experience
from accelopt_lsp.agents.store import RunStore
from accelopt_lsp.cli import cli
from accelopt_lsp.nki.arguments import parse_spec
from accelopt_lsp.workbench.memory import experience_markdown, fitting_experiences, plain_markdown
from accelopt_lsp.workbench.optimize import OptimizeReport, OptimizeRequest, optimize_kernel
from accelopt_lsp.workbench.requests import KernelRequest
from tests.agents.landscape import TEXT, FakeProfiler, Walker, quick, roles
from tests.agents.lessons import lesson

pytestmark = pytest.mark.usefixtures("data_dir")


async def run(folder: Path, **changes: object) -> OptimizeReport:
    (folder / "kernel.py").write_text(TEXT)
    kernel = KernelRequest(folder / "kernel.py", arguments={"x": parse_spec("f32[128,512]")})
    request = OptimizeRequest(kernel, quick(fix_rounds=1), **changes)  # type: ignore[arg-type]
    profiler = FakeProfiler(fails=frozenset({(1, 4)}), wrong=frozenset({(3, 1)}))
    return await optimize_kernel(request, roles=roles(Walker()), profiler=profiler)


def accelopt(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


async def test_a_run_is_shown_as_a_tree(tmp_path: Path) -> None:
    report = await run(tmp_path)
    assert report.run is not None
    assert report.run in accelopt("runs", "list").output
    shown = accelopt("runs", "show", report.run).output
    lines = shown.splitlines()
    assert "kernel.py::kernel on trn1" in shown
    assert any(line.startswith("baseline") for line in lines)
    first = next(line for line in lines if " i1.c0." in line)
    later = next(line for line in lines if " i2." in line)
    assert later.index(" i2.") > first.index(" i1.")
    assert "SBUF overflow: block of 4" in shown
    assert any("* i" in line for line in lines)
    assert "+    A = " in shown
    assert "+    A = " not in accelopt("runs", "show", report.run, "--no-diff").output


async def test_a_run_as_json_is_complete(tmp_path: Path) -> None:
    report = await run(tmp_path)
    shown = json.loads(accelopt("runs", "show", str(report.run), "--json").output)
    assert shown["schema_version"] == 1
    made = {a["id"]: a for a in shown["attempts"]}
    assert all(a["parent"] == "baseline" or a["parent"] in made for a in made.values())
    assert {a["verdict"] for a in made.values()} >= {"verified", "failed", "incorrect"}
    assert shown["beam"][0] in made
    assert shown["experiences"]
    assert shown["result"]["speedup"] == report.speedup


async def test_an_export_has_everything_in_lines(tmp_path: Path) -> None:
    report = await run(tmp_path)
    file = tmp_path / "run.jsonl"
    assert accelopt("runs", "export", str(report.run), str(file)).exit_code == 0
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    kinds = [line["kind"] for line in lines]
    assert kinds[0] == "run"
    assert set(kinds) == {"run", "plan", "attempt", "evaluation", "beam", "experience"}
    assert kinds.count("evaluation") == report.evaluations
    assert lines[0]["text"] == TEXT
    whole = json.loads(accelopt("runs", "export", str(report.run), "--json").output)
    assert len(whole["evaluations"]) == report.evaluations


async def test_old_runs_are_pruned_but_not_what_they_taught(tmp_path: Path) -> None:
    reports = [await run(tmp_path) for _ in range(3)]
    memory = OptimizationMemory()
    taught = len(memory)
    memory.close()
    assert "removed 2 run(s)" in accelopt("runs", "prune", "--keep", "1").output
    store = RunStore()
    assert [r.id for r in store.runs()] == [reports[-1].run]
    store.close()
    memory = OptimizationMemory()
    assert len(memory) == taught > 0
    memory.close()
    assert accelopt("runs", "forget", str(reports[-1].run)).exit_code == 0
    assert "no runs yet" in accelopt("runs", "list").output


async def test_a_run_that_nobody_remembers_is_kept(tmp_path: Path) -> None:
    report = await run(tmp_path)
    store = RunStore()
    with store._database.write() as connection:
        connection.execute("UPDATE experiences SET remembered = 0")
    store.close()
    assert "removed 0" in accelopt("runs", "prune", "--keep", "0").output
    assert str(report.run) in accelopt("runs", "list").output


@pytest.mark.parametrize("policy", ["retrieval", "queue"])
async def test_the_policy_of_the_project_decides_unless_one_is_given(
    tmp_path: Path, policy: str
) -> None:
    (tmp_path / "pyproject.toml").write_text(f'[tool.accelopt]\nmemory-policy = "{policy}"\n')
    reports = [await run(tmp_path), await run(tmp_path, memory_policy="none")]
    store = RunStore()
    chosen = [store.load(str(r.run)).settings["memory_policy"] for r in reports]
    assert chosen == [policy, "none"]
    assert store.lessons(str(reports[1].run)) == []
    store.close()


HOSTILE = "[click](command:evil) ![x](http://e/x.png) <img src=x> `a` | b\n# head\n- item"


def test_somebody_elses_text_is_shown_as_it_stands(tmp_path: Path) -> None:
    memory = OptimizationMemory()
    memory.add(lesson("a", title="\x1b[2Jx\x9b1m", text=HOSTILE, before="```\n# out", after=""))
    memory.close()
    for command in (("memory", "list"), ("memory", "show", "a")):
        output = accelopt(*command).output
        assert "\x1b[2J" not in output
        assert "\x9b" not in output
    page = experience_markdown(lesson("a", text=HOSTILE, before="```\n# out"))
    assert "](" not in page
    assert page.count("<img") == page.count("\\<img") == 1
    assert "\n````python\n```\n# out\n````\n" in page


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain words, 1.5x", "plain words, 1.5x"),
        ("a_b * c", r"a\_b \* c"),
        ("[x](y)", r"\[x\]\(y\)"),
        ("- item\n  === x", "\\- item\n  \\=== x"),
        ("<b>&amp;", r"\<b\>\&amp;"),
    ],
)
def test_markdown_is_escaped(text: str, expected: str) -> None:
    assert plain_markdown(text) == expected


def test_imports_report_what_they_refused(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    good = dumps(experience_to_json(lesson("a", wins=3)))
    file.write_text(f"{good}\nrubbish \x1b[2J\n{'x' * (2 << 20)}\n{good.replace('lesson', 'l')}\n")
    done = accelopt("memory", "import", str(file))
    assert done.exit_code == 0
    assert "1 added, 1 merged, 2 refused" in done.output
    assert "\x1b" not in done.output
    assert "3 won, 0 lost, as reported" in accelopt("memory", "show", "a").output


def test_hovers_see_what_was_learned_meanwhile() -> None:
    memory = OptimizationMemory()
    tags = lesson("x").tags
    assert fitting_experiences(tags, 3) == []
    memory.add(lesson("a"))
    assert [e.id for e in fitting_experiences(tags, 3)] == ["a"]
    memory.close()
    for file in data_folder().glob("memory.sqlite3*"):
        file.unlink()
    memory = OptimizationMemory()
    memory.add(Experience("b", "b", "b", tags=tags))
    memory.close()
    assert [e.id for e in fitting_experiences(tags, 3)] == ["b"]
