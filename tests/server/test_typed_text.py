"""What is shown of a text that was typed is what is shown of it when it is opened."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.server.raw import RawClient, raw_client
from tests.server.test_edges import ABLE

KERNEL = (Path(__file__).parent / "kernels" / "product.py").read_text("utf-8")
EVERYTHING = {"start": {"line": 0, "character": 0}, "end": {"line": 9999, "character": 0}}
TYPED = "file:///typed.py"


def without_names(found: Any, uri: str) -> Any:
    """An answer without what names the document, its version or the answer itself."""
    if isinstance(found, dict):
        kept = {k: v for k, v in found.items() if k not in ("data", "arguments", "resultId")}
        return {k: without_names(v, uri) for k, v in kept.items()}
    if isinstance(found, list):
        return [without_names(one, uri) for one in found]
    return found.replace(uri, "URI") if isinstance(found, str) else found


async def shown(client: RawClient, uri: str) -> dict[str, Any]:
    document = {"textDocument": {"uri": uri}}
    found = {"diagnostics": (await client.get("textDocument/diagnostic", document))["items"]}
    for feature in ("codeLens", "documentSymbol", "foldingRange", "semanticTokens/full"):
        found[feature] = await client.get(f"textDocument/{feature}", document)
    hints = {**document, "range": EVERYTHING}
    found["inlayHint"] = await client.get("textDocument/inlayHint", hints)
    return {feature: without_names(answer, uri) for feature, answer in found.items()}


class Typist:
    """Types at the end of a document, one change a character."""

    def __init__(self, client: RawClient) -> None:
        self.client = client
        self.text = ""
        self.version = 1

    def _replace_end(self, length: int, new: str) -> None:
        def place(text: str) -> dict[str, int]:
            return {"line": text.count("\n"), "character": len(text) - text.rfind("\n") - 1}

        kept = self.text[: len(self.text) - length]
        self.version += 1
        change = {"range": {"start": place(kept), "end": place(self.text)}, "text": new}
        self.client.change(TYPED, self.version, change)
        self.text = kept + new

    def type(self, text: str, chance: random.Random) -> None:
        for letter in text:
            if chance.random() < 0.1:  # a slip, and a step back
                self._replace_end(0, chance.choice("([:\"'\n#"))
                self._replace_end(1, "")
            self._replace_end(0, letter)


@pytest.mark.asyncio
async def test_typed_text_is_shown_like_opened_text() -> None:
    chance = random.Random(7)
    async with raw_client() as client:
        await client.start(ABLE)
        client.open(TYPED, "")
        typist = Typist(client)
        while len(typist.text) < len(KERNEL):
            start = len(typist.text)
            typist.type(KERNEL[start : start + chance.randint(1, 90)], chance)
            uri = f"file:///opened{start}.py"
            client.open(uri, typist.text)
            assert await shown(client, TYPED) == await shown(client, uri), typist.text
            client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
        assert (await shown(client, TYPED))["codeLens"]
        assert await client.leave() == 0
