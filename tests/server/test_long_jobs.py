"""Optimize and profile over stdio, with a job process that acts on command."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from lsprotocol import types as lsp

from accelopt_lsp.server.processes import descendants
from tests.server.conftest import FAKE_SERVER, Session, connected

URI = "file:///tmp/kernel.py"


def kernel(name: str) -> str:
    return (
        "import nki\nimport nki.language as nl\n\n\n@nki.jit\n"
        f"def {name}(x):\n    tile = nl.load(x)\n    raise ValueError\n"
    )


def living(pids: list[int]) -> set[int]:
    return set(pids) & {p.pid for p in descendants(1)} | {p for p in pids if _exists(p)}


def _exists(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


async def begin(session: Session, name: str, command: str = "accelopt.optimizeKernel", **abilities):
    await session.start(**abilities)
    session.open(URI, kernel(name))
    return (await session.command(command, URI, name))["job"]


async def ended(session: Session, job: str) -> lsp.WorkDoneProgressEnd:
    return (await session.until(lambda: session.progress(job, lsp.WorkDoneProgressEnd)))[0]


async def test_progress_offer_and_edit(session: Session):
    session.answers = ["Apply"]
    job = await begin(session, "fast")
    await ended(session, job)
    begun, *reports, _ = session.progress(job)
    assert (begun.title, begun.cancellable) == ("Optimize fast", True)
    assert reports[0].message == "1 of 3 candidates, best 1.00x"
    assert [r.percentage for r in reports] == sorted(r.percentage for r in reports)
    await session.until(lambda: session.edits)
    (question,) = session.questions
    assert question.message == (
        "fast: 2.00x faster (2 ms to 1 ms, simulated, trn2). hoisted a load. "
        "Outputs verified against the reference."
    )
    assert [a.title for a in question.actions] == ["Apply", "Show diff", "Dismiss"]
    assert session.texts[URI] == kernel("fast").replace("nl.load(x)", "nl.load(x[0:128])")
    (edit,) = session.edits
    (document,) = edit.edit.document_changes
    assert document.text_document.version == 1
    assert edit.edit.change_annotations["accelopt"].needs_confirmation
    assert edit.label == "Optimize fast (2.00x)"
    assert [e.range.start.line for e in document.edits] == [6]


async def test_plain_edits_for_clients_without_versions(session: Session):
    session.answers = ["Apply"]
    await begin(session, "fast", versions=False)
    await session.until(lambda: session.edits)
    assert list(session.edits[0].edit.changes) == [URI]
    assert "x[0:128]" in session.texts[URI]


async def test_dismissed_results_change_nothing(session: Session):
    session.answers = ["Dismiss"]
    await begin(session, "fast")
    await session.until(lambda: session.questions)
    await asyncio.sleep(0.2)
    assert session.edits == []


async def test_the_diff_is_shown_first(session: Session):
    session.answers = ["Show diff", "Apply"]
    await begin(session, "fast")
    await session.until(lambda: session.edits)
    path = Path(unquote(urlsplit(session.shown[0].uri).path))
    assert path.read_text().splitlines()[-3:-1] == [
        "-    tile = nl.load(x)",
        "+    tile = nl.load(x[0:128])",
    ]
    assert [a.title for a in session.questions[1].actions] == ["Apply", "Dismiss"]
    await session.client.shutdown_session()
    assert not path.exists()


async def test_no_better_version(session: Session):
    await begin(session, "best_already")
    await session.message("No faster version of best_already (2 ms) was found; 3 candidates")
    assert session.questions == []


async def test_an_edit_elsewhere_is_kept_and_the_result_verified_again(session: Session):
    session.answers = ["Apply"]
    await begin(session, "fast")
    session.change(URI, "# my note\n" + kernel("fast"))
    await session.until(lambda: session.edits)
    assert "Verified again." in session.questions[0].message
    assert session.texts[URI] == "# my note\n" + kernel("fast").replace("(x)\n", "(x[0:128])\n")


@pytest.mark.parametrize(
    "text",
    [
        kernel("fast").replace("nl.load(x)", "nl.load(x[0:64])"),
        "# refused by the verification\n" + kernel("fast"),
    ],
)
async def test_a_stale_result_is_never_applied(session: Session, text):
    session.answers = ["Apply"]
    await begin(session, "fast")
    session.change(URI, text)
    await session.message("Nothing was applied")
    assert session.questions == []
    assert session.texts[URI] == text


async def test_an_edit_while_the_question_is_open(session: Session):
    session.answers = ["Apply"]
    session.before_answer = lambda: session.change(URI, kernel("fast") + "# late\n")
    await begin(session, "fast")
    await session.message("nothing was applied")
    assert session.texts[URI] == kernel("fast") + "# late\n"
    assert session.edits == []


async def test_a_failure_is_shown_at_its_line(session: Session):
    job = await begin(session, "wrong")
    assert "failed" in (await ended(session, job)).message
    await session.message("kernel.py:8: ValueError in line of the kernel")
    await session.until(lambda: session.client.diagnostic_refresh_count)
    (found,) = (await session.diagnostics(URI)).items
    assert found.range == lsp.Range(lsp.Position(7, 4), lsp.Position(7, 20))
    session.change(URI, "# moved\n" + kernel("wrong"))
    assert [d.range.start.line for d in (await session.diagnostics(URI)).items] == [8]
    session.change(URI, kernel("wrong").replace("    raise ValueError\n", ""))
    assert (await session.diagnostics(URI)).items == ()


@pytest.mark.parametrize(
    ("name", "message"), [("dies", "ended unexpectedly"), ("raises", "the search broke")]
)
async def test_the_server_survives_a_broken_job(session: Session, name, message):
    await begin(session, name)
    await session.message(message)
    assert (await session.diagnostics(URI)).kind == "full"


@pytest.mark.parametrize("way", ["progress", "command"])
@pytest.mark.parametrize("name", ["forever", "forever_deaf"])
async def test_cancelling_leaves_no_process(session: Session, name, way):
    job = await begin(session, name)
    await session.diagnostics(URI)
    await session.until(lambda: session.progress(job, lsp.WorkDoneProgressReport))
    family = session.children()
    assert len(family) == 3
    begun = time.monotonic()
    if way == "progress":
        session.client.window_work_done_progress_cancel(lsp.WorkDoneProgressCancelParams(job))
    else:
        assert await session.command("accelopt.cancel", job) is True
    assert "cancelled" in (await ended(session, job)).message
    acknowledged = time.monotonic() - begun
    await session.until(lambda: len(living(family)) == 1, 10)
    print(f"acknowledged after {acknowledged:.3f} s, gone after {time.monotonic() - begun:.3f} s")
    # The kernel can be optimized again at once, and the analysis goes on.
    again = (await session.command("accelopt.optimizeKernel", URI, name))["job"]
    assert again != job
    await session.until(lambda: session.progress(again, lsp.WorkDoneProgressReport))
    assert await session.command("accelopt.cancel", again) is True


@pytest.mark.parametrize("edit", ["", "# my note\n"])
async def test_a_cancelled_run_offers_its_best_so_far(session: Session, edit):
    session.answers = ["Show diff", "Verify and apply"]
    job = await begin(session, "forever_better")
    await session.until(lambda: session.progress(job, lsp.WorkDoneProgressReport))
    if edit:
        session.change(URI, edit + kernel("forever_better"))
    assert await session.command("accelopt.cancel", job) is True
    await session.until(lambda: session.edits)
    first, second = session.questions
    assert first.message == (
        "The run was cancelled. Best so far: forever_better: 2.00x faster (2 ms to 1 ms, "
        "simulated, trn2). hoisted a load. Not yet verified on all inputs."
    )
    assert [a.title for a in first.actions] == ["Verify and apply", "Show diff", "Dismiss"]
    assert [a.title for a in second.actions] == ["Verify and apply", "Dismiss"]
    better = kernel("forever_better").replace("(x)\n    raise", "(x[0:128])\n    raise")
    assert session.texts[URI] == edit + better


async def test_what_fails_the_full_verification_is_not_applied(session: Session):
    session.answers = ["Verify and apply"]
    job = await begin(session, "forever_better")
    await session.until(lambda: session.progress(job, lsp.WorkDoneProgressReport))
    session.change(URI, "# refused by the verification\n" + kernel("forever_better"))
    await session.command("accelopt.cancel", job)
    await session.message("did not pass the full verification")
    assert session.edits == []


async def test_a_run_beyond_the_limit_waits_and_says_so(session: Session):
    session.client.set_configuration({"runs": {"atOnce": 1}}, section="accelopt")
    first = await begin(session, "forever")
    await session.until(lambda: session.progress(first, lsp.WorkDoneProgressReport))
    other = "file:///tmp/other.py"
    session.open(other, kernel("fast"))
    second = (await session.command("accelopt.optimizeKernel", other, "fast"))["job"]
    (report,) = await session.until(lambda: session.progress(second, lsp.WorkDoneProgressReport))
    assert report.message == "waiting for 1 other run"
    assert len(session.children()) == 3
    await session.command("accelopt.cancel", first)
    await ended(session, second)
    assert session.progress(second, lsp.WorkDoneProgressReport)[-1].percentage > 0


async def test_one_run_a_kernel(session: Session):
    job = await begin(session, "forever")
    assert (await session.command("accelopt.optimizeKernel", URI, "forever"))["job"] == job
    await session.message("already running")


async def test_hover_and_diagnostics_during_a_run(session: Session):
    job = await begin(session, "forever")
    await session.until(lambda: session.progress(job, lsp.WorkDoneProgressReport))
    assert (await session.diagnostics(URI)).kind == "full"
    assert "nl.load" in (await session.hover(URI, "nl.load", 4) or "")


async def test_shutdown_during_a_run_is_clean(session: Session):
    job = await begin(session, "forever_deaf")
    await session.until(lambda: session.progress(job, lsp.WorkDoneProgressReport))
    family = session.children()
    await session.client.shutdown_session()
    server = session.client._server
    assert server is not None
    assert server.returncode == 0
    assert living(family) == set()


@pytest.mark.parametrize("how", ["exit", "close", "terminate"])
async def test_nothing_outlives_a_server_that_is_left(session: Session, how):
    job = await begin(session, "forever_deaf")
    await session.until(lambda: session.progress(job, lsp.WorkDoneProgressReport))
    family = session.children()
    server = session.client._server
    assert server is not None
    if how == "exit":
        session.client.exit(None)
    elif how == "close":
        server.stdin.close()
    else:
        server.terminate()
    await asyncio.wait_for(server.wait(), 10)
    assert server.returncode != 0
    await session.until(lambda: not living(family), 5)


async def test_the_server_follows_a_client_that_dies():
    """The client is a process of its own here, and its pipe to the server stays open."""
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE
    )
    async with connected(FAKE_SERVER) as session:
        params = lsp.InitializeParams(capabilities=lsp.ClientCapabilities(), process_id=holder.pid)
        await session.client.initialize_session(params)
        session.open(URI, kernel("fast"))
        await session.lenses(URI)
        family = session.children()
        assert family
        holder.send_signal(signal.SIGKILL)
        await holder.wait()
        server = session.client._server
        assert server is not None
        await asyncio.wait_for(server.wait(), 10)
        await session.until(lambda: not living(family), 5)


async def test_untrusted_workspaces_run_nothing(session: Session):
    await session.start(options={"trusted": False})
    session.open(URI, kernel("fast"))
    assert [lens.command.command for lens in await session.lenses(URI)] == [
        "accelopt.explainKernel",
        "accelopt.switchTarget",
    ]
    offered = {action.command.command for action in await session.actions(URI, 6)}
    assert offered == {"accelopt.switchTarget", "accelopt.explainKernel", "accelopt.forgetStrategy"}
    for command in ("accelopt.optimizeKernel", "accelopt.profileKernel"):
        assert await session.command(command, URI, "fast") is None
    await session.message("not trusted")
    assert len(session.children()) == 1


@pytest.mark.parametrize("way", ["pushed", "asked for"])
async def test_a_run_ends_when_trust_is_taken_away(session: Session, way):
    job = await begin(session, "forever", configuration=way == "asked for")
    await session.until(lambda: len(session.children()) == 3)
    untrusted = {"trusted": False}
    session.client.set_configuration(untrusted, section="accelopt")
    session.client.workspace_did_change_configuration(
        lsp.DidChangeConfigurationParams({"accelopt": untrusted})
    )
    assert "cancelled" in (await ended(session, job)).message
    await session.message("no longer trusted")
    await session.until(lambda: len(session.children()) == 1, 5)
    assert await session.command("accelopt.optimizeKernel", URI, "forever") is None


async def test_other_settings_leave_a_run_alone(session: Session):
    job = await begin(session, "forever", configuration=False)
    await session.until(lambda: session.progress(job, lsp.WorkDoneProgressReport))
    session.client.workspace_did_change_configuration(
        lsp.DidChangeConfigurationParams({"accelopt": {"target": "trn1", "inlayHints": False}})
    )
    seen = len(session.progress(job))
    await session.until(lambda: len(session.progress(job)) > seen + 3)
    assert not session.progress(job, lsp.WorkDoneProgressEnd)


async def test_settings_cannot_restore_trust(session: Session):
    session.client.set_configuration({"trusted": True}, section="accelopt")
    await session.start(options={"trusted": False})
    session.open(URI, kernel("fast"))
    await session.lenses(URI)
    assert await session.command("accelopt.optimizeKernel", URI, "fast") is None


async def test_profile_replaces_the_estimate_until_the_text_changes(session: Session):
    await begin(session, "fast", "accelopt.profileKernel")
    await session.message("fast on trn2: 1.23 ms simulated")
    assert "1.23 ms simulated" in (await session.lenses(URI))[0].command.title
    session.change(URI, kernel("fast") + "\n")
    await session.diagnostics(URI)
    assert "2 ms estimated" in (await session.lenses(URI))[0].command.title


async def test_without_progress_support_the_run_still_works(session: Session):
    session.answers = ["Apply"]
    job = await begin(session, "fast", progress=False)
    await session.until(lambda: session.edits)
    assert session.progress(job) == []


@pytest.mark.parametrize("name", ["fast", "forever_better"])
async def test_who_applies_no_edits_is_shown_the_diff(session: Session, name):
    session.answers = ["Show diff"]
    job = await begin(session, name, apply=False)
    if name == "forever_better":
        await session.until(lambda: session.progress(job, lsp.WorkDoneProgressReport))
        assert await session.command("accelopt.cancel", job)
    await session.until(lambda: session.shown)
    (question,) = session.questions
    assert [a.title for a in question.actions] == ["Show diff", "Dismiss"]
    assert "lets no server change a text" in question.message
    assert session.edits == []


async def test_who_applies_no_edits_is_told_what_to_write(session: Session):
    await session.start(apply=False)
    session.open(URI, kernel("unset"))
    await session.lenses(URI)
    await session.command("accelopt.setArguments", URI, "unset")
    await session.message("Put this line above unset: # accelopt: x=bf16[128,512]")
