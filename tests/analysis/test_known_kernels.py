"""Results of earlier analyses: used again where nothing changed, and never wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelopt_lsp.analysis import AnalysisOptions, analyze
from accelopt_lsp.analysis.caches import clear_caches
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.workspace import Workspace

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("kernels/*.py"))[::6]

TEXT = """\
import nki
import nki.isa as nisa
import nki.language as nl

from widths import WIDTH

SIZE = 128
OTHER = 3


def allocate(rows):
    return nl.ndarray((rows, WIDTH), dtype=nl.float32, buffer=nl.sbuf)


def unused(x):
    return x + OTHER


# accelopt: x=f32[128,512]
@nki.jit
def kernel(x):
    tile = allocate(SIZE)
    nisa.dma_copy(dst=tile, src=x)
    return tile
"""


@pytest.fixture
def place(tmp_path):
    clear_caches()
    (tmp_path / "pyproject.toml").write_text("", "utf-8")
    (tmp_path / "widths.py").write_text("WIDTH = 512\n", "utf-8")
    return tmp_path / "kernel.py"


def workloads(path, *texts, options=None, workspace=None):
    workspace = workspace or Workspace()
    document = Document.parse(texts[0])
    found = []
    for text in texts:
        document = document.updated(text)
        workspace.refresh()
        (kernel,) = analyze(document, path=path, options=options, workspace=workspace).kernels
        found.append(kernel.workload)
    return found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return x + OTHER", "return x - OTHER"),
        ("    return tile\n", "    return tile\n\n\n# done\n"),
        ("OTHER = 3\n", "OTHER = 4\n"),
    ],
)
def test_what_a_kernel_does_not_use_costs_nothing(place, old, new):
    first, second = workloads(place, TEXT, TEXT.replace(old, new))
    assert second is first


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("dma_copy(dst=tile, src=x)", "dma_copy(dst=tile, src=x) "),
        ("(rows, WIDTH)", "(rows, WIDTH + 1)"),
        ("SIZE = 128", "SIZE = 64"),
        ("from widths", "from width"),
        ("OTHER = 3", "WIDTH = 3"),
        ("x=f32[128,512]", "x=bf16[128,512]"),
        ("import nki\n", "import nki\nimport os\n"),
    ],
)
def test_what_a_kernel_rests_on_counts(place, old, new):
    first, second, third = workloads(place, TEXT, TEXT.replace(old, new), TEXT)
    assert second is not first
    assert third is first


def test_an_imported_module_that_changes_counts(place):
    workspace = Workspace()
    (first,) = workloads(place, TEXT, workspace=workspace)
    (place.parent / "widths.py").write_text("WIDTH = 256  # less\n", "utf-8")
    (second,) = workloads(place, TEXT, workspace=workspace)
    assert second != first


def test_a_module_that_appears_counts(place):
    text = TEXT.replace("from widths", "from later")
    workspace = Workspace()
    (first,) = workloads(place, text, workspace=workspace)
    (place.parent / "later.py").write_text("WIDTH = 512\n", "utf-8")
    (second,) = workloads(place, text, workspace=workspace)
    assert first.unknowns
    assert not second.unknowns


def test_options_count(place):
    (first,) = workloads(place, TEXT)
    (second,) = workloads(place, TEXT, options=AnalysisOptions(target="trn1"))
    assert second is not first


def test_a_comment_that_silences_counts(place):
    text = TEXT.replace("SIZE = 128", "SIZE = 256")
    loud = analyze(Document.parse(text), path=place)
    silenced = analyze(Document.parse(text + "\n# accelopt: ignore-file\n"), path=place)
    assert loud.diagnostics
    assert silenced.diagnostics == ()
    assert silenced.kernels[0].diagnostics == ()


@pytest.mark.parametrize("file", FILES, ids=lambda p: p.name)
def test_caches_change_no_answer(file):
    text = file.read_text("utf-8")
    document = Document.parse(text)
    clear_caches()
    analyze(document)
    for number in range(4):
        place = len(text) * (2 * number + 1) // 8
        for edited in (text[:place] + text[place + 1 :], text[:place] + "\n" + text[place:]):
            warm = analyze(document.updated(edited))
            clear_caches()
            cold = analyze(Document.parse(edited))
            assert warm.diagnostics == cold.diagnostics
            for one, other in zip(warm.kernels, cold.kernels, strict=True):
                assert one.workload == other.workload
                assert one.profile == other.profile
                assert one.hints == other.hints
                assert one.source.span == other.source.span
