"""Whole jobs that go wrong: each file says in its first line what must be reported.

``# expect: KIND [line=N] [code=CODE] TEXT``; ``correct`` and ``wrong`` stand for a profile.
"""

from __future__ import annotations

import py_compile
import re
from pathlib import Path

import attrs
import pytest

from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.profiler.base import Failure, FailureKind, Outcome
from tests.simulator.helpers import FOLDER, job, profile

EXPECTATION = re.compile(r"# expect: (\S+)((?: (?:line|code)=\S+)*) ?(.*)")
REFERENCE = "def forward(x):\n    return x\n"


def _files(folder: str) -> list[Path]:
    return sorted((FOLDER / folder).glob("*.py"))


def _run(path: Path, tmp_path: Path, seconds: float = 60.0, memory: int = 6 << 30) -> Outcome:
    reference = tmp_path / "reference.py"
    reference.write_text(REFERENCE)
    return profile(
        job(
            path,
            {"x": "f32[128,512]"},
            reference=reference,
            seeds=(0,),
            seconds=seconds,
            memory=memory,
        )
    )


def _check(path: Path, outcome: Outcome) -> None:
    match = EXPECTATION.match(path.read_text())
    assert match is not None, "the first line must say what to expect"
    kind, places, text = match.groups()
    if kind in ("correct", "wrong"):
        assert isinstance(outcome, Profile), outcome
        assert outcome.correct is (kind == "correct")
        assert text in " ".join(outcome.notes)
        return
    assert isinstance(outcome, Failure), outcome
    wanted = dict(part.split("=") for part in places.split())
    assert outcome.kind.value == kind, outcome
    assert text in outcome.message
    if "line" in wanted:
        # An endless loop is stopped at any of its lines, "11-12".
        first, _, last = wanted["line"].partition("-")
        assert outcome.line is not None, outcome
        assert int(first) <= outcome.line <= int(last or first), outcome
    assert outcome.code == wanted.get("code"), outcome


@pytest.mark.parametrize("path", _files("failures"), ids=lambda p: p.stem)
def test_failures_name_place_and_reason(path: Path, tmp_path: Path) -> None:
    _check(path, _run(path, tmp_path))


@pytest.mark.parametrize("path", _files("attacks"), ids=lambda p: p.stem)
def test_hostile_kernels_are_contained(path: Path, tmp_path: Path) -> None:
    endless = "timeout" in path.read_text().partition("\n")[0]
    before = path.read_text()
    _check(path, _run(path, tmp_path, seconds=5.0 if endless else 60.0, memory=4 << 30))
    assert path.read_text() == before
    assert not Path("/etc/escaped").exists()


@pytest.mark.parametrize(("version", "code"), [(None, None), ("0.6", None), ("0.5", "R104")])
def test_names_are_those_of_the_version_in_force(version: str | None, code: str | None) -> None:
    path = FOLDER.parent / "rejections" / "current" / "R104_version.py"
    wanted = job(path, {"x": "f32[128,512]"}, function="broken", target="trn2")
    outcome = profile(attrs.evolve(wanted, nki_version=version))
    assert (outcome.code if isinstance(outcome, Failure) else None) == code


READS = """import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
{line}


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out
"""


@pytest.mark.parametrize("line", ["from secret import forward", "text = open('secret.py').read()"])
def test_hidden_files_are_out_of_reach(line: str, tmp_path: Path) -> None:
    path, secret = tmp_path / "kernel.py", tmp_path / "secret.py"
    path.write_text(READS.format(line=line.replace("secret.py", str(secret))))
    secret.write_text(REFERENCE)
    wanted = job(path, {"x": "f32[128,512]"}, reference=secret, seeds=(0,))
    open_to_all = profile(wanted)
    assert isinstance(open_to_all, Profile)
    assert open_to_all.correct is True
    # Also where Python has compiled it before.
    py_compile.compile(str(secret))
    outcome = profile(attrs.evolve(wanted, hidden=(secret,)))
    assert isinstance(outcome, Failure)
    assert outcome.kind is FailureKind.SANDBOX
    assert "secret.py" in outcome.message or "secret.cpython" in outcome.message
