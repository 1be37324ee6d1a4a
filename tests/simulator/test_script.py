"""``accelopt run``: scripts in which NKI is the simulator."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from accelopt_lsp.profiler.simulator.kernels import TARGET_VARIABLE

PROGRAM = (
    "import sys; from accelopt_lsp.profiler.simulator import run_script; "
    "sys.exit(run_script(sys.argv[2], sys.argv[3:], module='m' in sys.argv[1], "
    "sandbox='s' in sys.argv[1]))"
)
KERNEL = """
import sys

import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(x), nl.load(x)))
    return out
"""


def _run(path: Path, mode: str, *argv: str) -> subprocess.CompletedProcess[str]:
    target = path.stem if "m" in mode else str(path)
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, mode, target, *argv],
        cwd=path.parent,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def _script(tmp_path: Path, body: str) -> Path:
    path = tmp_path / "script.py"
    path.write_text(KERNEL + textwrap.dedent(body))
    return path


def test_kernels_take_and_give_arrays(tmp_path: Path) -> None:
    path = _script(
        tmp_path,
        """
        x = np.ones((128, 64), np.float32)
        for run in (nki.jit(double), lambda a: nki.simulate_kernel(double, a)):
            assert np.array_equal(run(x), 2 * x)
        timed = nki.benchmark(warmup=1, iters=2)(double)
        timed(x)
        latency = timed.benchmark_result.nc_latency.get_latency_percentile(99)
        assert latency > 0
        print(sys.argv[1:], __name__)
        """,
    )
    done = _run(path, "-", "one", "--two")
    assert done.stderr == ""
    assert done.stdout == "['one', '--two'] __main__\n"
    assert done.returncode == 0
    assert _run(path, "m").returncode == 0


def test_exit_codes_and_tracebacks_are_pythons(tmp_path: Path) -> None:
    assert _run(_script(tmp_path, "sys.exit(3)"), "-").returncode == 3
    failed = _run(_script(tmp_path, "nki.jit(double)(np.ones((256, 8), np.float32))"), "-")
    assert failed.returncode == 1
    assert failed.stderr.startswith("Traceback")
    assert "256 partitions" in failed.stderr
    assert _run(tmp_path / "missing.py", "-").returncode == 2


def test_the_sandbox_is_optional(tmp_path: Path) -> None:
    path = _script(tmp_path, "open('made.txt', 'w').close()\nopen(__file__ + '.out', 'w')")
    assert _run(path, "-").returncode == 0
    assert (tmp_path / "script.py.out").exists()
    inside = _run(path, "s")
    assert inside.returncode == 1
    assert "scratch folder" in inside.stderr


ASKS = """
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    print(nisa.get_nc_version().name)
    return x


kernel(np.ones((128, 4), np.float32))
"""


@pytest.mark.parametrize(
    ("option", "environment", "generation"),
    [
        ((), None, "gen3"),
        ((), "inf2", "gen2"),
        ((), "gen4", "gen4"),
        (("--target", "trn3"), "trn1", "gen4"),
        (("--target", "gen2"), None, "gen2"),
    ],
)
def test_the_option_wins_over_the_environment(
    tmp_path: Path, option: tuple[str, ...], environment: str | None, generation: str
) -> None:
    path = tmp_path / "asks.py"
    path.write_text(ASKS)
    found = _command(path, option, environment)
    assert (found.returncode, found.stdout.strip()) == (0, generation), found.stderr


def test_a_target_that_does_not_exist_is_named_with_its_origin(tmp_path: Path) -> None:
    path = tmp_path / "asks.py"
    path.write_text(ASKS)
    found = _command(path, (), "trn9")
    assert found.returncode == 1
    assert "NEURON_PLATFORM_TARGET_OVERRIDE: unknown target 'trn9'" in found.stderr
    assert _command(path, ("--target", "trn9"), None).returncode == 2


def test_the_project_says_which_version_is_in_force(tmp_path: Path) -> None:
    path = tmp_path / "asks.py"
    loop = "nl.fori_loop(0, 2, lambda i: None)"
    path.write_text(ASKS.replace("print(nisa.get_nc_version().name)", loop))
    settings = tmp_path / "pyproject.toml"
    settings.write_text('[tool.accelopt]\nnki-version = "0.6"\n')
    assert _command(path, (), None).returncode == 0
    settings.write_text('[tool.accelopt]\nnki-version = "0.5"\n')
    found = _command(path, (), None)
    assert found.returncode == 1
    assert "nl.fori_loop exists from NKI 0.6.0 on" in found.stderr
    assert "accelopt explain R104" in found.stderr


def _command(
    path: Path, option: tuple[str, ...], environment: str | None
) -> subprocess.CompletedProcess[str]:
    variables = {k: v for k, v in os.environ.items() if k != TARGET_VARIABLE}
    if environment is not None:
        variables[TARGET_VARIABLE] = environment
    return subprocess.run(
        [sys.executable, "-c", "from accelopt_lsp.cli import main; main()", "run", *option, path],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=variables,
    )
