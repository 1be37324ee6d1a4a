"""Kills, and crowds: does a run survive the one, and the optimization memory the other?

    durability.py [--kills N] [--operations N] [--kernel FILE] [--seed S]

``--kills``: ``accelopt optimize`` of a real kernel is killed (signal 9) at so many random moments
and resumed each time. Each time the run store must pass SQLite's integrity check, no evaluation
that had finished may be missing or have been done again, and the final beam and the resulting
kernel must equal those of the uninterrupted run.

``--operations``: three processes (two editors and a terminal) read and write one optimization
memory at once, so many operations in all. None may fail, and no experience may be lost or counted
twice.

Exit status 1 if anything of that does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SEARCH = ("--iterations", "2", "--plans", "3", "--beam", "2", "--no-cache", "--no-memory", "--json")
PROCESSES = 3

CROWD = """
import random, sys
from accelopt_lsp.agents.memory import OptimizationMemory
from accelopt_lsp.agents.roles import Experience, Tags

number, operations = int(sys.argv[1]), int(sys.argv[2])
choose = random.Random(number)
memory = OptimizationMemory()
tags = Tags(("dma_copy",), "dma", "nest1", "bf16", "current", "trn2")
words = "tile load store transpose hoist widen fuse engine partition free axis block".split()
added = 0
for step in range(operations):
    kind = choose.random()
    if kind < 0.3:
        title = f"{number} {step} " + " ".join(choose.choices(words, k=6))
        memory.add(Experience(f"p{number}-{step}", title, title, "", "", 1.5, True, tags))
        added += 1
    elif kind < 0.5:
        memory.record_use(["shared"], won=True)
    elif kind < 0.8:
        memory.retrieve(tags, 8, " ".join(choose.choices(words, k=3)))
    else:
        memory.list(20)
memory.close()
print(added)
"""


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "accelopt_lsp", *map(str, arguments)]


def optimize(kernel: Path, folder: Path, *more: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "ACCELOPT_DATA_DIR": str(folder)}
    return subprocess.Popen(
        command("optimize", kernel, "--arg", "x=bf16[512,1024]", *SEARCH, *more),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )


def runs(folder: Path) -> list[dict[str, Any]]:
    """All runs of a store, straight from the file."""
    with sqlite3.connect(folder / "runs.sqlite3") as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute("SELECT * FROM runs ORDER BY created")]


def rows(folder: Path, table: str, run: str) -> list[dict[str, Any]]:
    with sqlite3.connect(folder / "runs.sqlite3") as connection:
        connection.row_factory = sqlite3.Row
        found = connection.execute(f"SELECT * FROM {table} WHERE run = ?", (run,))
        return [{k: row[k] for k in row.keys() if k != "run"} for row in found]  # noqa: SIM118


def intact(file: Path) -> bool:
    with sqlite3.connect(file) as connection:
        return connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def beam(folder: Path, run: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in rows(folder, "beams", run))


def killing(kernel: Path, kills: int, choose: random.Random) -> list[str]:
    """What went wrong in so many killed and resumed runs."""
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        begun = time.monotonic()
        result = json.loads(optimize(kernel, folder).communicate()[0])
        seconds = time.monotonic() - begun
        expected = beam(folder, result["run"])
        print(f"uninterrupted: {seconds:.1f} s, {result['evaluations']} evaluations", flush=True)
        at_work = 0
        for number in range(1, kills + 1):
            process = optimize(kernel, folder)
            time.sleep(seconds * choose.uniform(0.05, 1.0))
            process.send_signal(signal.SIGKILL)
            process.wait()
            if not intact(folder / "runs.sqlite3"):
                problems.append(f"kill {number}: the run store is damaged")
            newest = runs(folder)[-1]
            if newest["status"] != "running":
                continue
            at_work += 1
            before = {row["key"]: row for row in rows(folder, "evaluations", newest["id"])}
            again = json.loads(optimize(kernel, folder, "--resume", newest["id"]).communicate()[0])
            after = {row["key"]: row for row in rows(folder, "evaluations", newest["id"])}
            if any(after.get(key) != row for key, row in before.items()):
                problems.append(f"kill {number}: a finished evaluation was lost or repeated")
            if beam(folder, newest["id"]) != expected or again["diff"] != result["diff"]:
                problems.append(f"kill {number}: the result is another one")
            if number % 10 == 0:
                print(f"{number} kills, {at_work} of them in a run", file=sys.stderr, flush=True)
        print(f"{kills} kills, {at_work} while a run was recorded: {len(problems)} problem(s)")
        if kills and not at_work:
            problems.append("no kill hit a run; take a slower kernel")
    return problems


def crowding(operations: int) -> list[str]:
    """What went wrong when several processes used one memory."""
    from accelopt_lsp.agents.memory import OptimizationMemory
    from accelopt_lsp.agents.roles import Experience

    problems: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "memory.sqlite3"
        memory = OptimizationMemory(file)
        memory.add(Experience("shared", "shared", "shared by all", "", "", 2.0, True))
        environment = {**os.environ, "ACCELOPT_DATA_DIR": scratch}
        share = -(-operations // PROCESSES)
        begun = time.monotonic()
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", CROWD, str(number), str(share)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
            )
            for number in range(PROCESSES)
        ]
        added = 0
        for process in processes:
            out, err = process.communicate()
            if process.returncode:
                problems.append(f"a process failed: {err.strip().splitlines()[-1]}")
            else:
                added += int(out)
        seconds = time.monotonic() - begun
        kept = len(memory) - 1
        if kept != added:
            problems.append(f"{added} experiences were added, {kept} are there")
        wins = memory.get("shared").wins
        expected = sum(uses(number, share) for number in range(PROCESSES))
        if wins != expected:
            problems.append(f"{expected} wins were counted, {wins} are there")
        memory.close()
        if not intact(file):
            problems.append("the memory is damaged")
        print(
            f"{share * PROCESSES} operations in {PROCESSES} processes: {seconds:.1f} s, {added} "
            f"experiences, {expected} wins of one: {len(problems)} problem(s)"
        )
    return problems


def uses(number: int, operations: int) -> int:
    """How often a process of the crowd records a win: it repeats its random choices."""
    choose = random.Random(number)
    count = 0
    for _ in range(operations):
        kind = choose.random()
        if kind < 0.3:
            choose.choices(range(12), k=6)
        elif kind < 0.5:
            count += 1
        elif kind < 0.8:
            choose.choices(range(12), k=3)
    return count


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--operations", type=int, default=10_000)
    parser.add_argument("--kernel", type=Path, default=EXAMPLES / "current" / "softmax.py")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    problems = crowding(options.operations) if options.operations else []
    if options.kills:
        problems += killing(options.kernel, options.kills, random.Random(options.seed))
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
