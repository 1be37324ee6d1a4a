"""Rewriting and analysis beside the event loop, in one thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

# Rewriting and analysis are Python code of ours that takes milliseconds to a second: off the event
# loop, but not in its default pool, which a language server reads its input with. One thread, since
# what analysis keeps between runs is not made for several.
_worker = ThreadPoolExecutor(1, thread_name_prefix="accelopt-rewrites")


async def off_loop(function: Callable[[], T]) -> T:
    """What a function returns, computed in the one thread for such work."""
    return await asyncio.get_running_loop().run_in_executor(_worker, function)
