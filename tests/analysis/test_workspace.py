"""Files around the analyzed one: what is read, what is looked for, what is noted."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelopt_lsp.analysis import analyze
from accelopt_lsp.analysis.files import analyze_kernel
from accelopt_lsp.analysis.kernels import find_kernels
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.workspace import Limits, Workspace, digest_of
from accelopt_lsp.workbench.check import check_paths
from accelopt_lsp.workbench.check_formats import to_json, to_sarif, to_text

HELPER = """import nki.isa as nisa
import nki.language as nl

COLUMNS = 512


def too_tall(x):
    tile = nl.ndarray((256, COLUMNS), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0.0)
"""
KERNEL = """import nki
import nki.isa as nisa
import nki.language as nl

from helper import COLUMNS, too_tall
from missing import nothing


# accelopt: x=f32[128,512]
@nki.jit
def kernel(x):
    tile = nl.ndarray((128, COLUMNS), dtype=x.dtype, buffer=nl.sbuf)
    for i in range(COLUMNS // 128):
        nisa.memset(dst=tile, value=0.0)
    {call}
    return nothing
"""


def write(folder: Path, call: str = "pass") -> Path:
    (folder / "pyproject.toml").write_text("", "utf-8")
    (folder / "helper.py").write_text(HELPER, "utf-8")
    path = folder / "kernel.py"
    path.write_text(KERNEL.format(call=call), "utf-8")
    return path


def memsets(path: Path, workspace: Workspace | None = None) -> int:
    document = Document.parse(path.read_text("utf-8"))
    (kernel,) = analyze(document, path=path, workspace=workspace).kernels
    assert kernel.workload is not None
    return kernel.workload.issued.instructions["memset"]


def test_what_was_read_and_what_is_absent_is_noted(tmp_path):
    path = write(tmp_path)
    document = Document.parse(path.read_text("utf-8"))
    found = analyze_kernel(document, find_kernels(document)[0], path=path)
    noted = {d.path: d.digest for d in found.dependencies}
    assert noted[str(tmp_path / "helper.py")] == digest_of(HELPER)
    assert noted[str(tmp_path / "missing.py")] is None
    assert noted[str(tmp_path / "missing" / "__init__.py")] is None


def test_open_buffers_win_over_the_disk(tmp_path):
    path = write(tmp_path)
    open_text = HELPER.replace("COLUMNS = 512", "COLUMNS = 1024")
    workspace = Workspace(overlay={tmp_path / "helper.py": open_text}.get)
    assert (memsets(path), memsets(path, workspace)) == (4, 8)


def test_a_refreshed_workspace_sees_what_changed(tmp_path):
    path = write(tmp_path)
    workspace = Workspace()
    assert memsets(path, workspace) == 4
    (tmp_path / "helper.py").write_text(HELPER.replace("512", "2560"), "utf-8")
    assert memsets(path, workspace) == 4
    workspace.refresh()
    assert memsets(path, workspace) == 20


def test_an_unchanged_text_is_read_anew_when_what_it_imports_has_changed(tmp_path):
    (tmp_path / "sizes.py").write_text("TILES = 4\n")
    document = Document.parse(
        "import nki\nimport nki.language as nl\nfrom sizes import TILES\n\n\n"
        "# accelopt: x=f32[128,512]\n@nki.jit\ndef kernel(x):\n"
        "    for i in range(TILES):\n        nl.ndarray((128, 8), nl.float32, buffer=nl.sbuf)\n"
    )
    workspace = Workspace()

    def trips():
        workspace.refresh()
        found = analyze(document, path=tmp_path / "kernel.py", workspace=workspace)
        return [loop.trips for loop in found.kernels[0].workload.loops]

    assert trips() == [4]
    (tmp_path / "sizes.py").write_text("TILES = 16\n")
    assert trips() == [16]
    (tmp_path / "sizes.py").unlink()
    assert trips() == [None]


@pytest.mark.parametrize(
    "limits", [Limits(file_bytes=10), Limits(modules=0)], ids=["file size", "modules"]
)
def test_limits(tmp_path, limits):
    path = write(tmp_path)
    document = Document.parse(path.read_text("utf-8"))
    (kernel,) = analyze(document, path=path, workspace=Workspace(limits=limits)).kernels
    assert kernel.workload is not None
    assert not kernel.workload.complete


def test_what_another_file_breaks_is_reported_at_the_call(tmp_path, monkeypatch):
    path = write(tmp_path, call="too_tall(x)")
    document = Document.parse(path.read_text("utf-8"))
    found = [d for d in analyze(document, path=path).diagnostics if d.code == "R023"]
    call = next(n for n, line in enumerate(document.lines, 1) if "too_tall(x)" in line)
    place = next(n for n, line in enumerate(HELPER.split("\n"), 1) if "ndarray" in line)
    assert [d.span.start.line for d in found] == [call]
    (related,) = found[0].related
    assert (related.path, related.span.start.line) == (str(tmp_path / "helper.py"), place)
    monkeypatch.chdir(tmp_path)
    report = check_paths([Path("kernel.py")], jobs=1)
    assert f"helper.py:{place}:" in to_text(report)
    row = next(d for d in to_json(report)["diagnostics"] if d["code"] == "R023")
    assert [(r["path"], r["line"]) for r in row["related"]] == [("helper.py", place)]
    results = to_sarif(report)["runs"][0]["results"]
    places = [r["relatedLocations"] for r in results if r["ruleId"] == "R023"]
    assert places[0][0]["physicalLocation"]["artifactLocation"] == {"uri": "helper.py"}
