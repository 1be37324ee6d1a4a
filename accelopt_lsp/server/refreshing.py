"""Refresh requests: few, however often something changes, and never several of a kind at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any

logger = logging.getLogger(__name__)
PAUSE_SECONDS = 0.03
"""Changes within this time are told together."""
PATIENCE_SECONDS = 2.0
"""A client that does not answer a request within this time may be asked again."""


class Refresher:
    """Has the client ask again for what it shows.

    Args:
        spawn: runs something beside the handlers.
        requests: what sends the request, by kind; only kinds that the client knows.
    """

    def __init__(
        self,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        requests: Mapping[str, Callable[[], Awaitable[Any]]],
    ) -> None:
        self._spawn = spawn
        self._requests = requests
        self._wanted: set[str] = set()
        self._running = False

    def ask(self, kinds: Iterable[str]) -> None:
        """Refresh some kinds soon."""
        self._wanted |= self._requests.keys() & set(kinds)
        if self._wanted and not self._running:
            self._running = True
            self._spawn(self._run())

    async def _run(self) -> None:
        try:
            while self._wanted:
                await asyncio.sleep(PAUSE_SECONDS)
                kinds, self._wanted = sorted(self._wanted), set()
                await asyncio.gather(*(self._send(kind) for kind in kinds))
        finally:
            self._running = False

    async def _send(self, kind: str) -> None:
        try:
            await asyncio.wait_for(self._requests[kind](), PATIENCE_SECONDS)
        except Exception as error:
            logger.info("the client did not refresh its %s: %s", kind, error)
