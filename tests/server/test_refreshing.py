"""Refresh requests are told together, and one of a kind waits for the one before."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from accelopt_lsp.server import refreshing
from accelopt_lsp.server.refreshing import Refresher


class Client:
    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []

    def refresher(self) -> Refresher:
        def spawn(work: Coroutine[Any, Any, None]) -> None:
            self.tasks.append(asyncio.ensure_future(work))

        async def request(kind: str) -> None:
            self.asked.append(kind)
            await self.answer.wait()

        return Refresher(
            spawn, {"hints": lambda: request("hints"), "lenses": lambda: request("lenses")}
        )

    async def until(self, count: int) -> None:
        while len(self.asked) < count:
            await asyncio.sleep(0.005)


async def test_many_changes_are_one_request_a_kind() -> None:
    client = Client()
    refresher = client.refresher()
    for _ in range(50):
        refresher.ask(("hints", "diagnostics"))
        refresher.ask(("lenses",))
    await client.until(2)
    assert sorted(client.asked) == ["hints", "lenses"]
    for _ in range(50):
        refresher.ask(("hints",))
    await asyncio.sleep(0.1)
    assert len(client.asked) == 2
    client.answer.set()
    await client.until(3)
    await asyncio.gather(*client.tasks)
    assert client.asked[2:] == ["hints"]
    refresher.ask(("lenses",))
    await client.until(4)


async def test_a_client_that_never_answers_is_asked_again(monkeypatch) -> None:
    monkeypatch.setattr(refreshing, "PATIENCE_SECONDS", 0.01)
    client = Client()
    refresher = client.refresher()
    refresher.ask(("hints",))
    await client.until(1)
    refresher.ask(("hints",))
    await client.until(2)
