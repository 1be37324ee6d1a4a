"""A child process in a group of its own, and the environment it gets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from attrs import define, field

from accelopt_lsp.profiler.simulator.protocol import MAX_LINE, Role, to_json

PACKAGE_PARENT = Path(__file__).resolve().parents[3]
_KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH")


def bare_environment(scratch: Path) -> dict[str, str]:
    """Environment of a child: what Python needs, no secrets, no proxies."""
    found = {k: os.environ[k] for k in _KEPT_VARIABLES if k in os.environ}
    paths = [str(PACKAGE_PARENT), os.environ.get("PYTHONPATH", "")]
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "VECLIB_MAXIMUM")}
    return {
        **found,
        **threads,
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "PYTHONPATH": os.pathsep.join(p for p in paths if p),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
    }


class ChildEnded(Exception):
    """The child closed its end without an answer."""


@define(slots=True, eq=False)
class Child:
    """A child process in a process group of its own."""

    process: asyncio.subprocess.Process
    token: str
    line: int | None = None
    reads: set[str] = field(factory=set)
    """Files that it read, as far as it said."""

    @classmethod
    async def start(cls, role: Role, scratch: Path) -> Child:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "accelopt_lsp.profiler.simulator.child",
            role.value,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=bare_environment(scratch),
            cwd=scratch,
            process_group=0,  # not a session: it would share time as if it had a user of its own
            limit=MAX_LINE,
        )
        return cls(process, secrets.token_hex(16))

    async def send(self, message: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(ConnectionError, BrokenPipeError):
            self.process.stdin.write(to_json(message))
            await self.process.stdin.drain()

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Messages until the child ends; messages without its token are not its own."""
        assert self.process.stdout is not None
        while True:
            try:
                line = await self.process.stdout.readline()
            except ValueError:
                raise ChildEnded("an answer was too long") from None
            if not line:
                return
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if not isinstance(message, dict) or message.get("token") != self.token:
                continue
            reads = message.pop("reads", None)
            if isinstance(reads, list):
                self.reads.update(str(path) for path in reads)
            if message.get("event") == "at" and isinstance(message.get("line"), int):
                self.line = message["line"]
                continue
            yield message

    async def next(self, *events: str) -> dict[str, Any]:
        """The next message of one of these kinds, or a failure.

        Raises:
            ChildEnded: it ended without one.
        """
        async for message in self.events():
            if message.get("event") in (*events, "failure"):
                return message
        raise ChildEnded("it ended without an answer")

    def kill_now(self) -> None:
        """Send the whole process group a signal it cannot ignore."""
        if self.process.returncode is None:
            # Not process.kill(): it polls the child, and then asyncio's watcher, which waits for
            # it too, finds no child and says so on stderr (before Python 3.12).
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)

    async def kill(self) -> None:
        """End the whole process group at once, and wait for it."""
        self.kill_now()
        with contextlib.suppress(Exception):
            await self.process.wait()
        # The pipes of a killed child are closed here, not when the garbage collector comes by: the
        # loop may have ended by then. asyncio has no public name for it.
        transport = getattr(self.process, "_transport", None)
        if transport is not None:
            transport.close()
