"""A long session: random edits, requests and cancels, in any order, on many open files.

    server_soak.py [CHECKOUT] [--operations N] [--files N] [--seed S] [--json FILE]

CHECKOUT is a working copy of nki-library; without it copies of the examples are taken. Files are
edited (also into what is no Python), closed, opened again, renamed and saved; everything that the
server offers is asked for, several things at once; requests and runs are cancelled.

It must hold, or the script says what did not and exits with 1:

- no exception in the server's log;
- every request is answered: by a result, or by the error for a cancelled one;
- from the first thousand operations on, the memory of the server and of its analysis process
  grows by no more than 20 MB each;
- at the end each file's diagnostics are those that a fresh server gives for its text, but for what
  failed runs have left at lines that nobody edited since;
- after the shutdown no process is left of all that there were.

A seed fixes the operations, not their timing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from lsp_client import CAPABILITIES, Client, RequestFailed, living

from accelopt_lsp.server.processes import descendants

SERVER = (sys.executable, "-P", "-m", "accelopt_lsp", "serve")
EXAMPLES = Path(__file__).parent.parent / "examples"
LARGEST_FILE = 40_000
"""Characters: larger files take the time of many operations on smaller ones."""
SETTLED_AFTER = 1000
MOST_GROWTH = 20 << 20
OUTSTANDING = 24
"""Requests that may wait for their answers at a time."""
CANCELLED = -32800
COMMANDS = ("accelopt.explainKernel", "accelopt.setArguments")
RUNS = ("accelopt.optimizeKernel", "accelopt.profileKernel")
PIECES = (
    "x",
    " ",
    "\n",
    "(",
    ")",
    '"""',
    "'",
    "\\",
    "#",
    ":",
    "\t",
    "\r\n",
    "    ",
    "é",
    "日本",
    "😀",
    "\u2028",
    "\x0c",
    "0",
    "nl.",
    "nisa.",
    "for i in range(4):\n        ",
    "def f(x):\n    return x\n",
    "import nki.language as nl\n",
    "@nki.jit\ndef k(a, b):\n    return nl.load(a)\n",
)


def files_of(checkout: Path | None, count: int) -> list[Path]:
    """Files with kernels, the same ones each time."""
    found = sorted(EXAMPLES.glob("*/[!_]*.py"))
    if checkout is not None:
        library = sorted((checkout / "src").rglob("*.py"))
        found += [p for p in library if 2000 < p.stat().st_size <= LARGEST_FILE]
    kernels = [p for p in found if "nki" in p.read_text("utf-8")]
    step = max(1, len(kernels) // count)
    return (kernels[::step] * count)[:count]


class File:
    """One file as the client has it; versions go on when it is opened again."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.original = text
        self.text = text
        self.version = 0
        self.open = False
        self.tokens: str | None = None
        self.result: str | None = None

    @property
    def uri(self) -> str:
        return self.path.as_uri()

    @property
    def document(self) -> dict[str, Any]:
        return {"uri": self.uri}

    def position(self, offset: int) -> dict[str, int]:
        """A place in LSP's terms; lines end at ``\\n``, ``\\r\\n`` and ``\\r``."""
        before = self.text[:offset].replace("\r\n", "\n\n")
        # A place between the two characters of a line end is on the line that they end.
        plain = self.text[:offset].replace("\r\n", "\n").replace("\r", "\n")
        start = max(before.rfind("\n"), before.rfind("\r")) + 1
        line = self.text[start:offset]
        return {"line": plain.count("\n"), "character": len(line.encode("utf-16-le")) // 2}


class Soak:
    """One session with everything that happens in it."""

    def __init__(self, client: Client, files: list[File], random_: random.Random) -> None:
        self.client = client
        self.files = files
        self.random = random_
        self.done: Counter[str] = Counter()
        self.problems: list[str] = []
        self.seen: set[int] = set()
        self.memory: list[tuple[int, int, int]] = []
        self.jobs: list[str] = []
        self._waiting: dict[int, tuple[str, asyncio.Future[Any]]] = {}
        self._worker: int | None = None

    # -- operations -------------------------------------------------------------------

    async def run(self, operations: int) -> None:
        for file in self.files:
            self._open(file)
        choices = {
            self._edit: 40,
            self._ask: 40,
            self._cancel: 8,
            self._save: 4,
            self._reopen: 2,
            self._rename: 1,
            self._replace: 2,
            self._configure: 0.3,
            self._run_job: 0.6,
            self._cancel_job: 0.8,
        }
        actions = self.random.choices(list(choices), list(choices.values()), k=operations)
        for number, action in enumerate(actions):
            action(self.random.choice(self.files))
            await self._pace()
            if number % 50 == 0:
                self._measure(number)
                if sys.stderr.isatty():
                    print(f"\r{number} operations", end="", file=sys.stderr)
        for job in self.jobs:
            self.client.notify("window/workDoneProgress/cancel", {"token": job})
        await self._drain(0)
        self._measure(operations)

    def _open(self, file: File) -> None:
        file.version += 1
        file.open = True
        self.client.open(file.uri, file.text, file.version)

    def _close(self, file: File) -> None:
        file.open = False
        file.tokens = file.result = None
        self.client.notify("textDocument/didClose", {"textDocument": file.document})

    def _edit(self, file: File) -> None:
        if len(file.text) > 2 * len(file.original) + 1000:
            self._replace(file)
            return
        start = self.random.randrange(len(file.text) + 1)
        length = self.random.choice((0, 0, 0, 1, 3, 40, 400))
        piece = self.random.choice(PIECES)
        if self.random.random() < 0.02:
            other = self.random.choice(self.files).original
            piece = other * self.random.choice((1, 1, 3))
        end = min(len(file.text), start + length)
        while 0 < end < len(file.text) and file.text[end - 1 : end + 1] == "\r\n":
            end += 1
        while 0 < start < len(file.text) and file.text[start - 1 : start + 1] == "\r\n":
            start -= 1
        range_ = {"start": file.position(start), "end": file.position(end)}
        file.text = file.text[:start] + piece + file.text[end:]
        file.version += 1
        self.client.change(file.uri, file.version, [{"range": range_, "text": piece}])

    def _replace(self, file: File) -> None:
        """Back to how it was, or nearly, in one change."""
        file.text = file.original + self.random.choice(("", "\n# the end\n", "\nx = (\n"))
        file.version += 1
        self.client.change(file.uri, file.version, [{"text": file.text}])

    def _save(self, file: File) -> None:
        self.client.notify("textDocument/didSave", {"textDocument": file.document})

    def _reopen(self, file: File) -> None:
        self._close(file)
        self._open(file)

    def _rename(self, file: File) -> None:
        self._close(file)
        file.path = file.path.with_name(f"renamed_{self.random.randrange(10**9)}.py")
        self._open(file)

    def _configure(self, file: File) -> None:
        rich = self.random.random() < 0.5
        self.client.settings = {"inlayHints": {"rich": rich}, "optimize": {"budgetSeconds": 60}}
        self.client.notify("workspace/didChangeConfiguration", {"settings": None})

    def _run_job(self, file: File) -> None:
        command = {"command": self.random.choice(RUNS), "arguments": [file.uri]}
        _, future = self._send("workspace/executeCommand", command)
        future.add_done_callback(self._started)

    def _started(self, future: asyncio.Future[Any]) -> None:
        if not future.cancelled() and future.exception() is None and future.result():
            self.jobs.append(future.result()["job"])

    def _cancel_job(self, file: File) -> None:
        if self.jobs:
            job = self.jobs.pop(self.random.randrange(len(self.jobs)))
            self.client.notify("window/workDoneProgress/cancel", {"token": job})

    def _cancel(self, file: File) -> None:
        if self._waiting:
            self.client.cancel(self.random.choice(list(self._waiting)))

    def _ask(self, file: File) -> None:
        offset = self.random.randrange(len(file.text) + 1)
        if self.random.random() < 0.7:
            # Mostly at names, where there is something to say.
            found = file.text.find(self.random.choice(("nl.", "nisa.", "for ", "def ")), offset)
            offset = found + 4 if found >= 0 else offset
        place = file.position(min(offset, len(file.text)))
        if self.random.random() < 0.02:
            place = {"line": 10**6, "character": 10**6}
        range_ = {"start": place, "end": {"line": place["line"] + 60, "character": 0}}
        at = {"textDocument": file.document, "position": place}
        on = {"textDocument": file.document}
        requests: list[tuple[str, dict[str, Any]]] = [
            ("textDocument/diagnostic", {**on, "previousResultId": file.result}),
            ("textDocument/inlayHint", {**on, "range": range_}),
            ("textDocument/codeLens", on),
            ("textDocument/hover", at),
            ("textDocument/completion", at),
            ("textDocument/signatureHelp", at),
            ("textDocument/definition", at),
            ("textDocument/documentSymbol", on),
            ("textDocument/foldingRange", on),
            ("textDocument/semanticTokens/full", on),
            ("textDocument/codeAction", {**on, "range": range_, "context": {"diagnostics": []}}),
            (
                "workspace/executeCommand",
                {"command": self.random.choice(COMMANDS), "arguments": [file.uri]},
            ),
        ]
        method, params = self.random.choice(requests)
        _, future = self._send(method, params)
        if method == "textDocument/inlayHint":
            future.add_done_callback(lambda f: self._resolve("inlayHint/resolve", f))
        elif method == "textDocument/codeAction":
            future.add_done_callback(lambda f: self._resolve("codeAction/resolve", f))
        elif method == "textDocument/completion":
            future.add_done_callback(lambda f: self._resolve("completionItem/resolve", f))

    def _resolve(self, method: str, future: asyncio.Future[Any]) -> None:
        if future.cancelled() or future.exception() is not None or not future.result():
            return
        found = future.result()
        items = found["items"] if isinstance(found, dict) else found
        if items and self.random.random() < 0.3:
            self._send(method, self.random.choice(items))

    # -- answers ----------------------------------------------------------------------

    def _send(self, method: str, params: dict[str, Any]) -> tuple[int, asyncio.Future[Any]]:
        number, future = self.client.call(method, params)
        self._waiting[number] = (method, future)
        future.add_done_callback(lambda f: self._answered(number, method, f))
        return number, future

    def _answered(self, number: int, method: str, future: asyncio.Future[Any]) -> None:
        self._waiting.pop(number, None)
        error = future.exception()
        if error is None:
            self.done[method] += 1
        elif isinstance(error, RequestFailed) and error.code == CANCELLED:
            self.done["cancelled"] += 1
        else:
            self.problems.append(f"{method}: {error}")

    async def _pace(self) -> None:
        """Often at once, sometimes after a pause, never with too much outstanding."""
        await asyncio.sleep(self.random.choice((0, 0, 0, 0.001, 0.02, 0.05)))
        if len(self._waiting) > OUTSTANDING:
            await self._drain(OUTSTANDING // 2)

    async def _drain(self, most: int) -> None:
        try:
            await self.client.until(lambda: len(self._waiting) <= most, 180)
        except TimeoutError:
            lost = Counter(method for method, _ in self._waiting.values())
            self.problems.append(f"no answer within 180 s: {dict(lost)}")
            self._waiting.clear()

    # -- processes --------------------------------------------------------------------

    def _measure(self, number: int) -> None:
        pid = self.client.process.pid
        children = descendants(pid)
        self.seen |= {p.pid for p in children}
        worker = next((p.pid for p in children if "server.worker" in _command(p.pid)), None)
        if worker is not None:
            if self._worker not in (None, worker):
                self.problems.append(f"the analysis process was replaced, at operation {number}")
            self._worker = worker
            self.memory.append((number, _resident(pid), _resident(worker)))

    def growth(self) -> tuple[int, int]:
        """Growth of both processes since the first thousand operations, in bytes."""
        settled = [m for m in self.memory if m[0] >= SETTLED_AFTER]
        if not settled:
            return 0, 0
        # The collector comes and goes: levels of ten measurements are compared.
        first, last = settled[:10], settled[-10:]
        server, worker = (min(m[i] for m in last) - min(m[i] for m in first) for i in (1, 2))
        return server, worker


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace")
    except OSError:
        return ""


def _resident(pid: int) -> int:
    """Private memory: pages that others share are not the process's own doing."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii")
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in text.splitlines() if "Private" in line)


async def all_diagnostics(client: Client, files: list[File]) -> dict[str, Any]:
    found = {}
    for file in files:
        answer = await client.request("textDocument/diagnostic", {"textDocument": file.document})
        found[file.uri] = answer["items"]
    return found


async def same_as_fresh(soak: Soak, environment: dict[str, str]) -> list[str]:
    """Files whose diagnostics are not those that a fresh server gives for their texts."""
    patient = json.loads(json.dumps(CAPABILITIES))
    patient["workspace"]["diagnostics"]["refreshSupport"] = False
    fresh = await Client.start(SERVER, env=environment)
    fresh.settings = soak.client.settings
    await fresh.initialize(patient)
    for file in soak.files:
        fresh.open(file.uri, file.text)
    expected = await all_diagnostics(fresh, soak.files)
    await fresh.close()
    end = time.monotonic() + 120
    while True:
        found = await all_diagnostics(soak.client, soak.files)
        wrong = [uri for uri, items in expected.items() if _order(found[uri]) != _order(items)]
        if not wrong:
            return []
        if time.monotonic() > end:
            return [
                f"{uri}: {sorted(set(_order(found[uri])) ^ set(_order(expected[uri])))[:4]}"
                for uri in wrong
            ]
        await asyncio.sleep(1)


def _order(items: list[Any]) -> list[str]:
    """What analysis says; a fresh server has run nothing that could have failed."""
    return sorted(json.dumps(item, sort_keys=True) for item in items if item["code"] != "run")


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkout", type=Path, nargs="?")
    parser.add_argument("--operations", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile() as log:
        environment = {**os.environ, "ACCELOPT_DATA_DIR": f"{scratch}/data"}
        files = []
        for number, path in enumerate(files_of(options.checkout, options.files)):
            text = path.read_text("utf-8")
            place = path.with_name(f"{path.stem}_{number}.py")
            if options.checkout is None or options.checkout not in path.parents:
                place = Path(scratch, f"{path.parent.name}_{path.stem}_{number}.py")
                place.write_text(text, "utf-8")
            files.append(File(place, text))
        client = await Client.start(SERVER, env=environment, stderr=log)
        client.applies = False
        client.settings = {"optimize": {"budgetSeconds": 60}}
        await client.initialize()
        soak = Soak(client, files, random.Random(options.seed))
        await soak.run(options.operations)
        wrong = await same_as_fresh(soak, environment)
        if wrong:
            soak.problems.append(f"diagnostics differ from a fresh server's: {wrong}")
        server = client.process.pid
        code = await client.close()
        if code != 0:
            soak.problems.append(f"the server ended with {code}")
        if left := living({*soak.seen, server}):
            soak.problems.append(f"processes left behind: {left}")
        log.seek(0)
        said = log.read().decode("utf-8", "replace")
    bad = [line for line in said.splitlines() if "ERROR" in line or "Traceback" in line]
    bad += [m for m in client.messages if "internal error" in m or "ended unexpectedly" in m]
    soak.problems += bad[:5]
    grown = soak.growth()
    soak.problems += [
        f"the {name} grew by {size >> 20} MB"
        for name, size in zip(("server", "analysis process"), grown, strict=True)
        if size > MOST_GROWTH
    ]
    answered = sum(soak.done.values())
    halfway, end = soak.memory[len(soak.memory) // 2], soak.memory[-1]
    print(
        f"{options.operations} operations on {len(files)} files in {time.monotonic() - begun:.0f} s"
        f" (seed {options.seed}): {answered} answers, {soak.done['cancelled']} of them cancelled"
    )
    for index, name in ((1, "server"), (2, "analysis process")):
        levels = f"{halfway[index] >> 20} MB halfway, {end[index] >> 20} MB at the end"
        change = f"{grown[index - 1] / 2**20:+.1f} MB since operation {SETTLED_AFTER}"
        print(f"private memory of the {name}: {levels}; {change}")
    print(f"{len(soak.seen)} child processes seen, {len(left)} left at the end")
    for problem in soak.problems[:20]:
        print(f"PROBLEM: {problem}")
    if options.json is not None:
        figures = {
            "operations": options.operations,
            "answers": dict(soak.done),
            "growth_bytes": grown,
            "memory": soak.memory,
            "problems": soak.problems,
        }
        options.json.write_text(json.dumps(figures, indent=1), "utf-8")
    if soak.problems and said:
        print(said[-4000:], file=sys.stderr)
    return 1 if soak.problems else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
