"""How long the optimization memory takes to answer and to learn, by its size.

    memory_speed.py [--sizes N,N] [--against CHECKOUT] [--seed S]

A memory is filled with experiences of a made-up history: many kernels, each with a handful of
instructions, most strategies worded freely (sentences of ``docs/``, lines of ``examples/``) and
some of the catalogue's. Then it is asked for
what fits a situation (as a hover does, without words, and as a run does, with a kernel's text), is
searched, and learns more: something new, something that it has, a win. Times are CPU time in
milliseconds, the median of several.

``--against`` measures another checkout's package with the same history, and prints ratios and how
many of the retrieved experiences are the same.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

REPEATS = 9
INSTRUCTIONS = """activation activation_reduce dma_copy iota matmul_moving memset nc_matmul
nc_transpose range_select reciprocal select_reduce tensor_copy tensor_partition_reduce
tensor_reduce tensor_scalar tensor_tensor tensor_tensor_scan transpose""".split()
REWRITES = "block-matmul hoist-load hoist-transpose widen-tile fuse-instructions".split()
ROOT = Path(__file__).resolve().parents[1]
KERNEL = """def kernel(x, y):
    tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[0:128, 0:512])
    nisa.nc_matmul(dst=psum, stationary=weights, moving=tile)
    nisa.tensor_copy(dst=tile, src=psum)
    nisa.activation_reduce(dst=exponent, op=nl.exp, data=tile, bias=maximum)
"""


def history(size: int, seed: int) -> list[Any]:
    """So many experiences, all of them different."""
    from accelopt_lsp.agents.roles import Experience, Origin, Tags

    choose = random.Random(seed)
    sentences = _sentences()
    lines = _lines()
    kernels = [
        Tags(
            tuple(sorted(choose.sample(INSTRUCTIONS, choose.randint(3, 9)))),
            choose.choice(["dma", "tensor", "vector", "scalar", "latency"]),
            f"nest{choose.randint(0, 4)}",
            choose.choice(["f32", "bf16"]),
            choose.choice(["legacy", "current"]),
            choose.choice(["trn1", "trn2"]),
        )
        for _ in range(max(1, size // 20))
    ]
    found = []
    for number in range(size):
        tags = choose.choice(kernels)
        text = " ".join(choose.choices(sentences, k=3))
        found.append(
            Experience(
                f"e{number:06}",
                " ".join(choose.choice(sentences).split()[:6]),
                f"{text} {number}",
                "\n".join(choose.choices(lines, k=6)),
                "\n".join(choose.choices(lines, k=6)),
                1.0 + choose.random(),
                choose.random() < 0.8,
                tags,
                Origin(run=f"r{number // 8}", created=1e9 + number),
                rewrite=f"{choose.choice(REWRITES)}-{number}" if choose.random() < 0.2 else None,
                wins=choose.randint(0, 5),
                losses=choose.randint(0, 5),
            )
        )
    return found


def _sentences() -> list[str]:
    """Sentences of the documentation."""
    text = " ".join(p.read_text("utf-8") for p in sorted((ROOT / "docs").glob("*.md")))
    found = (" ".join(part.split()) for part in re.split(r"[.|#]", text))
    return [part for part in found if 30 < len(part) < 300]


def _lines() -> list[str]:
    """Lines of kernels."""
    files = sorted((ROOT / "examples").rglob("*.py"))
    found = (line.strip() for p in files for line in p.read_text("utf-8").splitlines())
    return [line for line in found if len(line) > 20]


def median_ms(work: Callable[[int], Any]) -> float:
    times = []
    for turn in range(REPEATS):
        begun = time.process_time()
        work(turn)
        times.append(1e3 * (time.process_time() - begun))
    return statistics.median(times)


def measure(size: int, seed: int) -> dict[str, Any]:
    """Times, and ids of what was retrieved."""
    from attrs import evolve

    from accelopt_lsp.agents.memory import OptimizationMemory

    experiences = history(size, seed)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "memory.sqlite3"
        memory = OptimizationMemory(path)
        write = memory._database.write
        begun = time.process_time()
        with write() as connection:
            for experience in experiences:
                memory._write(connection, experience)
        filled = time.process_time() - begun
        wants = [e.tags for e in experiences[:REPEATS]]
        memory.retrieve(wants[0], 3)
        new = history(size + 2 * REPEATS, seed + 1)[-REPEATS:]
        times = {
            "retrieve, as a hover does": median_ms(lambda n: memory.retrieve(wants[n], 3)),
            "retrieve, as a run does": median_ms(lambda n: memory.retrieve(wants[n], 16, KERNEL)),
            "search": median_ms(lambda n: memory.search("hoist transpose", 20)),
            "learn what is new": median_ms(lambda n: memory.add(evolve(new[n], id=f"n{n}"))),
            "learn what is known": median_ms(
                lambda n: memory.add(evolve(experiences[-1 - n], id=f"k{n}"))
            ),
            "count a win": median_ms(lambda n: memory.record_use([experiences[n].id], won=True)),
        }
        found = {
            kind: [[e.id for e in memory.retrieve(want, 16, text)] for want in wants]
            for kind, text in (("structure", ""), ("structure and words", KERNEL))
        }
        memory.close()

        def open_and_ask(turn: int) -> None:
            opened = OptimizationMemory(path)
            opened.retrieve(wants[turn], 3)
            opened.close()

        times["open, retrieve, close"] = median_ms(open_and_ask)
    return {"times": times, "found": found, "fill": filled}


def alike(first: list[list[str]], second: list[list[str]]) -> float:
    """Share of what one found that the other found as well."""
    both = [len(set(a) & set(b)) / max(1, len(a)) for a, b in zip(first, second, strict=True)]
    return statistics.mean(both)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="1000,10000")
    parser.add_argument("--against", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="Print the measurements only.")
    options = parser.parse_args(arguments)
    for size in map(int, options.sizes.split(",")):
        here = measure(size, options.seed)
        if options.json:
            print(json.dumps(here))
            continue
        there = None
        if options.against is not None:
            command = [sys.executable, __file__, "--json", "--sizes", str(size)]
            done = subprocess.run(
                [*command, "--seed", str(options.seed)],
                capture_output=True,
                check=True,
                env={"PYTHONPATH": str(options.against)},
            )
            there = json.loads(done.stdout)
        print(f"{size} experiences")
        for name, ms in here["times"].items():
            ratio = f"  {there['times'][name] / ms:8.1f} times as fast" if there else ""
            print(f"  {name:28} {ms:9.2f} ms{ratio}")
        if there:
            for kind, found in here["found"].items():
                print(f"  the same by {kind}: {alike(found, there['found'][kind]):.0%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
