"""How fast the language server answers, as a client on the other end of the pipe sees it.

    server_latency.py CHECKOUT [--files N] [--rounds N] [--starts N] [--no-background] [--json FILE]
                      [--markdown]

CHECKOUT is a working copy of nki-library; its largest source files are opened one after the other.
Per file and round one character is typed, at places spread over the file, and then

``syntax diagnostics``  from the change to what the tree alone decides
``full diagnostics``    from the change to everything, when the client is told to ask again

are awaited: once with a save, which needs no pause, so that the figures are those after the delay,
and once without, as the user sees it (``typed``; the delay is in it). Then come hovers, the inlay
hints of a screen of 60 lines, and what else the server offers, from the finished analysis; and
``hover while analysing``, right after another change. ``initialize`` is from the start of a process
to its answer.

All of it runs once more while an optimization of an example runs in the background; ``ratio`` is
of the 95th percentiles, and counts from 10 ms on. ``cancel`` is from the client's cancelling that
optimization to the end of its progress, ``gone`` to the end of its processes.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lsp_client import Client, RequestFailed, living

from accelopt_lsp.server.processes import descendants

SERVER = (sys.executable, "-P", "-m", "accelopt_lsp", "serve")
EXAMPLES = Path(__file__).parent.parent / "examples"
BACKGROUND = ("current/matmul.py", "current/softmax.py", "current/rmsnorm.py")
SCREEN_LINES = 60
PLACES = 8
"""Places per file and round at which hovers, hints and the like are asked for."""
BUDGETS: dict[str, float] = {
    "initialize": 1500.0,
    "syntax diagnostics": 150.0,
    "full diagnostics": 500.0,
    "hover": 50.0,
    "hover while analysing": 50.0,
    "inlay hints": 50.0,
    "cancel": 100.0,
    "gone": 1000.0,
}
"""Limits in ms of the 95th percentile, on two cores."""
MOST_BY_BACKGROUND = 2.0
UNNOTICED = 10.0
"""Times in ms below which a ratio says more of the clock than of the server."""
ASKED = {
    "completion": ("completionProvider", "textDocument/completion"),
    "signature help": ("signatureHelpProvider", "textDocument/signatureHelp"),
    "document symbols": ("documentSymbolProvider", "textDocument/documentSymbol"),
    "folding": ("foldingRangeProvider", "textDocument/foldingRange"),
    "code lenses": ("codeLensProvider", "textDocument/codeLens"),
    "code actions": ("codeActionProvider", "textDocument/codeAction"),
}
"""Requests that are made if the server offers them."""

Times = dict[str, list[float]]


def largest(checkout: Path, count: int) -> list[Path]:
    """The largest source files with kernels in them."""
    found = [p for p in (checkout / "src").rglob("*.py") if "nki" in p.read_text("utf-8")]
    return sorted(found, key=lambda p: (-p.stat().st_size, p))[:count]


class Typist:
    """One open file, and someone who types in it and looks at it."""

    def __init__(self, client: Client, path: Path) -> None:
        self.client = client
        self.uri = path.as_uri()
        self.lines = path.read_text("utf-8").split("\n")
        self.version = 1
        self.document = {"uri": self.uri}
        self._typed: tuple[int, int] | None = None

    async def open(self) -> None:
        seen = self.client.events["workspace/inlayHint/refresh"]
        self.client.open(self.uri, "\n".join(self.lines))
        await self.analysed(seen)

    async def close(self) -> None:
        self.client.notify("textDocument/didClose", {"textDocument": self.document})

    async def analysed(self, seen: int) -> None:
        await self.client.until(
            lambda: self.client.events["workspace/inlayHint/refresh"] > seen, 120
        )

    def type(self, place: float) -> None:
        """One digit more at the end of a word; the next time it is deleted again."""
        self.version += 1
        if self._typed is not None:
            line, column = self._typed
            text = self.lines[line]
            self.lines[line] = text[:column] + text[column + 1 :]
            change = {"range": span(line, column, column + 1), "text": ""}
            self._typed = None
        else:
            line, column = self._end_of_word(int(place * len(self.lines)))
            text = self.lines[line]
            self.lines[line] = f"{text[:column]}1{text[column:]}"
            change = {"range": span(line, column, column), "text": "1"}
            self._typed = (line, column)
        self.client.change(self.uri, self.version, [change])

    def _end_of_word(self, line: int) -> tuple[int, int]:
        while True:
            line = line % len(self.lines)
            text = self.lines[line]
            for column in range(len(text) // 2, len(text) + 1):
                if text[column - 1 : column].isalnum() and not text[column : column + 1].isalnum():
                    return line, column
            line += 1

    async def diagnostics(self, place: float, *, save: bool) -> tuple[float, float]:
        """Times from a change to the tree's diagnostics and to all of them, in ms."""
        seen = self.client.events["workspace/inlayHint/refresh"]
        begun = time.perf_counter()
        self.type(place)
        if save:
            self.client.notify("textDocument/didSave", {"textDocument": self.document})
        await self.client.request("textDocument/diagnostic", {"textDocument": self.document})
        syntax = since(begun)
        await self.analysed(seen)
        await self.client.request("textDocument/diagnostic", {"textDocument": self.document})
        return syntax, since(begun)

    def at(self, line: int, character: int) -> dict[str, Any]:
        return {
            "textDocument": self.document,
            "position": {"line": line, "character": character},
        }

    def names(self) -> list[tuple[int, int]]:
        """Places of API calls."""
        return [
            (number, text.index("nisa.") + 6)
            for number, text in enumerate(self.lines)
            if "nisa." in text and not text.lstrip().startswith("#")
        ] or [(0, 0)]

    async def timed(self, method: str, params: Any) -> float:
        begun = time.perf_counter()
        try:
            await self.client.request(method, params)
        except RequestFailed as error:
            raise SystemExit(f"{method} failed: {error}") from error
        return since(begun)


def span(line: int, start: int, end: int) -> dict[str, Any]:
    return {
        "start": {"line": line, "character": start},
        "end": {"line": line, "character": end},
    }


def since(begun: float) -> float:
    return (time.perf_counter() - begun) * 1e3


def spread(count: int, number: int) -> Iterator[float]:
    """``count`` places in 0 to 1, others for every number."""
    for index in range(count):
        yield ((index + 0.5) / count + number * 0.137) % 1.0


async def look(typist: Typist, times: Times, number: int) -> None:
    """What an editor asks for while somebody reads."""
    names = typist.names()
    offered = typist.client.capabilities
    for place in spread(PLACES, number):
        line, character = names[int(place * len(names))]
        times["hover"].append(await typist.timed("textDocument/hover", typist.at(line, character)))
        first = int(place * len(typist.lines))
        range_ = {
            "start": {"line": first, "character": 0},
            "end": {"line": first + SCREEN_LINES, "character": 0},
        }
        screen = {"textDocument": typist.document, "range": range_}
        times["inlay hints"].append(await typist.timed("textDocument/inlayHint", screen))
        at = typist.at(line, character)
        start = {"start": range_["start"], "end": range_["start"]}
        context = {"diagnostics": [], "triggerKind": 1}
        for name, (capability, method) in ASKED.items():
            if offered.get(capability):
                actions = {"range": start, "context": context} if name == "code actions" else {}
                times[name].append(await typist.timed(method, {**at, **actions}))


async def measure(client: Client, files: list[Path], rounds: int) -> dict[Path, Times]:
    """All times by file, in ms."""
    found = {}
    for path in files:
        times: Times = defaultdict(list)
        typist = Typist(client, path)
        begun = time.perf_counter()
        await typist.open()
        times["first analysis"].append(since(begun))
        for number in range(rounds):
            for place in spread(2, number):
                syntax, full = await typist.diagnostics(place, save=True)
                times["syntax diagnostics"].append(syntax)
                times["full diagnostics"].append(full)
            syntax, full = await typist.diagnostics(number / rounds, save=False)
            times["syntax diagnostics, typed"].append(syntax)
            times["full diagnostics, typed"].append(full)
            await look(typist, times, number)
            seen = client.events["workspace/inlayHint/refresh"]
            typist.type(number / rounds)
            client.notify("textDocument/didSave", {"textDocument": typist.document})
            line, character = typist.names()[0]
            for _ in range(PLACES):
                times["hover while analysing"].append(
                    await typist.timed("textDocument/hover", typist.at(line, character))
                )
                await asyncio.sleep(0.01)
            await typist.analysed(seen)
        await typist.close()
        found[path] = times
    return found


async def started(environment: dict[str, str]) -> tuple[Client, float]:
    begun = time.perf_counter()
    client = await Client.start(SERVER, env=environment)
    client.settings = {"optimize": {"budgetSeconds": 600}}
    await client.initialize()
    return client, since(begun)


async def settled(client: Client) -> None:
    """Wait until the server has fetched its settings."""
    await client.until(lambda: client.events["workspace/inlayHint/refresh"])


class Background:
    """An optimization that always runs: when it ends, the next one begins."""

    def __init__(self, client: Client, folder: Path) -> None:
        self._client = client
        self._folder = folder
        self._others = {p.pid for p in descendants(client.process.pid)}
        self._job = ""
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        for number in itertools.count():
            source = EXAMPLES / BACKGROUND[number % len(BACKGROUND)]
            for file in (source, source.with_name(f"{source.stem}_reference.py")):
                (self._folder / file.name).write_text(file.read_text("utf-8"), "utf-8")
            uri = (self._folder / source.name).as_uri()
            self._client.open(uri, source.read_text("utf-8"))
            params = {"command": "accelopt.optimizeKernel", "arguments": [uri]}
            started = await self._client.request("workspace/executeCommand", params)
            self._job = started["job"]
            await self._client.until(self._over, 900)
            self._client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    def _over(self) -> bool:
        return any(v["kind"] == "end" for v in self._client.progress[self._job])

    def _reports(self) -> bool:
        return any(v["kind"] == "report" for v in self._client.progress[self._job])

    async def runs(self) -> None:
        """Wait until it evaluates candidates."""
        await self._client.until(lambda: self._job and self._reports(), 120)

    async def cancel(self) -> tuple[float, float]:
        """Times from a cancel to its acknowledgement and to the end of all processes, in ms."""
        self._task.cancel()
        pid = self._client.process.pid
        family = {p.pid for p in descendants(pid)} - self._others
        begun = time.perf_counter()
        self._client.notify("window/workDoneProgress/cancel", {"token": self._job})
        await self._client.until(self._over, 30)
        acknowledged = since(begun)
        while living(family):  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0.002)
        return acknowledged, since(begun)


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


def summary(values: list[float]) -> dict[str, float]:
    return {
        "p50": statistics.median(values),
        "p95": percentile(values, 0.95),
        "max": max(values),
        "count": len(values),
    }


def merged(found: dict[Path, Times]) -> Times:
    together: Times = defaultdict(list)
    for times in found.values():
        for name, values in times.items():
            together[name] += values
    return together


def row(name: str, alone: list[float], busy: list[float]) -> dict[str, Any]:
    """One line of the table: figures, budget, and what the background run changes."""
    line: dict[str, Any] = {"name": name, **summary(alone or busy)}
    limit = BUDGETS.get(name)
    if limit is not None:
        line |= {"budget": limit, "met": line["p95"] <= limit}
    if alone and busy:
        line |= {"busy": summary(busy), "ratio": percentile(busy, 0.95) / line["p95"]}
        unnoticed = line["busy"]["p95"] < UNNOTICED
        line["ratio_met"] = unnoticed or line["ratio"] < MOST_BY_BACKGROUND
    return line


def show(rows: list[dict[str, Any]]) -> None:
    print(f"{'ms':28}{'p50':>9}{'p95':>9}{'max':>9}{'budget':>9}{'':9}", end="")
    print(f"{'busy p50':>9}{'p95':>9}{'max':>9}{'ratio':>8}")
    for line in rows:
        verdict = {True: "met", False: "MISSED", None: ""}[line.get("met")]
        budget = f"{line['budget']:9.0f}" if "budget" in line else " " * 9
        figures = f"{line['p50']:9.1f}{line['p95']:9.1f}{line['max']:9.1f}"
        text = f"{line['name']:28}{figures}{budget}  {verdict:7}"
        if busy := line.get("busy"):
            over = "" if line["ratio_met"] else "  TOO MUCH"
            text += f"{busy['p50']:9.1f}{busy['p95']:9.1f}{busy['max']:9.1f}"
            text += f"{line['ratio']:8.2f}{over}"
        print(text)


def show_markdown(rows: list[dict[str, Any]]) -> None:
    """The same as a table for docs/editors.md."""
    print("| ms | p50 | p95 | max | budget | p95 beside an optimization |")
    print("|---|---|---|---|---|---|")
    for line in rows:
        budget = f"{line['budget']:.0f}" if "budget" in line else ""
        busy = f"{line['busy']['p95']:.1f}" if line.get("busy") else ""
        figures = " | ".join(f"{line[name]:.1f}" for name in ("p50", "p95", "max"))
        print(f"| {line['name']} | {figures} | {budget} | {busy} |")


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--files", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--starts", type=int, default=10, help="starts and cancels that are timed")
    parser.add_argument("--no-background", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", action="store_true", help="print a table for the docs")
    options = parser.parse_args()
    files = largest(options.checkout, options.files)
    with tempfile.TemporaryDirectory() as scratch:
        environment = {**os.environ, "ACCELOPT_DATA_DIR": f"{scratch}/data"}
        starts: list[float] = []
        for _ in range(options.starts):
            client, took = await started(environment)
            starts.append(took)
            await client.close()
        client, _ = await started(environment)
        await settled(client)
        alone = await measure(client, files, options.rounds)
        busy: dict[Path, Times] = {}
        cancels: Times = defaultdict(list)
        if not options.no_background:
            background = Background(client, Path(scratch))
            await background.runs()
            busy = await measure(client, files, options.rounds)
            for number in range(options.starts):
                acknowledged, gone = await background.cancel()
                cancels["cancel"].append(acknowledged)
                cancels["gone"].append(gone)
                if number + 1 < options.starts:
                    background = Background(client, Path(scratch))
                    await background.runs()
        await client.close()
    together, beside = merged(alone), merged(busy)
    rows = [row("initialize", starts, [])]
    rows += [row(name, values, beside.get(name, [])) for name, values in together.items()]
    rows += [row(name, values, []) for name, values in cancels.items()]
    (show_markdown if options.markdown else show)(rows)
    for path, times in alone.items():
        full = summary(times["full diagnostics"])
        print(f"{path.name}: full diagnostics p50 {full['p50']:.0f}, p95 {full['p95']:.0f} ms")
    if options.json is not None:
        by_file = {
            str(path.relative_to(options.checkout)): {n: summary(v) for n, v in times.items()}
            for path, times in alone.items()
        }
        options.json.write_text(json.dumps({"rows": rows, "files": by_file}, indent=1), "utf-8")
    missed = [r["name"] for r in rows if r.get("met") is False or r.get("ratio_met") is False]
    if missed:
        print(f"missed: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
