"""What no client should send, and some do: it is answered, and changes nothing for what follows."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.server.conftest import FAKE_SERVER
from tests.server.raw import RawClient, Unanswered, raw_client

pytestmark = pytest.mark.asyncio(loop_scope="module")
KERNEL = (Path(__file__).parent / "kernels" / "scaling.py").read_text("utf-8")
ABLE: dict[str, dict[str, Any]] = {
    "textDocument": {
        "diagnostic": {},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
        "codeAction": {
            "codeActionLiteralSupport": {"codeActionKind": {"valueSet": []}},
            "resolveSupport": {"properties": ["edit"]},
        },
    },
    "workspace": {"workspaceEdit": {"documentChanges": True}},
}


async def alive(client: RawClient) -> None:
    """It still answers."""
    place = {"textDocument": {"uri": "file:///none.py"}, "position": {"line": 0, "character": 0}}
    assert await client.get("textDocument/hover", place) is None


async def lens_lines(client: RawClient, uri: str) -> set[int]:
    # This one waits for the analysis, however long it takes.
    await client.get("textDocument/diagnostic", {"textDocument": {"uri": uri}})
    lenses = await client.get("textDocument/codeLens", {"textDocument": {"uri": uri}})
    return {lens["range"]["start"]["line"] for lens in lenses}


def errors(client: RawClient) -> list[str]:
    """Errors of the server's log, which are its own faults."""
    logged = (m["params"] for m in client.heard if m["method"] == "window/logMessage")
    return [p["message"] for p in logged if p["type"] == 1]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[RawClient]:
    """One server for what leaves it as it was."""
    async with raw_client() as client:
        await client.start(ABLE)
        client.open("file:///k.py", KERNEL)
        yield client


BAD_MESSAGES: dict[str, tuple[bytes, Any, int]] = {
    "a method that is no text": (b'{"jsonrpc":"2.0","id":"m","method":{}}', "m", -32600),
    "no method": (b'{"jsonrpc":"2.0","id":"m"}', "m", -32600),
    "another protocol": (b'{"jsonrpc":"1.0","id":"m","method":"shutdown"}', "m", -32600),
    "an object as id": (b'{"jsonrpc":"2.0","id":{"a":1},"method":"shutdown"}', None, -32600),
    "a list as id": (b'{"jsonrpc":"2.0","id":[1],"result":null}', None, -32600),
    "null as id": (b'{"jsonrpc":"2.0","id":null,"method":"shutdown"}', None, -32600),
    "a batch": (b'[{"jsonrpc":"2.0","id":1,"method":"shutdown"}]', None, -32600),
    "a notification's method": (
        b'{"jsonrpc":"2.0","id":"m","method":"initialized","params":{}}',
        "m",
        -32600,
    ),
    "an unknown optional request": (b'{"jsonrpc":"2.0","id":"m","method":"$/no"}', "m", -32601),
    "nesting without end": (
        b'{"jsonrpc":"2.0","id":"m","method":"x","params":'
        + b"[" * 100_000
        + b"]" * 100_000
        + b"}",
        None,
        -32700,
    ),
    "a number without end": (b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b"}", None, -32700),
}


async def test_messages_that_are_none_are_answered():
    async with raw_client() as client:
        await client.start()
        for what, (body, number, code) in BAD_MESSAGES.items():
            client.send_bytes(body)
            await alive(client)
            answer = client.bare.pop()
            assert (answer.get("id", "absent"), answer["error"]["code"]) == (number, code), what
        assert client.bare == []
        assert errors(client) == []


async def test_a_length_that_no_message_has_ends_the_server_with_a_word():
    async with raw_client() as client:
        assert client.process.stdin is not None
        client.process.stdin.write(b"Content-Length: " + b"9" * 30 + b"\r\n\r\n{}")
        assert await client.process.wait() == 2
    assert b"no length" in client.noise
    assert b"Traceback" not in client.noise


async def test_figures_beyond_all_bounds_are_refused_one_by_one():
    settings = {"optimize": {"budgetSeconds": 10**400}, "timeoutSeconds": 10**400}
    settings["llm"] = {"temperature": 10**400}
    async with raw_client() as client:
        await client.start(ABLE, processId=2**70, initializationOptions={"settings": settings})
        client.open("file:///k.py", KERNEL)
        assert await lens_lines(client, "file:///k.py")
        assert errors(client) == []


@pytest.mark.parametrize(
    "data",
    [
        None,
        7,
        [1],
        {},
        {"uri": "file:///k.py"},
        {"generation": None, "edit": "fix", "diagnostic": 0},
        {"edit": "fix", "diagnostic": 99},
        {"edit": "fix", "diagnostic": -1},
        {"edit": "fix", "diagnostic": True},
        {"edit": "else", "diagnostic": 0},
        {"edit": {}, "diagnostic": {}},
        {"diagnostic": 0},
        {"kernel": [], "hint": -1},
        {"name": "nki.language.load"},
        {"name": "nki.language.load", "dialect": "x", "target": 5, "version": []},
    ],
)
async def test_data_that_a_client_has_changed(shared: RawClient, data: Any):
    uri = "file:///k.py"
    if isinstance(data, dict) and {"edit", "diagnostic", "hint"} & data.keys():
        place = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}
        params = {"textDocument": {"uri": uri}, "range": place, "context": {"diagnostics": []}}
        await shared.get("textDocument/diagnostic", {"textDocument": {"uri": uri}})
        actions = await shared.get("textDocument/codeAction", params)
        given = next(a["data"] for a in actions if "data" in a)
        data = {"uri": uri, "generation": given["generation"], **data}
    position = {"line": 0, "character": 0}
    items: dict[str, dict[str, Any]] = {
        "completionItem/resolve": {"label": "x"},
        "inlayHint/resolve": {"label": "x", "position": position},
        "codeAction/resolve": {"title": "x"},
    }
    for method, item in items.items():
        found = await shared.get(method, {**item, "data": data})
        assert {k: found[k] for k in item} == item
        assert "edit" not in found
    assert errors(shared) == []


async def test_edits_that_make_no_sense_leave_a_document_that_does():
    uri = "file:///k.py"
    async with raw_client() as client:
        await client.start(ABLE)
        gone = {"textDocument": {"uri": "file:///never-opened.py"}}
        client.change("file:///never-opened.py", 1, {"text": "x"})
        client.notify("textDocument/didSave", gone)
        client.notify("textDocument/didClose", gone)
        client.open(uri, "import nki\n")
        client.open(uri, KERNEL)

        def at(line: int, column: int) -> dict[str, int]:
            return {"line": line, "character": column}

        far = {"start": at(9999, 7), "end": at(99999, 3)}
        client.change(uri, 0, {"range": far, "text": "# end\n"})
        client.change(uri, -5, {"range": {"start": at(5, 9000), "end": at(2, 3)}, "text": ""})
        client.change(uri, 7)
        # A null range is none: everything is replaced.
        client.change(uri, 8, {"range": None, "text": "# one line more\n" + KERNEL})
        decorator = KERNEL.split("\n").index("@nki.jit") + 1
        assert await lens_lines(client, uri) == {decorator}
        for _ in range(2):
            client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
        assert await lens_lines(client, uri) == set()
        assert errors(client) == []


LINE_ENDS = {
    "returns": KERNEL.replace("\n", "\r"),
    "all kinds": "# a\r# b\r\n# c\n" + KERNEL,
    "within a comment": KERNEL.replace("\n", "\n# a\r# b\n", 1),
    "other separators": "# \u2028 \x85 \x0b \x1c\n\f\n" + KERNEL,
    "a byte order mark": "\ufeff" + KERNEL,
    "half a character": "# \ud83d\n" + KERNEL,
    "null": "# \0\n" + KERNEL,
}


@pytest.mark.parametrize("text", LINE_ENDS.values(), ids=LINE_ENDS)
async def test_everything_stands_at_its_line_however_lines_end(shared: RawClient, text: str):
    uri = "file:///lines.py"
    shared.open(uri, text)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    decorator = lines.index("@nki.jit")
    assert await lens_lines(shared, uri) == {decorator}
    document = {"textDocument": {"uri": uri}}
    (symbol,) = await shared.get("textDocument/documentSymbol", document)
    assert symbol["selectionRange"]["start"]["line"] == decorator + 1
    everywhere = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}
    hints = await shared.get("textDocument/inlayHint", {**document, "range": everywhere})
    loop = next(n for n, line in enumerate(lines) if "affine_range" in line)
    assert loop in {hint["position"]["line"] for hint in hints}
    assert errors(shared) == []


async def test_documents_wherever_they_are(tmp_path: Path):
    circle = tmp_path / "circle"
    os.symlink(circle, circle)
    uris = [
        "untitled:Untitled-1",
        "vscode-remote://ssh-remote+host/home/k.py",
        "git:/home/k.py?%7B%22ref%22%3A%22HEAD%22%7D",
        "file:///c%3A/Users/k.py",
        "file://host/share/k.py",
        "file:///tmp/a%00b.py",
        "file:///tmp/%FF.py",
        f"file:///{'a' * 5000}.py",
        (tmp_path / "gone" / "k.py").as_uri(),
        (tmp_path / "with blanks" / "é" / "k.py").as_uri(),
        (circle / "k.py").as_uri(),
        tmp_path.as_uri(),
        "http://[::1",
        "k.py",
        "",
    ]
    async with raw_client(cwd=tmp_path) as client:
        await client.start(ABLE, workspaceFolders=[{"uri": "untitled:x", "name": ""}])
        await alive(client)
        for uri in uris:
            client.open(uri, KERNEL)
            assert await lens_lines(client, uri), uri
        assert errors(client) == []


async def test_a_working_folder_that_was_deleted(tmp_path: Path):
    folder = tmp_path / "gone"
    folder.mkdir()
    async with raw_client(cwd=folder) as client:
        folder.rmdir()
        await client.start(ABLE)
        client.open("untitled:Untitled-1", KERNEL)
        assert await lens_lines(client, "untitled:Untitled-1")
        assert errors(client) == []


SHADOWED = "sitecustomize usercustomize numpy click attrs pygls json pickle typing tree_sitter nki"


async def test_modules_of_the_workspace_are_nobodys(tmp_path: Path):
    """Neither the server nor a child of it takes a file of the user's for a module."""
    told = tmp_path / "told"
    for name in SHADOWED.split():
        text = f"open({str(told)!r}, 'a').write(__name__)\nraise SystemExit(3)\n"
        (tmp_path / f"{name}.py").write_text(text, "utf-8")
    file = tmp_path / "k.py"
    file.write_text(KERNEL, "utf-8")
    async with raw_client(cwd=tmp_path) as client:
        await client.start(ABLE)
        client.open(file.as_uri(), KERNEL)
        assert await lens_lines(client, file.as_uri())
        command = {"command": "accelopt.profileKernel", "arguments": [file.as_uri()]}
        assert await client.get("workspace/executeCommand", command)
        await client.message("simulated")
        assert errors(client) == []
    assert not told.exists()


FAST = "import nki\n\n\n@nki.jit\ndef fast(x):\n    a = nl.load(x)\n    return a\n"
NO_ANSWERS = {
    "window/workDoneProgress/create": lambda _: Unanswered(),
    "workspace/configuration": lambda _: None,
    "client/registerCapability": lambda _: None,
    "window/showMessageRequest": lambda _: "Apply",
    "workspace/applyEdit": lambda _: None,
    "window/showDocument": lambda _: None,
}


async def test_answers_that_are_none_hold_nothing_up():
    """Whoever asked the client is told that it did not answer, and goes on."""
    uri = "file:///k.py"
    able = {
        "textDocument": {"diagnostic": {}},
        "window": {"workDoneProgress": True, "showDocument": {"support": True}},
        "workspace": {
            "applyEdit": True,
            "configuration": True,
            "didChangeWatchedFiles": {"dynamicRegistration": True},
        },
    }
    async with raw_client(FAKE_SERVER) as client:
        client.handlers = dict(NO_ANSWERS)
        await client.start(able)
        client.open(uri, FAST)
        explain = {"command": "accelopt.explainKernel", "arguments": [uri]}
        await client.get("workspace/executeCommand", explain)
        await client.message("fast: 2 ms estimated")  # in a message, as no document was shown
        optimize = {"command": "accelopt.optimizeKernel", "arguments": [uri]}
        await client.get("workspace/executeCommand", optimize)
        await client.message("2.00x faster")  # in a message, as no question was answered
        client.handlers["window/showMessageRequest"] = lambda asked: asked["actions"][0]
        await client.get("workspace/executeCommand", optimize)
        await client.message("not applied: its answer could not be read")
        assert "client/registerCapability" in {m["method"] for m in client.heard}
        assert await client.leave() == 0


async def test_a_notebook_of_a_client_that_tells_of_all_its_cells(shared: RawClient):
    notebook = "file:///n.ipynb"

    def uri(number: int) -> str:
        return f"vscode-notebook-cell:/n.ipynb#{number}"

    def cell(number: int, kind: int = 2) -> dict[str, Any]:
        return {"kind": kind, "document": uri(number)}

    def text(number: int, text: str, language: str = "python") -> dict[str, Any]:
        return {"uri": uri(number), "languageId": language, "version": 1, "text": text}

    versions = iter(range(1, 99))

    def change(**cells: Any) -> None:
        document = {"uri": notebook, "version": next(versions)}
        params = {"notebookDocument": document, "change": {"cells": cells}}
        shared.notify("notebookDocument/didChange", params)

    def splice(start: int, count: int, *cells: dict[str, Any], **more: Any) -> None:
        array = {"start": start, "deleteCount": count, "cells": list(cells)}
        change(structure={"array": array, **more})

    splice(0, 1)  # of a notebook that is not open
    about = {"uri": notebook, "notebookType": "jupyter-notebook", "version": 0, "cells": []}
    opened = {"notebookDocument": about, "cellTextDocuments": []}
    shared.notify("notebookDocument/didOpen", opened)
    imports, _, kernel = KERNEL.partition("\n\n\n")
    texts = [
        text(1, "# Title", "markdown"),
        text(2, imports),
        text(3, kernel),
        text(4, "select 1", "sql"),
    ]
    splice(0, 0, cell(1, 1), cell(2), cell(3), cell(4), didOpen=texts)
    assert await lens_lines(shared, uri(3))
    for other in (1, 2, 4):
        assert await lens_lines(shared, uri(other)) == set()
    # Texts of cells come with the notebook, and with nothing else.
    shared.change(uri(3), 9, {"text": "oops"})
    shared.notify("textDocument/didClose", {"textDocument": {"uri": uri(3)}})
    assert await lens_lines(shared, uri(3))
    splice(2, 1)  # without closing its text: it comes back elsewhere
    assert await lens_lines(shared, uri(3)) == set()
    splice(3, 0, cell(3))
    assert await lens_lines(shared, uri(3))
    change(data=[cell(3, 1)])  # it becomes a cell without code
    assert await lens_lines(shared, uri(3)) == set()
    splice(99, 99)
    closed = {"notebookDocument": {"uri": notebook}, "cellTextDocuments": [{"uri": uri(3)}]}
    shared.notify("notebookDocument/didClose", closed)
    assert await lens_lines(shared, uri(3)) == set()
    assert errors(shared) == []


async def test_files_that_never_end_are_not_read(tmp_path: Path):
    """A repository may hold devices and pipes where a project's files are looked for."""
    kernel = tmp_path / "k.py"
    kernel.write_text(KERNEL, "utf-8")
    os.symlink("/dev/zero", tmp_path / "helper.py")
    for name in ("pyproject.toml", "others.py", "scaling_reference.py", "k_reference.py", "a.npy"):
        os.mkfifo(tmp_path / name)
    text = f"from helper import *\nimport others\n{KERNEL}".replace("scale=", "scale=@a.npy#")
    async with raw_client() as client:
        await client.start(ABLE, initializationOptions={"trusted": False})
        client.open(kernel.as_uri(), text)
        assert await lens_lines(client, kernel.as_uri())
        assert not [m for m in client.heard if m["method"] == "window/showMessage"]
        assert errors(client) == []


async def test_abilities_of_a_newer_client_cost_none_of_the_others():
    able = {
        "general": {"positionEncodings": ["utf-64", "utf-8"]},
        "textDocument": {
            **ABLE["textDocument"],
            "semanticTokens": {"requests": {}, "tokenTypes": [], "formats": ["absolute"]},
            "publishDiagnostics": {"tagSupport": {"valueSet": [1, 2, 3]}},
            "hover": {"contentFormat": ["html"]},
        },
        "window": 5,
        "workspace": None,
    }
    async with raw_client() as client:
        begun = await client.start(able, trace="loud", locale=7)
        assert begun["capabilities"]["positionEncoding"] == "utf-8"
        client.open("file:///k.py", KERNEL)
        # It still is a client that pulls, and that knows a tree of symbols.
        assert await lens_lines(client, "file:///k.py")
        document = {"textDocument": {"uri": "file:///k.py"}}
        (symbol,) = await client.get("textDocument/documentSymbol", document)
        assert "range" in symbol
        assert errors(client) == []
