"""Code actions and what they run: for clients that can do everything, and for poorer ones."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from lsprotocol import types as lsp

from tests.server.conftest import Session, apply_edits

URI = "file:///tmp/kernel.py"
KERNEL = """import nki
import nki.language as nl


@nki.jit
def fast(x):
    buf = nl.ndarray((128, 16), nl.bfloat16)
    for i in nl.affine_range(8):
        tile = nl.load(x)
        nisa.activation(tile, nl.exp, tile)
    return DEFECT


def helper():
    pass
"""
DEFECT_LINE, LOAD_LINE = 10, 8
IN_KERNEL = [
    "Optimize kernel fast",
    "Profile kernel fast",
    "Show timeline of fast",
    "Switch target of fast (trn2)",
    "Explain what bounds fast",
]
POORER: dict[str, dict[str, bool]] = {
    "everything": {},
    "no resolve": {"lazy": False},
    "no annotations": {"annotations": False},
    "no document versions": {"versions": False, "annotations": False},
    "no pull": {"pull": False},
    "nothing": dict.fromkeys(
        ("lazy", "annotations", "versions", "pull", "refresh", "progress", "show", "configuration"),
        False,
    ),
}


async def opened(session: Session, text: str = KERNEL, **without: bool) -> None:
    await session.start(**without)
    session.open(URI, text)
    await session.lenses(URI)


async def chosen(session: Session, line: int, title: str, only: list[str] | None = None):
    """An action as an editor has it once it is chosen."""
    action = next(a for a in await session.actions(URI, line, only) if a.title == title)
    if action.edit is None and action.command is None:
        action = await session.client.code_action_resolve_async(action)
    return action


async def test_actions_inside_a_kernel(session: Session) -> None:
    await opened(session)
    assert [a.title for a in await session.actions(URI, 6)] == [
        "Apply all safe fixes of AccelOpt",
        *IN_KERNEL,
    ]
    found = await session.actions(URI, LOAD_LINE, [lsp.CodeActionKind.Refactor])
    assert [a.title for a in found][:2] == ["Optimize kernel fast", "Optimize this loop over i"]
    assert list(found[0].command.arguments) == [URI, "fast"]
    assert list(found[1].command.arguments) == [URI, "fast", 8]
    outside = await session.actions(URI, 13, [lsp.CodeActionKind.Refactor])
    assert outside == []
    assert await session.actions(URI, 6, ["source.organizeImports"]) == []


async def test_actions_of_a_file_just_opened(session: Session) -> None:
    await session.start()
    uri = session.open("file:///k.py", f"# pause\n{KERNEL}")
    line = 1 + KERNEL[: KERNEL.index("def ")].count("\n")
    titles = [action.title for action in await session.actions(uri, line)]
    assert any(title.startswith("Optimize kernel") for title in titles)


async def test_what_cannot_be_run_is_not_offered(session: Session) -> None:
    await session.start(options={"trusted": False})
    session.open(URI, KERNEL)
    await session.lenses(URI)
    titles = [a.title for a in await session.actions(URI, LOAD_LINE, ["refactor"])]
    assert titles == ["Switch target of fast (trn2)"]
    lenses = [lens.command.command for lens in await session.lenses(URI)]
    assert lenses == ["accelopt.explainKernel", "accelopt.switchTarget"]


@pytest.mark.parametrize("without", POORER.values(), ids=POORER)
async def test_every_client_gets_its_edits(session: Session, without: dict[str, bool]) -> None:
    await opened(session, **without)
    for title, expected in (
        ("Repair it", KERNEL.replace("DEFECT", "repaired")),
        ("Suppress R023 here", KERNEL.replace("DEFECT", "DEFECT  # accelopt: ignore[R023]")),
        ("Suppress R023 in this file", "# accelopt: ignore-file[R023]\n" + KERNEL),
        ("Apply all safe fixes of AccelOpt", KERNEL.replace("DEFECT", "repaired")),
    ):
        action = await chosen(session, DEFECT_LINE, title)
        edit = action.edit
        if without.get("versions", True):
            (document,) = edit.document_changes
            assert document.text_document.version == 1
            edits = document.edits
        else:
            edits = edit.changes[URI]
        assert apply_edits(KERNEL, list(edits)) == expected
        if without.get("annotations", True):
            assert not edit.change_annotations["accelopt"].needs_confirmation
            assert all(e.annotation_id == "accelopt" for e in edits)
        else:
            assert edit.change_annotations is None


async def test_fixes_say_what_they_fix(session: Session) -> None:
    await opened(session)
    found = await session.actions(URI, DEFECT_LINE, [lsp.CodeActionKind.QuickFix])
    assert [(a.title, a.is_preferred) for a in found] == [
        ("Repair it", True),
        ("Suppress R023 here", None),
        ("Suppress R023 in this file", None),
    ]
    assert {a.diagnostics[0].code for a in found} == {"R023"}
    assert all(a.edit is None for a in found)


async def test_fixes_of_an_earlier_text_are_refused(session: Session) -> None:
    await opened(session)
    action = (await session.actions(URI, DEFECT_LINE, [lsp.CodeActionKind.QuickFix]))[0]
    session.change(URI, KERNEL + "\n")
    assert (await session.client.code_action_resolve_async(action)).edit is None
    await session.message("The file has changed")


async def test_a_save_fixes_without_waiting_for_an_analysis(session: Session) -> None:
    await opened(session)
    session.change(URI, KERNEL + "\n# pause\n")
    (action,) = await session.actions(URI, 0, ["source.fixAll.accelopt"])
    assert action.edit is not None
    session.apply(action.edit)
    assert "DEFECT" not in session.texts[URI]
    assert await session.actions(URI, 0, ["source.fixAll.accelopt"]) == []


async def test_a_strategy_is_forgotten_when_the_user_agrees(session: Session) -> None:
    await opened(session)
    await session.hover(URI, "nl.load", 4)
    title = 'Forget the strategy "Hoist the load"'
    action = await session.eventually(
        lambda: session.actions(URI, LOAD_LINE), lambda found: any(a.title == title for a in found)
    )
    (action,) = [a for a in action if a.title == title]
    session.answers = ["Keep", "Forget"]
    for _ in range(2):
        await session.command(action.command.command, *action.command.arguments)
    await session.message('Forgotten: "Hoist the load"')
    assert len(session.questions) == 2
    session.answers = ["Forget"]
    await session.command("accelopt.forgetStrategy", "e2")
    await session.message("Not forgotten: no experience e2")


async def test_a_loop_is_optimized_within_its_lines(session: Session) -> None:
    await opened(session)
    session.answers = ["Dismiss"]
    job = await session.command("accelopt.optimizeLoop", URI, "fast", 9)
    assert job is not None
    await session.until(lambda: session.questions)
    begun = session.progress(job["job"], lsp.WorkDoneProgressBegin)
    assert [b.title for b in begun] == ["Optimize the loop over i of fast"]
    await session.command("accelopt.optimizeLoop", URI, "fast", 7)
    await session.message("There is no loop of fast at line 7")


@pytest.mark.parametrize("show", [True, False])
async def test_the_bottleneck_is_explained(session: Session, show: bool) -> None:
    await opened(session, show=show)
    await session.command("accelopt.explainKernel", URI, "fast")
    if not show:
        assert "DMA: busy 1.5 ms" in await session.message("fast: 2 ms")
        return
    (shown,) = await session.until(lambda: session.shown)
    page = Path(unquote(urlsplit(shown.uri).path)).read_text("utf-8")
    assert page.startswith("# fast\n\n2 ms estimated (1.8 ms to 2.2 ms)")
    assert "- DMA: busy 1.5 ms" in page
    assert '"Profile" simulates the kernel' in page


@pytest.mark.parametrize("show", [True, False])
async def test_a_timeline_is_written_and_shown(session: Session, show: bool) -> None:
    await opened(session, show=show)
    await session.command("accelopt.showTimeline", URI, "fast")
    message = await session.message("ui.perfetto.dev")
    assert "fast.trace.json" in message
    if show:
        assert session.shown[0].uri.endswith("/fast.trace.json")
        assert session.shown[0].external


async def test_a_target_is_switched_in_the_directive(session: Session) -> None:
    await opened(session)
    session.answers = ["trn3"]
    await session.command("accelopt.switchTarget", URI, "fast")
    await session.until(lambda: session.edits)
    assert session.texts[URI] == KERNEL.replace("@nki", "# accelopt: target=trn3\n@nki")
    assert [a.title for a in session.questions[0].actions] == ["trn1", "trn3"]
    await session.command("accelopt.switchTarget", URI, "fast", "trn1")
    await session.until(lambda: "target=trn1" in session.texts[URI])
    await session.command("accelopt.switchTarget", URI, "fast", "trn9")
    await session.message("trn9")


async def test_a_target_for_the_session_where_edits_are_impossible(session: Session) -> None:
    await opened(session, apply=False)
    await session.command("accelopt.switchTarget", URI, "fast", "trn1")
    await session.message("kernel.py is analysed for trn1 in this session")
