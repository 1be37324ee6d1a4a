"""``pyproject.toml`` files: a line ends in ``#!`` and a part of the message that it deserves."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelopt_lsp.workbench.project_file import MAX_PROBLEMS, check_project_file, project_problems
from accelopt_lsp.workbench.settings import MAX_PROJECT_BYTES, Settings, usable_settings

FILES = sorted((Path(__file__).parent / "project_files").glob("*.toml"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_problems_stand_at_their_lines(path: Path) -> None:
    text = path.read_text("utf-8")
    expected = {
        number: line.partition("#!")[2].strip()
        for number, line in enumerate(text.split("\n"), 1)
        if "#!" in line
    }
    found = {d.span.start.line: d.message for d in check_project_file(text)}
    if path.stem == "broken":
        # Where a parser notices is its own affair.
        assert list(expected.values())[0] in next(iter(found.values()))
        return
    assert found.keys() == expected.keys()
    assert all(part in found[line] for line, part in expected.items())


def test_what_can_be_used_is_used(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_text('[tool.accelopt]\ntarget = "trn1"\ntimeout-seconds = -1\nignore = ["P10"]\n')
    settings, problems = usable_settings(tmp_path / "kernel.py", {"nki_version": "x"})
    assert (settings.target, settings.ignore) == ("trn1", ("P10",))
    assert settings.timeout_seconds == Settings().timeout_seconds
    (problem,) = problems
    assert "nki-version must be" in str(problem)
    found = project_problems(tmp_path / "kernel.py")
    assert found is not None
    assert (found[0], [d.span.start.line for d in found[1]]) == (file, [3])
    file.write_text('[tool.accelopt]\ntarget = "trn1"\n')
    assert project_problems(tmp_path / "kernel.py") == (file, ())


@pytest.mark.parametrize(
    "text",
    [
        "tool = 3\n",
        "[tool.accelopt\n",
        '[tool]\naccelopt = "x"\n',
        f"x = {'[' * 5000}\n",
        f"x = {'9' * 5000}\n",
        "#" * (MAX_PROJECT_BYTES + 1),
    ],
    ids=["no table", "no TOML", "no settings", "nested", "a number without end", "large"],
)
def test_a_file_that_cannot_be_read_leaves_the_defaults(tmp_path: Path, text: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    settings, problems = usable_settings(tmp_path / "kernel.py", {"target": "trn3"})
    assert settings.target == "trn3"
    assert len(problems) == 1
    assert project_problems(tmp_path / "kernel.py") is not None


def test_of_many_problems_the_first_are_told() -> None:
    lines = "".join(f"a{n} = 1\n" for n in range(3000))
    found = check_project_file(f"[tool.accelopt]\n{lines}[tool.accelopt.llm]\n{lines}")
    assert len(found) == MAX_PROBLEMS


@pytest.mark.parametrize("number", ["inf", "nan", "0", f"1{'0' * 400}"])
def test_a_time_limit_is_a_number_of_seconds(number: str) -> None:
    (problem,) = check_project_file(f"[tool.accelopt]\ntimeout-seconds = {number}\n")
    assert "must be a positive number of seconds" in problem.message
