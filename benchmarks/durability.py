"""Kills, and crowds: does a run survive the one, and the optimization memory the other?

    durability.py [--kills N] [--operations N] [--agents offline,llm] [--kernel FILE] [--seed S]

``--kills``: an optimization of a real kernel is killed (signal 9) so many times and resumed each
time, once with the offline roles and once with a scripted model behind a real HTTP server. Kills
come at random moments, at random statements inside the transactions of run store and memory
(creation of the tables and commits included), and before and after a lesson is summarized. Each
kernel version is simulated once; later runs are given the simulator's outcome after a random
delay, and replies come after random delays, so that evaluations never finish in the same order.
Each time

- run store and memory must pass SQLite's integrity check,
- no evaluation that had finished may be missing or have been done again,
- no request whose reply was recorded may have been sent again,
- plans, attempts, beams, lessons, the resulting kernel, and the memory with its wins and losses
  must equal those of an uninterrupted run.

``--operations``: three processes (two editors and a terminal) read and write one optimization
memory at once, so many operations in all. None may fail, and no experience may be lost or counted
twice.

Exit status 1 if anything of that does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import pickle
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import define, evolve, frozen

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from accelopt_lsp.agents import database, offline  # noqa: E402
from accelopt_lsp.agents.llm import agents as llm_agents  # noqa: E402
from accelopt_lsp.agents.settings import SearchSettings  # noqa: E402
from accelopt_lsp.nki.arguments import parse_spec  # noqa: E402
from accelopt_lsp.profiler.base import Job, Outcome, Profiler, Progress  # noqa: E402
from accelopt_lsp.workbench.optimize import OptimizeRequest, optimize_kernel  # noqa: E402
from accelopt_lsp.workbench.profile import get_profiler  # noqa: E402
from accelopt_lsp.workbench.requests import KernelRequest  # noqa: E402

EXAMPLES = ROOT / "examples"
SEARCH = SearchSettings(beam=2, plans=3, iterations=2, budget_seconds=None)
PROCESSES = 3
LONGEST_DELAY = 0.1
TRIES = 6
LATE = "after the run"
PROBED = ("offline", "llm")

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


# -- one run, in a process that may be killed ------------------------------------------


@define
class Remembered:
    """The simulator, asked once for each kernel version by all runs together.

    Attributes:
        folder: where outcomes are kept.
    """

    profiler: Profiler
    folder: Path
    delays: random.Random
    name: str = "simulator"

    async def profile(self, job: Job, progress: Progress | None = None) -> Outcome:
        asked = f"{job.source}\0{job.seeds}\0{job.what_ifs}"
        file = self.folder / hashlib.sha256(asked.encode()).hexdigest()
        if not file.exists():
            outcome = await self.profiler.profile(job)
            half = file.with_suffix(f".{os.getpid()}")
            half.write_bytes(pickle.dumps(outcome))
            half.replace(file)
        found: Outcome = pickle.loads(file.read_bytes())
        await asyncio.sleep(self.delays.uniform(0.0, LONGEST_DELAY))
        return found


@frozen
class Kill:
    """When a process kills itself.

    Attributes:
        kind: ``moment`` (the parent does it), ``statement`` (of SQL), ``summarizer``.
        when: seconds, or the number of the statement or lesson.
    """

    kind: str = "never"
    when: float = 0.0


@define
class Counts:
    """How often a process came past the places where it could be killed."""

    kill: Kill
    statement: int = 0
    summarizer: int = 0

    def pass_by(self, kind: str) -> None:
        count = getattr(self, kind) + 1
        setattr(self, kind, count)
        if self.kill.kind == kind and count == self.kill.when:
            os.kill(os.getpid(), signal.SIGKILL)


def watch(counts: Counts) -> None:
    """Count statements that write, and both ends of every summary."""
    connect = database.Database._connect

    def traced(self: database.Database) -> sqlite3.Connection:
        connection = connect(self)
        connection.set_trace_callback(note)
        return connection

    def note(statement: str) -> None:
        if statement.lstrip().upper().startswith(WRITING):
            counts.pass_by("statement")

    migrate = database.Database._migrate

    def traced_migration(self: database.Database, connection: sqlite3.Connection) -> None:
        connection.set_trace_callback(note)
        migrate(self, connection)

    database.Database._connect = traced  # type: ignore[method-assign]
    database.Database._migrate = traced_migration  # type: ignore[method-assign]
    for role in (offline.OfflineAgent, llm_agents.LlmSummarizer):
        summarize = role.summarize

        async def counted(self: Any, *given: Any, ask: Any = summarize, **named: Any) -> Any:
            counts.pass_by("summarizer")
            found = await ask(self, *given, **named)
            counts.pass_by("summarizer")
            return found

        role.summarize = counted  # type: ignore[method-assign]


WRITING = ("BEGIN", "INSERT", "UPDATE", "DELETE", "COMMIT", "CREATE", "ALTER", "DROP", "PRAGMA U")


def optimize(
    task: Task, folder: Path, kill: Kill, resume: str | None, told: Path | None = None
) -> None:
    """Run in this process; what came of it is left in ``told``."""
    counts = Counts(kill)
    watch(counts)
    request = OptimizeRequest(
        KernelRequest(task.kernel, arguments={"x": parse_spec("bf16[512,1024]")}),
        SEARCH,
        agents=task.agents,
        llm={"base_url": task.url, "model": "m"} if task.url else {},
        data_dir=folder,
        resume=resume,
    )
    profiler = Remembered(
        get_profiler("simulator", use_cache=False), task.outcomes, random.Random()
    )
    begun = time.monotonic()
    report = asyncio.run(optimize_kernel(request, profiler=profiler))
    if told is not None:
        data = {
            "seconds": time.monotonic() - begun,
            "evaluations": report.evaluations,
            "speedup": report.speedup,
            "text": report.new_text,
            "tokens": report.usage.tokens,
            "notes": report.notes,
            "statement": counts.statement,
            "summarizer": counts.summarizer,
        }
        told.write_text(json.dumps(data), "utf-8")


@frozen
class Task:
    """What is optimized, and by whom.

    Attributes:
        url: of the scripted model; empty for the offline roles.
        outcomes: folder of the simulator's outcomes.
        asked: file to which the scripted model's server writes what it is asked.
    """

    kernel: Path
    agents: str
    outcomes: Path
    url: str = ""
    asked: Path | None = None

    def start(
        self, folder: Path, kill: Kill, resume: str | None = None, told: Path | None = None
    ) -> int:
        """A new process at work; gives its number."""
        number = os.fork()
        if number:
            return number
        status = 1
        try:
            optimize(self, folder, kill, resume, told)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def finish(self, folder: Path, resume: str | None = None) -> dict[str, Any]:
        """A process that is not killed; gives what came of it."""
        told = folder / "told.json"
        _, status = os.waitpid(self.start(folder, Kill(), resume, told), 0)
        if status:
            return {"failed": status}
        found: dict[str, Any] = json.loads(told.read_text("utf-8"))
        return found

    def requests(self) -> Counter[str]:
        """How often the scripted model was asked what."""
        if self.asked is None or not self.asked.exists():
            return Counter()
        return Counter(self.asked.read_text("utf-8").split())


# -- the scripted model ------------------------------------------------------------------


def digest(messages: Sequence[Any]) -> str:
    plain = [[m["role"], m["content"]] for m in messages]
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()[:24]


def serve(folder: Path) -> tuple[int, str, Path]:
    """A model's server in a process of its own: its number, its URL, and its log."""
    from tests.agents.fusing import fusing
    from tests.agents.llm_server import Answer, serving

    log, address = folder / "asked", folder / "address"
    number = os.fork()
    if not number:
        with log.open("a", encoding="utf-8", buffering=1) as lines:

            def mind(role: str, messages: list[dict[str, str]], request: int) -> Answer:
                lines.write(f"{digest(messages)}\n")
                said = fusing(role, messages, request)
                if role == "planner":
                    plans = json.loads(said.text)["plans"]
                    plans.append({"title": "Catalogue", "rationale": "it applies", "site": "S1"})
                    said = Answer(json.dumps({"plans": plans}))
                return Answer(said.text, wait=random.uniform(0.0, LONGEST_DELAY))

            with serving(mind) as server:
                half = address.with_suffix(".half")
                half.write_text(server.url, "utf-8")
                half.replace(address)
                signal.pause()
        os._exit(0)
    while not address.exists():
        time.sleep(0.02)
    return number, address.read_text("utf-8"), log


# -- what is left behind -----------------------------------------------------------------


def query(file: Path, text: str, *values: Any) -> list[tuple[Any, ...]]:
    """Rows of a database that may not be there yet."""
    if not file.exists():
        return []
    connection = sqlite3.connect(file)
    try:
        return connection.execute(text, values).fetchall()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return []
        raise
    finally:
        connection.close()


def story(folder: Path, run: str) -> dict[str, Any]:
    """Everything that two runs of the same kernel must have in common."""
    runs, memory = folder / "runs.sqlite3", folder / "memory.sqlite3"
    tables = {
        "plans": "SELECT iteration, candidate, position, plan FROM plans WHERE run = ?",
        "attempts": "SELECT id, parent, plan, fingerprint, verdict, latency_ms, error"
        " FROM attempts WHERE run = ?",
        "beams": "SELECT iteration, place, candidate, latency_ms FROM beams WHERE run = ?",
        "evaluations": "SELECT key, source, seeds, latency_ms FROM evaluations WHERE run = ?",
        "exchanges": "SELECT key, role, model, tokens, cost_usd FROM exchanges WHERE run = ?",
        "totals": "SELECT status, baseline_ms, best_ms, evaluations FROM runs WHERE id = ?",
        "remembered": "SELECT key, remembered FROM experiences WHERE run = ?",
    }
    found: dict[str, Any] = {
        name: sorted(query(runs, q, run), key=repr) for name, q in tables.items()
    }
    lessons = query(runs, "SELECT experience FROM experiences WHERE run = ?", run)
    found["lessons"] = sorted(timeless(text) for (text,) in lessons)
    rows = query(memory, "SELECT body, wins, losses, trusted FROM experiences")
    found["memory"] = sorted((timeless(text), *rest) for text, *rest in rows)
    return found


def timeless(text: str) -> str:
    """An experience without what names its run: ids of a model's strategies hash it as well."""
    data = json.loads(text)
    if data["origin"]["author"] != "offline":
        data["id"] = ""
    data["origin"] |= {"created": 0.0, "run": ""}
    return json.dumps(data, sort_keys=True)


def intact(folder: Path) -> bool:
    """Whether all databases of a folder pass SQLite's own check."""
    checks = [query(f, "PRAGMA integrity_check") for f in folder.glob("*.sqlite3")]
    return all(found == [("ok",)] for found in checks) and not list(folder.glob("*.corrupt-*"))


def newest(folder: Path) -> tuple[str, str] | None:
    found = query(folder / "runs.sqlite3", "SELECT id, status FROM runs ORDER BY created DESC")
    return (found[0][0], found[0][1]) if found else None


def evaluations(folder: Path, run: str) -> dict[str, tuple[Any, ...]]:
    rows = query(folder / "runs.sqlite3", "SELECT * FROM evaluations WHERE run = ?", run)
    return {row[1]: row for row in rows}


def recorded(folder: Path, run: str) -> set[str]:
    """What the model had been asked when its reply was recorded."""
    rows = query(folder / "runs.sqlite3", "SELECT exchange FROM exchanges WHERE run = ?", run)
    return {digest(json.loads(text)["messages"]) for (text,) in rows}


def killing(task: Task, kills: int, choose: random.Random) -> list[str]:
    """What went wrong in so many killed and resumed runs."""
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        whole = Path(scratch) / "whole"
        whole.mkdir()
        task.finish(whole / "first")
        expected = task.finish(whole)
        run = newest(whole)
        if "failed" in expected or run is None:
            return [f"{task.agents}: the run that nobody interrupted failed"]
        told = story(whole, run[0])
        print(
            f"{task.agents}: {expected['seconds']:.1f} s, {expected['evaluations']} evaluations, "
            f"{len(told['exchanges'])} requests, {len(told['lessons'])} lessons, "
            f"{expected['statement']} statements that write; {expected['speedup']:.3f} times "
            "as fast",
            flush=True,
        )
        hits: Counter[str] = Counter()
        kinds = ["moment", "statement", "statement", "moment", "summarizer"]
        for number in range(1, kills + 1):
            kind = kinds[number % len(kinds)]
            if kind == "moment":
                kill = Kill(kind, expected["seconds"] * choose.uniform(0.0, 1.0))
            else:
                kill = Kill(kind, choose.randint(1, max(1, expected[kind])))
            for turn in range(TRIES):
                name = f"{task.agents}, kill {number} ({kill.kind} {kill.when:.3g})"
                folder = Path(scratch) / f"{number}-{turn}"
                folder.mkdir()
                found, hit = one_kill(task, folder, kill, expected, told)
                if hit != LATE:
                    break
                # Another run was faster than the one whose time was taken.
                kill = evolve(kill, when=kill.when / 2)
            hits[hit] += 1
            problems += [f"{name}: {problem}" for problem in found]
            if number % 10 == 0:
                print(f"  {number} kills: {dict(hits)}", file=sys.stderr, flush=True)
        print(f"{task.agents}: {kills} kills {dict(hits)}: {len(problems)} problem(s)", flush=True)
        if kills and not hits["in a run"]:
            problems.append("no kill hit a run")
    return problems


def one_kill(
    task: Task, folder: Path, kill: Kill, expected: dict[str, Any], told: dict[str, Any]
) -> tuple[list[str], str]:
    """What went wrong in one killed and resumed run, and what the kill hit."""
    process = task.start(folder, kill)
    if kill.kind == "moment":
        time.sleep(kill.when)
        os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    if not intact(folder):
        return ["a database is damaged"], "damage"
    run = newest(folder)
    if run is not None and run[1] != "running":
        return [], LATE
    name = run[0] if run is not None else None
    before = evaluations(folder, name) if name else {}
    paid = recorded(folder, name) if name else set()
    asked = task.requests()
    again = task.finish(folder, name)
    if "failed" in again:
        return ["the resumed run failed"], "in a run"
    problems = []
    run = newest(folder)
    assert run is not None
    after = evaluations(folder, run[0])
    if any(after.get(key) != row for key, row in before.items()):
        problems.append("a finished evaluation was lost or repeated")
    twice = [key for key, count in task.requests().items() if key in paid and count > asked[key]]
    if twice:
        problems.append(f"{len(twice)} recorded replies were paid for again")
    for part, value in story(folder, run[0]).items():
        if value != told[part]:
            problems.append(f"{part} differ: {difference(value, told[part])}")
    for part in ("text", "tokens", "evaluations"):
        if again[part] != expected[part]:
            problems.append(f"{part} differ")
    if not intact(folder):
        problems.append("a database is damaged")
    return problems, "in a run" if name else "before the run was recorded"


def difference(found: Sequence[Any], expected: Sequence[Any]) -> str:
    only = [item for item in found if item not in expected][:1]
    lacking = [item for item in expected if item not in found][:1]
    return f"{only} in place of {lacking}"[:600]


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
    parser.add_argument("--agents", default=",".join(PROBED))
    parser.add_argument("--kernel", type=Path, default=EXAMPLES / "current" / "softmax.py")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    problems = crowding(options.operations) if options.operations else []
    for agents in options.agents.split(",") if options.kills else ():
        with tempfile.TemporaryDirectory() as scratch:
            outcomes = Path(scratch)
            task = Task(options.kernel, agents, outcomes)
            server = None
            if agents == "llm":
                server, url, log = serve(outcomes)
                task = Task(options.kernel, agents, outcomes, url, log)
            try:
                problems += killing(task, options.kills, random.Random(options.seed))
            finally:
                if server is not None:
                    os.kill(server, signal.SIGKILL)
                    os.waitpid(server, 0)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
