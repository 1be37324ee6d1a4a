"""Every choice of a search can be made by the project and by the caller, and mistakes are named."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from attrs import fields

from accelopt_lsp.agents.search import SearchSettings
from accelopt_lsp.workbench.searching import search_settings
from accelopt_lsp.workbench.settings import SettingsError, settings_for


def project(folder: Path, table: str) -> Path:
    (folder / "pyproject.toml").write_text(f"[tool.accelopt.search]\n{table}\n")
    return folder / "kernel.py"


def test_the_caller_wins_over_the_project_and_the_project_over_the_default(tmp_path: Path) -> None:
    kernel = project(tmp_path, 'beam = 5\nexp-n = 7\nmemory_policy = "queue"')
    found = search_settings(kernel, {"beam": 3, "fast-threshold": 2})
    assert (found.beam, found.exp_n, found.memory_policy) == (3, 7, "queue")
    assert found.fast_threshold == 2.0
    assert found.plans == SearchSettings().plans
    assert settings_for(kernel).target is None


def test_every_choice_can_be_made(tmp_path: Path) -> None:
    published = SearchSettings.published().to_json()
    for field in fields(SearchSettings):
        value = published[field.name]
        found = search_settings(tmp_path, {field.name.replace("_", "-"): value})
        assert getattr(found, field.name) == value


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("beem", 3, "did you mean beam"),
        ("beam", 0, "beam must be at least 1, got 0"),
        ("beam", "three", "beam must be like 2, got 'three'"),
        ("beam", "3", "beam must be like 2, got '3'"),
        ("beam", True, "beam must be like 2"),
        ("memory_policy", "telepathy", "memory_policy must be"),
        ("allow_lower_precision", "no", "allow-lower-precision must be like False"),
        ("allow_lower_precision", 1, "allow-lower-precision must be like False"),
        ("other_scales", [[-1, 0]], "other_scales must be positive"),
        ("verify_seeds", "0", "verify-seeds must be like"),
    ],
)
def test_mistakes_are_named(name: str, value: object, words: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=re.escape(words)):
        search_settings(tmp_path, {name: value})


def test_no_table_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.accelopt]\nsearch = 3\n")
    with pytest.raises(SettingsError, match="must be a table"):
        search_settings(tmp_path / "kernel.py", {})


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(examples: Path, tmp_path: Path) -> None:
    kernel = tmp_path / "softmax.py"
    kernel.write_text((examples / "legacy" / "softmax.py").read_text())
    # As in a terminal: what a shell starts in the background inherits that interrupts are ignored.
    main = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from accelopt_lsp.cli import main; main()"
    )
    # Kept results would let the run end before it is interrupted.
    command = [sys.executable, "-c", main, "optimize", str(kernel), "--no-cache"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    from accelopt_lsp.agents.store import RunStore

    store = RunStore()
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        mine = [run for run in store.runs() if run.path == str(kernel)]
        if mine and store.evaluation_count(mine[0].id) >= 3:
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert f"--resume {mine[0].id}" in errors
    assert "interrupted" in errors
    assert store.load(mine[0].id).status == "cancelled"
    store.close()
