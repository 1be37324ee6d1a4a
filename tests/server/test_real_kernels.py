"""The server as users run it: real analysis, real simulator, real search."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from lsprotocol import types as lsp

from accelopt_lsp.server.processes import descendants
from tests.server.conftest import Session

KERNELS = Path(__file__).parent / "kernels"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A copy of the kernels, as a user's project."""
    folder = tmp_path / "project"
    shutil.copytree(KERNELS, folder)
    return folder


async def open_kernel(real: Session, workspace: Path, name: str, limit: float = 60.0) -> str:
    real.client.set_configuration(
        {"timeoutSeconds": limit, "optimize": {"budgetSeconds": 60}}, section="accelopt"
    )
    await real.start(early=False)
    file = workspace / f"{name}.py"
    return real.open(file.as_uri(), file.read_text("utf-8"))


def line_of(name: str, needle: str) -> int:
    """Line of a text in a kernel file, from 0."""
    text = (KERNELS / f"{name}.py").read_text("utf-8")
    return text[: text.index(needle)].count("\n")


async def test_what_an_editor_shows_of_a_kernel(real: Session, workspace: Path):
    uri = await open_kernel(real, workspace, "product")
    report = await real.diagnostics(uri)
    assert all(d.severity != lsp.DiagnosticSeverity.Error for d in report.items)
    repeated = [d for d in report.items if d.code == "P01"]
    assert line_of("product", "dst=b") in {d.range.start.line for d in repeated}
    page = repeated[0].code_description
    assert page is not None
    assert page.href.endswith("/P01.md")
    hints = {h.position.line: h for h in await real.hints(uri)}
    loop = hints[line_of("product", "for n in")]
    assert "2" in str(loop.label)
    detail = await real.client.inlay_hint_resolve_async(hints[line_of("product", "nc_matmul")])
    assert detail.tooltip is not None
    title, *actions = [lens.command.title for lens in await real.lenses(uri)]
    assert "estimated" in title
    assert "bound" in title
    assert "trn2" in title
    assert actions == ["Optimize", "Profile", "Timeline", "Target"]
    page = await real.hover(uri, "nisa.nc_matmul", 8)
    assert page is not None
    assert "Executions: 32" in page
    assert "nisa.nc_matmul(dst, stationary, moving" in page
    page = await real.hover(uri, "for m in", 4)
    assert page is not None
    assert "4 iterations" in page
    page = await real.hover(uri, "out = nl", 1)
    assert page is not None
    assert "in SBUF" in page


@pytest.mark.parametrize("edited", [False, True])
async def test_optimize_apply_and_the_edited_kernel_still_verifies(
    real: Session, workspace: Path, edited: bool
):
    """Also if a comment is written above the kernel while the search runs."""
    real.answers = ["Apply"]
    uri = await open_kernel(real, workspace, "product")
    before = real.texts[uri]
    job = (await real.command("accelopt.optimizeKernel", uri, "product"))["job"]
    if edited:
        before = before.replace("import nki\n", "# Mine.\nimport nki\n", 1)
        real.change(uri, before)
    await real.until(lambda: real.edits or real.said(), 300)
    assert real.edits, real.said()
    reports = real.progress(job, lsp.WorkDoneProgressReport)
    assert any("candidate" in r.message and "best " in r.message for r in reports)
    assert real.progress(job, lsp.WorkDoneProgressEnd)
    question = real.questions[0].message
    assert "Outputs verified against the reference" in question
    assert ("was verified again on" in question) is edited
    after = real.texts[uri]
    assert after != before
    assert ("# Mine." in after) is edited
    await real.command("accelopt.profileKernel", uri, "product")
    assert "outputs verified" in await real.message("product on trn2", 120)
    assert "simulated" in (await real.lenses(uri))[0].command.title


async def test_a_profile_takes_the_place_of_estimates(real: Session, workspace: Path):
    real.client.set_configuration({"timeoutSeconds": 60}, section="accelopt")
    await real.start(early=False)
    file = workspace / "product.py"
    uri = real.open(file.as_uri(), file.read_text("utf-8"))
    line = line_of("product", "nc_matmul")
    await real.diagnostics(uri)
    (estimated,) = await real.hints(uri, line, line)
    assert "simulated" not in str(estimated.label)
    await real.command("accelopt.profileKernel", uri, "product")
    await real.message("outputs verified", 120)
    (hint,) = await real.eventually(
        lambda: real.hints(uri, line, line), lambda found: "simulated" in str(found[0].label)
    )
    tooltip = (await real.client.inlay_hint_resolve_async(hint)).tooltip.value
    assert "512 columns x 1 pass / 2.4 GHz effective x 32 `nc_matmul`" in tooltip
    assert "Percent of the simulated latency" in tooltip
    await real.command("accelopt.explainKernel", uri, "product")
    (shown,) = await real.until(lambda: real.shown)
    page = Path(urlsplit(shown.uri).path).read_text("utf-8")
    for part in ("What bounds it", "critical path", "What could be gained at most", "HBM: 5 MiB"):
        assert part in page


async def test_cancelling_midway_leaves_no_process(real: Session, workspace: Path):
    uri = await open_kernel(real, workspace, "product")
    await real.diagnostics(uri)
    idle = set(real.children())
    job = (await real.command("accelopt.optimizeKernel", uri, "product"))["job"]
    # Midway: a candidate is running, in a child of the job's own child.
    await real.until(lambda: real.progress(job, lsp.WorkDoneProgressReport)[1:], 120)
    running = set(real.children()) - idle
    assert running
    real.client.window_work_done_progress_cancel(lsp.WorkDoneProgressCancelParams(job))
    await real.until(lambda: real.progress(job, lsp.WorkDoneProgressEnd), 10)
    await real.until(lambda: set(real.children()) <= idle, 10)
    assert not running & {p.pid for p in descendants(1)}
    assert real.edits == []
    assert (await real.diagnostics(uri)).kind == "full"


@pytest.mark.parametrize(
    ("command", "name", "needles", "message"),
    [
        ("optimizeKernel", "endless", ("while True", "count += 1"), "5 s"),
        ("optimizeKernel", "raising", ('limits["columns"]',), "KeyError"),
        ("optimizeKernel", "broken", ("dst=tile, src=x",), "never closed"),
        ("optimizeKernel", "wrong", ("def wrong",), "differ from the reference"),
        ("optimizeKernel", "unknown", ("nisa.frobnicate",), "frobnicate"),
        ("profileKernel", "raising", ('limits["columns"]',), "KeyError"),
        ("profileKernel", "wrong", ("def wrong",), "differ from the reference"),
    ],
)
async def test_a_bad_kernel_is_told_where_it_is_bad(
    real: Session,
    workspace: Path,
    command: str,
    name: str,
    needles: tuple[str, ...],
    message: str,
):
    uri = await open_kernel(real, workspace, name, 5 if name == "endless" else 60)
    await real.command(f"accelopt.{command}", uri, name)
    said = await real.until(real.said, 120)
    assert message in said[0]
    report = await real.diagnostics(uri)
    lines = {d.range.start.line for d in report.items if message in d.message}
    assert lines & {line_of(name, needle) for needle in needles}
    # The server lives, and so does its worker.
    real.change(uri, (KERNELS / "product.py").read_text("utf-8"))
    await real.diagnostics(uri)
    assert len(await real.lenses(uri)) == 5


async def test_an_untrusted_workspace_is_analysed_but_runs_nothing(real: Session, workspace: Path):
    await real.start(options={"trusted": False})
    file = workspace / "product.py"
    uri = real.open(file.as_uri(), file.read_text("utf-8"))
    await real.diagnostics(uri)
    figures, target = await real.lenses(uri)
    assert "estimated" in figures.command.title
    assert target.command.title == "Target"
    assert await real.command("accelopt.optimizeKernel", uri, "product") is None
    await real.message("not trusted")


async def test_quick_fix_of_a_load_that_repeats(real: Session, workspace: Path):
    uri = await open_kernel(real, workspace, "scaling")
    report = await real.diagnostics(uri)
    (repeated,) = [d for d in report.items if d.code == "P01"]
    line = repeated.range.start.line
    action, *suppressing = await real.actions(uri, line, [lsp.CodeActionKind.QuickFix])
    assert all("P01" in other.title for other in suppressing)
    resolved = await real.client.code_action_resolve_async(action)
    assert resolved.edit is not None, real.said()
    real.apply(resolved.edit)
    text = real.texts[uri]
    assert text.index("dma_copy(dst=factor") < text.index("for i in")
    assert "P01" not in {d.code for d in (await real.diagnostics(uri)).items}


async def test_the_server_imports_no_numerics():
    code = (
        "import sys; import accelopt_lsp.server.app as a; a.App(); "
        "print(sorted({'numpy', 'openai', 'ml_dtypes', 'tree_sitter'} & set(sys.modules)))"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert output.decode().strip() == "[]"
