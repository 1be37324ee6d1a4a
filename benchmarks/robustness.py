"""Whether any text goes through analysis without an exception, and within bounds.

    robustness.py [--mutants N] [--stdlib] [--seed S] [--seconds LIMIT] [--keep FOLDER]

``--mutants`` takes kernels of the project's tests and examples and changes them: bytes are flipped,
inserted and dropped, pieces are moved, doubled and exchanged between kernels, names and numbers
are replaced by awkward ones, lines are indented, cut and joined. ``--stdlib`` takes every file of
the Python that runs this, its tests included, once as it is and once made to look like kernels.
Each text is analyzed in both tiers. Anything but a result is a failure, as is a defect that a
result reports of itself; so is a text that takes longer than the limit (2 s of CPU time, on a
machine that needs 10 ms for ``unit``; a slower one gets as much more).

Failing texts are written to the folder ``--keep``, the longest ones to its ``slow``.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import sysconfig
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from analysis_speed import unit
from attrs import frozen

from accelopt_lsp.analysis import analyze, analyze_syntax
from accelopt_lsp.analysis.caches import settle_collector
from accelopt_lsp.analysis.syntax import Document

ROOT = Path(__file__).resolve().parent.parent
SEEDS = ("tests/analysis/kernels/*.py", "tests/analysis/cases/*.py", "examples/**/*.py")
SECONDS = 2.0
UNIT_MS = 10.0
_NUMBERS = ("0", "-1", "10**12", "1 << 4000", "1e308", "128", "0.5", "2**31", "None", "10**400")
_NAMES = ("nl", "nisa", "x", "range", "self", "kernel", "nl.affine_range", "__class__", "\u03c0")
_PIECES = (
    "\0", "\r", "\f", "\t", "\ufeff", "\udcff", "\u2028", "'''", "{", ")", ":", "\\\n", "f'{",
    "while True: pass\n", "kernel(kernel)", "[[[[", "lambda: ", "@", "*", "async ", "yield ",
    "for i in range(10**12):\n", "if i % 7 == 3:\n", "x[...]", "# accelopt: x=f32[10**9,1]\n",
    "# accelopt: x=f32[99999999999,99999999999]\n", "global x\n", "del x\n", " if x else ",
)  # fmt: skip


@frozen(slots=True)
class Outcome:
    """What came of one text: CPU seconds, and what went wrong."""

    seconds: float
    problem: str = ""


class Defects(logging.Handler):
    """Keeps what analysis says of its own defects."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        trace = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else ""
        self.found.append(f"{record.getMessage()}\n{trace[-1500:]}")


_DEFECTS = Defects()


def run(text: str) -> Outcome:
    """Both tiers of one text."""
    _DEFECTS.found.clear()
    start = time.process_time()
    try:
        document = Document.parse(text)
        analyze_syntax(document)
        analyze(document)
    except BaseException:
        return Outcome(time.process_time() - start, traceback.format_exc(limit=-6))
    seconds = time.process_time() - start
    if _DEFECTS.found:
        return Outcome(seconds, _DEFECTS.found[0])
    return Outcome(seconds)


def seeds() -> list[str]:
    """Kernels to change."""
    paths = [p for pattern in SEEDS for p in sorted(ROOT.glob(pattern))]
    return [p.read_text("utf-8") for p in paths]


Mutation = Callable[[str, random.Random, list[str]], str]


def _bytes(text: str, rng: random.Random, _: list[str]) -> str:
    data = bytearray(text.encode("utf-8", "surrogatepass"))
    for _ in range(rng.randint(1, 8)):
        place = rng.randrange(len(data) or 1)
        kind = rng.random()
        if kind < 0.4 and data:
            data[place] ^= 1 << rng.randrange(8)
        elif kind < 0.7:
            data.insert(place, rng.randrange(256))
        elif data:
            del data[place : place + rng.randint(1, 20)]
    return data.decode("utf-8", "surrogateescape")


def _splice(text: str, rng: random.Random, others: list[str]) -> str:
    other = rng.choice(others)
    start, end = sorted(rng.randrange(len(other) + 1) for _ in range(2))
    place = rng.randrange(len(text) + 1)
    return text[:place] + other[start : min(end, start + 2000)] + text[place:]


def _lines(text: str, rng: random.Random, _: list[str]) -> str:
    lines = text.split("\n")
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(lines))
        kind = rng.randrange(5)
        if kind == 0:
            lines[place] = " " * rng.randint(1, 8) + lines[place]
        elif kind == 1:
            lines[place] = lines[place].strip()
        elif kind == 2:
            lines.insert(rng.randrange(len(lines)), lines[place])
        elif kind == 3:
            lines[place] = lines[place][: rng.randrange(len(lines[place]) + 1)]
        else:
            del lines[place : place + rng.randint(1, 3)]
            lines = lines or [""]
    return rng.choice(("\n", "\n", "\n", "\r\n", "\r")).join(lines)


def _words(text: str, rng: random.Random, _: list[str]) -> str:
    import re

    found = [m.span() for m in re.finditer(r"\b\w+\b", text)]
    for start, end in sorted(rng.sample(found, min(len(found), rng.randint(1, 4))), reverse=True):
        word = text[start:end]
        new = rng.choice(_NUMBERS if word[:1].isdigit() or rng.random() < 0.2 else _NAMES)
        text = text[:start] + new + text[end:]
    return text


def _insert(text: str, rng: random.Random, _: list[str]) -> str:
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(len(text) + 1)
        text = text[:place] + rng.choice(_PIECES) * rng.choice((1, 1, 1, 40)) + text[place:]
    return text


MUTATIONS: tuple[Mutation, ...] = (_bytes, _splice, _lines, _words, _insert)


def mutant(number: int, seed: int, texts: list[str]) -> str:
    """The same text for the same numbers, always."""
    rng = random.Random(f"{seed}/{number}")
    text = rng.choice(texts)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        text = rng.choice(MUTATIONS)(text, rng, texts)
    return text


def library_texts() -> Iterator[tuple[str, str]]:
    """Files of Python's own library, as they are and as kernels."""
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        if "site-packages" in path.parts:
            continue
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        name = path.relative_to(root).as_posix()
        yield name, text
        head = "import nki\nimport nki.language as nl\nimport nki.isa as nisa\n"
        yield f"{name} (as kernels)", head + text.replace("\ndef ", "\n@nki.jit\ndef ")


def batches(options: argparse.Namespace) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Named texts, some hundred at a time."""
    texts = seeds()
    size = 100
    for start in range(0, options.mutants, size):
        numbers = range(start, min(start + size, options.mutants))
        yield "mutants", [(str(n), mutant(n, options.seed, texts)) for n in numbers]
    if options.stdlib:
        batch: list[tuple[str, str]] = []
        for entry in library_texts():
            batch.append(entry)
            if len(batch) == size:
                yield "library", batch
                batch = []
        yield "library", batch


def run_batch(batch: list[tuple[str, str]]) -> list[tuple[str, str, Outcome]]:
    """Outcomes; the text only of what may be of interest."""
    logger = logging.getLogger("accelopt_lsp")
    logger.propagate = False
    logger.handlers = [_DEFECTS]
    outcomes = []
    for name, text in batch:
        outcome = run(text)
        keep = outcome.problem or outcome.seconds > SECONDS / 4
        outcomes.append((name, text if keep else "", outcome))
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=int, default=0)
    parser.add_argument("--stdlib", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    limit = options.seconds * max(1.0, min(unit() for _ in range(5)) / UNIT_MS)
    failures: list[str] = []
    times: dict[str, list[float]] = {}
    longest: list[tuple[float, str]] = []
    with ProcessPoolExecutor(options.jobs, initializer=settle_collector) as pool:
        running = [(kind, pool.submit(run_batch, batch)) for kind, batch in batches(options)]
        for kind, future in running:
            for name, text, outcome in future.result():
                times.setdefault(kind, []).append(outcome.seconds)
                longest = sorted([*longest, (outcome.seconds, f"{kind} {name}")])[-5:]
                if not outcome.problem and outcome.seconds <= limit:
                    continue
                problem = outcome.problem or f"took {outcome.seconds:.1f} s"
                failures.append(f"{kind} {name}: {problem}")
                print(failures[-1], flush=True)
                if options.keep is not None:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    place = options.keep / f"{kind}-{name.replace('/', '-')}.txt"
                    place.write_text(text, "utf-8", errors="surrogateescape")
    for kind, values in times.items():
        values.sort()
        p99 = values[int(len(values) * 0.99)]
        print(f"{kind}: {len(values)} texts, p99 {p99:.3f} s, longest {values[-1]:.2f} s")
    for seconds, name in reversed(longest):
        print(f"  {seconds:.2f} s  {name}")
    print(f"{len(failures)} failures; limit {limit:.1f} s")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
