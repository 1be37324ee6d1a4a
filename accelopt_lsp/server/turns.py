"""Who may run: a limit that may change, and a queue for those beyond it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable


class Turns:
    """So many at once; whoever comes later waits, first come first served.

    Args:
        limit: how many may have a turn at the same time.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def limit(self) -> int:
        return self._limit

    @limit.setter
    def limit(self, limit: int) -> None:
        """A higher limit lets those who wait begin; a lower one interrupts nobody."""
        self._limit = limit
        self._admit()

    @contextlib.asynccontextmanager
    async def turn(self, must_wait: Callable[[int], None] | None = None) -> AsyncIterator[None]:
        """Have a turn; ``must_wait`` is told how many are ahead if it does not begin at once."""
        if self._waiting or self._taken >= self._limit:
            if must_wait is not None:
                must_wait(self._taken + len(self._waiting))
            mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(mine)
            try:
                await mine
            except asyncio.CancelledError:
                if mine.done() and not mine.cancelled():
                    self._give_back()  # it had just been our turn
                else:
                    self._waiting.remove(mine)
                raise
        else:
            self._taken += 1
        try:
            yield
        finally:
            self._give_back()

    def _give_back(self) -> None:
        self._taken -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._taken < self._limit:
            self._taken += 1
            self._waiting.popleft().set_result(None)
