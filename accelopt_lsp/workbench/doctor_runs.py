"""What ``accelopt doctor`` tries out: the server as editors start it, a kernel in the sandbox."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PATIENCE_SECONDS = 60.0
KERNEL = """import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,128]
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""


class Unanswered(RuntimeError):
    """The server did not do what it should. The message is for people."""


def script() -> str | None:
    """Where editors find ``accelopt-lsp``; None if it is not on the PATH."""
    return shutil.which("accelopt-lsp")


def script_beside_python() -> Path | None:
    """``accelopt-lsp`` of this very installation, if it has one."""
    found = Path(sys.executable).parent / "accelopt-lsp"
    return found if found.exists() else None


async def server_answers() -> float:
    """Seconds from the start of a server to its answer to ``initialize``; it is ended in order.

    Raises:
        Unanswered: it did not start, or gave no answer.
    """
    begun = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "accelopt_lsp",
        "serve",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            answer = await _ask(process, 1, "initialize", {"processId": None, "capabilities": {}})
            seconds = time.monotonic() - begun
            if "capabilities" not in (answer.get("result") or {}):
                raise Unanswered(f"it answered {json.dumps(answer)[:200]}")
            await _ask(process, 2, "shutdown", None)
            _send(process, {"jsonrpc": "2.0", "method": "exit"})
            await process.wait()
    except TimeoutError:
        raise Unanswered(f"no answer within {PATIENCE_SECONDS:g} s") from None
    except (OSError, asyncio.IncompleteReadError, ValueError):
        _, errors = await process.communicate()
        last = errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise Unanswered(last or "it ended without an answer") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return seconds


def _send(process: asyncio.subprocess.Process, message: dict[str, Any]) -> None:
    assert process.stdin is not None
    body = json.dumps(message).encode()
    process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)


async def _ask(
    process: asyncio.subprocess.Process, id: int, method: str, params: Any
) -> dict[str, Any]:
    """Send a request and wait for its answer; whatever else comes is read over."""
    assert process.stdout is not None
    _send(process, {"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    while True:
        length = 0
        while line := (await process.stdout.readuntil(b"\n")).strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        message: dict[str, Any] = json.loads(await process.stdout.readexactly(length))
        if message.get("id") == id and "method" not in message:
            return message


async def kernel_runs() -> float:
    """Seconds that a small kernel takes in the sandbox, from its start to its figures.

    Raises:
        Unanswered: it could not be run.
    """
    from accelopt_lsp.workbench.profile import ProfileRequest, profile_kernel
    from accelopt_lsp.workbench.requests import KernelRequest

    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="accelopt-") as folder:
        kernel = KernelRequest(Path(folder) / "kernel.py", KERNEL, "kernel")
        asked = ProfileRequest(kernel, verify=False, use_cache=False)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                report = await profile_kernel(asked)
        except TimeoutError:
            raise Unanswered(f"no result within {PATIENCE_SECONDS:g} s") from None
    if report.failure is not None:
        raise Unanswered(report.failure.message)
    if report.profile is None or report.profile.latency_ms is None:
        raise Unanswered("a kernel of two transfers came to no latency")
    return time.monotonic() - begun
