"""A tour of every feature, as each editor would make it by what it declares of itself.

The files in ``clients/`` are what editors send with ``initialize``: recorded, or read in their
source where they do not run here. Whoever declares less must get less, and all the same get there.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accelopt_lsp.server.positions import code_points, units
from tests.server.conftest import FAKES
from tests.server.declared import Declared
from tests.server.raw import RawClient, raw_client

pytestmark = pytest.mark.asyncio
CLIENTS = sorted((Path(__file__).parent / "clients").glob("*.json"))
REFRESHED = ("diagnostic", "inlayHint", "codeLens", "semanticTokens")
URI = "file:///tour/kernel.py"
CALL, END = "        nisa.tensor_tensor(", "    return out\n"
KERNEL = (
    (Path(__file__).parent / "kernels" / "scaling.py")
    .read_text("utf-8")
    .replace(CALL, f'        "\N{ROCKET}"; {CALL.lstrip()}')
    .replace(
        END, f"    big = nl.ndarray((256, 512), x.dtype, buffer=nl.sbuf)\n    # nl.load(x)\n{END}"
    )
)
"""With a letter of two code units before a call, an error, and what the fakes' jobs change."""


class Tour:
    """One client's way through all features.

    Attributes:
        found: pairs of a method and what was answered to it.
        applied: edits that the server asked for.
        shown: what it had shown, by URI.
    """

    def __init__(self, client: RawClient, declared: Declared) -> None:
        self.client = client
        self.declared = declared
        self.found: list[tuple[str, Any]] = []
        self.applied: list[Any] = []
        self.shown: list[str] = []
        self.questions: list[Any] = []
        self.encoding = "utf-16"
        client.handlers.update(
            {
                "workspace/applyEdit": self._apply,
                "workspace/configuration": lambda params: [None for _ in params["items"]],
                "workspace/workspaceFolders": lambda _: None,
                "window/showDocument": self._show,
                "window/showMessageRequest": self._answer,
                "window/workDoneProgress/create": lambda _: None,
                "client/registerCapability": lambda _: None,
                **{f"workspace/{kind}/refresh": lambda _: None for kind in REFRESHED},
            }
        )

    def _apply(self, params: Any) -> Any:
        self.applied.append(params["edit"])
        return {"applied": True}

    def _show(self, params: Any) -> Any:
        self.shown.append(params["uri"])
        return {"success": True}

    def _answer(self, params: Any) -> Any:
        self.questions.append(params)
        return params["actions"][0]

    async def ask(self, method: str, **params: Any) -> Any:
        answer = await self.client.get(method, params)
        self.found.append((method, answer))
        return answer

    async def at(self, method: str, needle: str, inside: int = 0, **params: Any) -> Any:
        """Ask about a place, in the units that were agreed on."""
        before = KERNEL[: KERNEL.index(needle) + inside]
        line = before[before.rfind("\n") + 1 :]
        position = {"line": before.count("\n"), "character": units(line, self.encoding)}
        return await self.ask(method, textDocument={"uri": URI}, position=position, **params)

    async def diagnostics(self) -> list[Any]:
        """The diagnostics of the kernel, by the way that the client knows."""
        if self.declared.pulls:
            while True:
                asked_again = len(self.params("workspace/diagnostic/refresh"))
                report = await self.ask("textDocument/diagnostic", textDocument={"uri": URI})
                if report["items"]:
                    return list(report["items"])
                # What the tree alone shows came first; we are told to ask again.
                await self.refreshed(asked_again)

        def pushed() -> Any:
            lists = [p["diagnostics"] for p in self.params("textDocument/publishDiagnostics")]
            return next((some for some in lists if any(d["code"] == "P01" for d in some)), None)

        return list(await self.until(pushed))

    async def refreshed(self, before: int) -> None:
        """Wait until we are asked to pull diagnostics once more than ``before``."""
        await self.until(lambda: len(self.params("workspace/diagnostic/refresh")) > before)

    def params(self, method: str) -> list[Any]:
        return [heard.get("params") for heard in self.client.heard if heard["method"] == method]

    async def until(self, condition: Callable[[], Any]) -> Any:
        async with asyncio.timeout(60):
            while not (found := condition()):
                await asyncio.sleep(0.02)
        return found

    def undeclared(self) -> list[str]:
        """Everything that this client need not know."""
        results = [v for method, found in self.found for v in self.declared.result(method, found)]
        return results + [v for heard in self.client.heard for v in self.declared.heard(heard)]


async def reads(tour: Tour) -> None:
    """What an editor asks for while somebody reads."""
    assert {d["code"] for d in await tour.diagnostics()} == {"P01", "R023"}
    hover = await tour.at("textDocument/hover", "tensor_tensor(", 3)
    assert "nisa.tensor_tensor" in str(hover)
    definition = await tour.at("textDocument/definition", "tensor_tensor(", 3)
    assert "tensor_tensor" in str(definition)
    whole = {"textDocument": {"uri": URI}}
    assert "scaling" in str(await tour.ask("textDocument/documentSymbol", **whole))
    assert await tour.ask("textDocument/foldingRange", **whole)
    assert await tour.ask("textDocument/semanticTokens/full", **whole)
    lenses = await tour.ask("textDocument/codeLens", **whole)
    assert "µs" in str(lenses)
    screen = {"start": {"line": 0, "character": 0}, "end": {"line": 40, "character": 0}}
    hints = await tour.ask("textDocument/inlayHint", **whole, range=screen)
    assert "256" in str(hints)
    if "tooltip" in tour.declared("textDocument.inlayHint.resolveSupport.properties", ()):
        resolved = await tour.ask("inlayHint/resolve", **hints[0])
        assert resolved["tooltip"]


async def writes(tour: Tour) -> None:
    """What it asks for while somebody writes."""
    items = (await tour.at("textDocument/completion", "tensor_tensor(", 6))["items"]
    item = next(i for i in items if i["label"] == "tensor_tensor")
    resolved = await tour.ask("completionItem/resolve", **item)
    assert resolved["documentation"]
    edit = item["textEdit"]["range"]
    line = KERNEL.split("\n")[edit["start"]["line"]]
    start = code_points(line, edit["start"]["character"], tour.encoding)
    assert line[start:].startswith("tensor_tensor(")
    help_ = await tour.at("textDocument/signatureHelp", "tensor_tensor(", len("tensor_tensor(dst="))
    assert help_["signatures"]


async def fixes(tour: Tour) -> None:
    """Quick fixes come with their edit, or get it when it is asked for."""
    row = KERNEL[: KERNEL.index("nisa.dma_copy(dst=factor")].count("\n")
    place = {"line": row, "character": 12}
    actions = await tour.ask(
        "textDocument/codeAction",
        textDocument={"uri": URI},
        range={"start": place, "end": place},
        context={"diagnostics": []},
    )
    if not tour.declared("textDocument.codeAction.codeActionLiteralSupport"):
        assert "accelopt.optimizeKernel" in [a["command"] for a in actions]
        return
    assert "Optimize kernel scaling" in [a["title"] for a in actions]
    fix = next(
        a for a in actions if a["kind"] == "quickfix" and a["diagnostics"][0]["code"] == "P01"
    )
    if "edit" not in fix:
        fix = await tour.ask("codeAction/resolve", **fix)
    assert fix["edit"]


async def runs(tour: Tour) -> None:
    """A run is reported, and its result applied, or shown where nothing can be applied."""
    command = {"command": "accelopt.optimizeKernel", "arguments": [URI, "scaling"]}
    await tour.ask("workspace/executeCommand", **command)
    await tour.until(lambda: tour.questions)
    await tour.until(lambda: tour.applied or tour.shown or "--- " in str(tour.client.heard))
    assert bool(tour.applied) == bool(tour.declared("workspace.applyEdit"))
    assert bool(tour.params("$/progress")) == bool(tour.declared("window.workDoneProgress"))
    tour.shown.clear()
    command = {"command": "accelopt.showTimeline", "arguments": [URI, "scaling"]}
    await tour.ask("workspace/executeCommand", **command)
    if tour.declared("window.showDocument.support"):
        assert (await tour.until(lambda: tour.shown))[0].endswith(".json")
    else:
        await tour.client.message(".json")


@pytest.mark.parametrize("path", CLIENTS, ids=lambda p: p.stem)
async def test_a_client_gets_all_it_can_use_and_nothing_else(path: Path) -> None:
    profile = json.loads(path.read_text("utf-8"))
    declared = Declared(profile["capabilities"])
    async with raw_client((sys.executable, FAKES, "analyse")) as client:
        tour = Tour(client, declared)
        others = ("initializationOptions", "workDoneToken")
        more = {name: profile[name] for name in others if name in profile}
        begun = await client.start(profile["capabilities"], rootUri="file:///tour", **more)
        tour.encoding = begun["capabilities"].get("positionEncoding", "utf-16")
        assert tour.encoding in declared("general.positionEncodings", ["utf-16"])
        client.open(URI, KERNEL)
        for part in (reads, writes, fixes, runs):
            await part(tour)
        assert tour.undeclared() == []
        assert await client.leave() == 0
        errors = [p["message"] for p in tour.params("window/logMessage") if p["type"] == 1]
        assert errors == []
        assert b"Traceback" not in client.noise
