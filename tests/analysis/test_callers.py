"""Arguments from calls in other files of the project."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelopt_lsp.analysis import analyze
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.workspace import Workspace

KERNEL = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def copy_tile(x, n):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    for _ in range(n):
        nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
MADE = "    a = np.zeros((128, SIZE), dtype=np.float16)\n"


def call(imports: str, called: str) -> str:
    return f"import numpy as np\n{imports}\n\nSIZE = 64\n\n\ndef test_it():\n{MADE}    {called}\n"


CALLERS = [
    ("tests/test_it.py", "from lib.kernels import copy_tile", "copy_tile(a, 3)"),
    ("tests/test_it.py", "from lib.kernels import copy_tile as f", "out = f[2](a, n=3)"),
    ("tests/deep/er/test_it.py", "import lib.kernels", "lib.kernels.copy_tile(a, 3)"),
    ("tests/test_it.py", "from lib import kernels as k", "k.copy_tile(a, 3)"),
    ("lib/run.py", "from .kernels import copy_tile", "copy_tile(a, 3)"),
    ("lib/run.py", "from . import kernels", "kernels.copy_tile(x=a, n=3)"),
    ("run.py", "from lib.kernels import *", "copy_tile(a, 3)"),
    ("run.py", "from lib import copy_tile", "copy_tile(a, 3)"),
    (
        "run.py",
        "import nki\nfrom lib.kernels import copy_tile",
        "nki.simulate(copy_tile)(a, 3)",
    ),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("")
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / "__init__.py").write_text("from .kernels import copy_tile\n")
    file = folder / "kernels.py"
    file.write_text(KERNEL)
    return file


def found(path: Path, workspace: Workspace | None = None):
    (kernel,) = analyze(Document.parse(KERNEL), path=path, workspace=workspace).kernels
    return kernel


@pytest.mark.parametrize(("file", "imports", "called"), CALLERS)
def test_calls_in_other_files(path, file, imports, called):
    caller = path.parents[1] / file
    caller.parent.mkdir(parents=True, exist_ok=True)
    caller.write_text(call(imports, called))
    kernel = found(path)
    shown = {name: str(spec) for name, spec in kernel.arguments.values.items()}
    assert shown == {"x": "f16[128,64]", "n": "3"}
    line = caller.read_text().splitlines().index(f"    {called}") + 1
    assert set(kernel.arguments.origins.values()) == {f"call on line {line} of {caller.name}"}
    assert kernel.workload.complete
    assert kernel.workload.issued.instructions == {"dma_copy": 4}


NOT_CALLERS = [
    ("tests/test_it.py", "from other.kernels import copy_tile", "copy_tile(a, 3)"),
    ("tests/test_it.py", "from lib.kernels import copy_tile", "other.copy_tile(a, 3)"),
    ("tests/test_it.py", "from lib.kernels import copy_tile", "copy_tile(*a)"),
    ("node_modules/test_it.py", "from lib.kernels import copy_tile", "copy_tile(a, 3)"),
    (".venv/test_it.py", "from lib.kernels import copy_tile", "copy_tile(a, 3)"),
]


@pytest.mark.parametrize(("file", "imports", "called"), NOT_CALLERS)
def test_calls_of_something_else_do_not_count(path, file, imports, called):
    caller = path.parents[1] / file
    caller.parent.mkdir(parents=True, exist_ok=True)
    caller.write_text(call(imports, called))
    assert found(path).arguments.missing == ("x", "n")


def test_the_nearest_caller_comes_first_and_broken_files_are_passed_over(path):
    root = path.parents[1]
    (root / "broken.py").write_text("import numpy\nfrom lib.kernels import (copy_tile\ncopy_tile(")
    (root / "far").mkdir()
    (root / "far" / "a.py").write_text(call("from lib.kernels import copy_tile", "copy_tile(a, 9)"))
    near = call("from .kernels import copy_tile", "copy_tile(a, 3)")
    (path.parent / "near.py").write_text(near)
    assert str(found(path).arguments.values["n"]) == "3"


def test_a_changed_caller_is_seen_after_a_refresh(path):
    workspace = Workspace()
    caller = path.with_name("run.py")
    for count in (3, 5):
        caller.write_text(call("from .kernels import copy_tile", f"copy_tile(a, {count})"))
        workspace.refresh()
        assert str(found(path, workspace).arguments.values["n"]) == str(count)


def test_outside_a_project_only_the_kernel_s_folder_is_looked_at(tmp_path):
    folder = tmp_path / "alone"
    folder.mkdir()
    file = folder / "kernels.py"
    file.write_text(KERNEL)
    caller = call("from kernels import copy_tile", "copy_tile(a, 3)")
    (tmp_path / "run.py").write_text(caller)
    assert found(file).arguments.missing == ("x", "n")
    (folder / "run.py").write_text(caller)
    assert not found(file).arguments.missing
