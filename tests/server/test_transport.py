"""What comes in over the pipe or the port: requests are answered, what is no LSP ends it."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import sys
from typing import Any

import pytest

from accelopt_lsp.server.processes import descendants
from tests.server.conftest import REAL_SERVER

TCP = (*REAL_SERVER, "--tcp")
INITIALIZE = {"id": 1, "method": "initialize", "params": {"capabilities": {}}}
SHUTDOWN = {"id": 9, "method": "shutdown"}
EXIT = {"method": "exit"}


def framed(body: bytes, head: str = "Content-Length: {}\r\n\r\n") -> bytes:
    return head.format(len(body)).encode() + body


def message(content: dict[str, Any], **options: Any) -> bytes:
    return framed(json.dumps({"jsonrpc": "2.0", **content}).encode(), **options)


async def talk(*sent: bytes) -> tuple[int, list[dict[str, Any]], str]:
    """Exit code, answers and standard error of a server that is given some bytes."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *REAL_SERVER, stdin=pipe, stdout=pipe, stderr=pipe
    )
    out, err = await asyncio.wait_for(process.communicate(b"".join(sent)), 60)
    answers = []
    while out:
        head, _, rest = out.partition(b"\r\n\r\n")
        size = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
        answers.append(json.loads(rest[:size]))
        out = rest[size:]
    assert process.returncode is not None
    return process.returncode, [a for a in answers if "method" not in a], err.decode()


def codes(answers: list[dict[str, Any]]) -> dict[Any, int | None]:
    return {a.get("id"): a.get("error", {}).get("code") for a in answers}


async def test_every_request_is_answered_also_those_that_come_at_the_wrong_time():
    place = {"textDocument": {"uri": "file:///k.py"}, "position": {"line": 0, "character": 0}}
    hover = {"method": "textDocument/hover", "params": place}
    _, answers, _ = await talk(
        message({"id": 0, **hover}),
        message(INITIALIZE),
        message({"method": "initialized", "params": {}}),
        message({**INITIALIZE, "id": 2}),
        message({"id": 3, "method": "textDocument/hover", "params": {"position": 1}}),
        message({"id": "a", **hover}),
        message({"id": 4, "method": "no/such"}),
        message({"method": "$/cancelRequest", "params": {"id": "a"}}),
        message({"method": "$/no-such", "params": {}}),
        message({"method": "textDocument/didOpen", "params": {"nonsense": 1}}),
        framed(b"{not json"),
        framed(b"[1, 2]"),
        message(SHUTDOWN),
        message({"id": 10, **hover}),
        message(EXIT),
    )
    assert [a["error"]["code"] for a in answers if a.get("id") is None] == [-32700, -32600]
    found = codes(a for a in answers if a.get("id") is not None)
    assert found.pop("a") in (None, -32800)
    # The server may have gone before it came to what was asked after the shutdown.
    assert found.pop(9, None) is None
    assert found.pop(10, -32600) == -32600
    assert found == {0: -32002, 1: None, 2: -32600, 3: -32602, 4: -32601}


@pytest.mark.parametrize(
    "head",
    [
        "content-length: {}\r\n\r\n",
        "Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: {}\r\n\r\n",
        "Content-Length:{}\n\n",
    ],
)
async def test_headers_as_clients_write_them(head):
    code, answers, _ = await talk(message(INITIALIZE, head=head), message(EXIT, head=head))
    assert code == 1  # no shutdown before
    assert codes(answers) == {1: None}


@pytest.mark.parametrize(
    "text", [b"accelopt check k.py\n", b"Content-Length: many\r\n\r\n", b"\x80\xff\n", b"{}\n"]
)
async def test_what_is_no_lsp_is_said_to_be_none(text):
    code, answers, err = await talk(text)
    assert code == 2
    assert answers == []
    assert "Content-Length" in err or "no length" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("sent", [b"", b"Content-Length: 100\r\n\r\n{", message(INITIALIZE)])
async def test_an_input_that_ends_ends_the_server(sent):
    code, _, err = await talk(sent)
    assert code == 1
    assert "Traceback" not in err


def test_somebody_who_starts_it_in_a_terminal_is_told_what_it_is():
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(REAL_SERVER[0], REAL_SERVER)
    said = b""
    while b"language server" not in said:
        said += os.read(terminal, 4096)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 2


async def listening() -> tuple[asyncio.subprocess.Process, int]:
    process = await asyncio.create_subprocess_exec(*TCP, "0", stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    line = (await process.stderr.readline()).decode()
    assert line.startswith("accelopt: listening on 127.0.0.1:")
    return process, int(line.rpartition(":")[2])


async def test_a_port_that_is_taken_is_said():
    process, port = await listening()
    other = await asyncio.create_subprocess_exec(*TCP, str(port), stderr=asyncio.subprocess.PIPE)
    _, err = await asyncio.wait_for(other.communicate(), 60)
    assert other.returncode == 2
    assert f"cannot listen on port {port}" in err.decode()
    process.send_signal(signal.SIGINT)
    assert await asyncio.wait_for(process.wait(), 30) == 128 + signal.SIGINT


async def test_a_tcp_client_that_goes_takes_the_server_with_it_and_a_second_one_is_turned_away():
    process, port = await listening()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(message(INITIALIZE) + message({"method": "initialized", "params": {}}))
    assert b"capabilities" in await asyncio.wait_for(reader.read(1 << 16), 60)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    family = [p.pid for p in descendants(process.pid)]
    writer.close()
    assert await asyncio.wait_for(process.wait(), 30) == 1
    assert not {p.pid for p in descendants(1)} & set(family)


def test_the_commands_say_how_they_are_used(capfd):
    serve_main = "from accelopt_lsp.cli import serve_main; serve_main()"
    for module in (["-m", "accelopt_lsp", "serve"], ["-c", serve_main]):
        command = [sys.executable, *module, "--help"]
        assert os.spawnv(os.P_WAIT, sys.executable, command) == 0
        assert "--tcp" in capfd.readouterr().out
