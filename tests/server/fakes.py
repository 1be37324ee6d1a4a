"""Children with predictable answers, and a server that uses them.

``python fakes.py serve`` speaks LSP on stdio. Its worker finds kernels by ``@nki.jit``, takes
``DEFECT`` for an error and obeys ``# slow`` and ``# crash``; its jobs act by the kernel's name.
With ``analyse`` in place of ``serve`` the worker is the real one.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from attrs import evolve

from accelopt_lsp.nki.arguments import KernelArguments
from accelopt_lsp.nki.diagnostics import Diagnostic, Fix, Position, Related, Severity, Span
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.dtypes import BFLOAT16
from accelopt_lsp.nki.operands import Buffer, OperandType
from accelopt_lsp.nki.profile import Bound, Issued, Profile, Provenance, Uncertainty
from accelopt_lsp.nki.workload import AllocationWork, LineWork, LoopWork, Workload
from accelopt_lsp.server import job_process, worker, worker_edits
from accelopt_lsp.server.snapshot import (
    HintView,
    KernelView,
    Learned,
    Outcome,
    Problem,
    Request,
    Snapshot,
)

WORKER = (sys.executable, __file__, "worker")
LEARNED = Learned("e1", "Hoist the load", True, 1.5, "simulated", 2, 1)
JOB = (sys.executable, __file__, "job")


def profile(latency_ms: float = 2.0, *, provenance: Provenance = Provenance.ESTIMATED) -> Profile:
    return Profile(
        kernel="fast",
        target="trn2",
        backend="static",
        provenance=provenance,
        latency_ms=latency_ms,
        uncertainty=Uncertainty(0.9 * latency_ms, 1.1 * latency_ms),
        bound=Bound.DMA,
        percent_of_peak=49.2,
        engine_busy_ms={"dma": 1.5, "tensor": 0.4},
    )


def _span(line: int, start: int, end: int) -> Span:
    return Span(Position(line, start), Position(line, end))


def _kernel(lines: list[str], at: int) -> KernelView:
    """The kernel whose ``@nki.jit`` is on that line (from 1)."""
    name = re.sub(r".*def (\w+).*", r"\1", lines[at])
    end = at + 1
    while end < len(lines) and (not lines[end].strip() or lines[end].startswith(" ")):
        end += 1
    loads, loops, allocations, hints = [], [], [], []
    for number in range(at, end + 1):
        text = lines[number - 1]
        if "nl.load" in text:
            issued = Issued({"dma_copy": 8}, {}, 4096, 0, 64, 0, 0, {"dma": 900.0})
            shape = OperandType((128, 16), BFLOAT16, Buffer.SBUF)
            loads.append(LineWork(number, 8, issued, "dma", 900.0, shape, 64, 3.0))
            hints.append(HintView(number, "dma", "4 KiB, 64 B descriptors", "8 x 512 B"))
        if "for " in text:
            loops.append(LoopWork(number, "i", 8, 8, end))
            hints.append(HintView(number, "loop", "8 trips"))
        if "nl.ndarray" in text:
            allocations.append(
                AllocationWork(number, "buf", Buffer.SBUF, (128, 16), "bfloat16", 2048)
            )
    workload = Workload(
        tuple(loads),
        tuple(loops),
        tuple(allocations),
        Issued(engine_ns={"dma": 1800.0}),
        sbuf_peak_bytes=4096,
    )
    missing = ("x",) if name.startswith("unset") else ()
    return KernelView(
        name=name,
        qualname=name,
        dialect=Dialect.CURRENT,
        first_line=at,
        line=at + 1,
        end_line=end,
        name_span=_span(at + 1, 5, 5 + len(name)),
        target="trn2",
        arguments=KernelArguments(missing=missing),
        directive="# accelopt: x=bf16[128,512]",
        workload=workload,
        profile=None if missing else profile(),
        hints=tuple(hints),
    )


def check(request: Request) -> Snapshot:
    if "# crash" in request.text:
        os._exit(3)
    if "# slow" in request.text:
        time.sleep(600)
    if "# pause" in request.text:
        time.sleep(0.5)
    lines = request.text.split("\n")
    diagnostics = []
    for number, text in enumerate(lines, 1):
        column = text.find("DEFECT")
        if column >= 0:
            diagnostics.append(
                Diagnostic(
                    "R023",
                    Severity.ERROR,
                    "spans 256 partitions",
                    _span(number, column + 1, column + 7),
                    fix=Fix("Repair it", "repair", {}, safe=True),
                    related=(Related(_span(1, 1, 2), "imported here"),),
                    deprecated=True,
                )
            )
    return Snapshot(
        dialect=Dialect.CURRENT,
        kernels=tuple(_kernel(lines, i) for i, t in enumerate(lines, 1) if t.startswith("@nki")),
        diagnostics=tuple(diagnostics),
    )


def fix(request: Request) -> str:
    return request.text.replace("DEFECT", "repaired")


def fix_all(request: Request) -> str:
    return request.text.replace("DEFECT", "repaired")


def forget(id: str) -> str | None:
    return None if id == LEARNED.id else f"no experience {id}"


def echo(value: Any) -> Any:
    return value, os.getpid()


async def optimize(request: Request, report: job_process.Report) -> Outcome:
    """Behaves by the kernel's name."""
    name = request.function or ""
    if name.startswith("forever"):
        # A grandchild that is harder to find than evaluations: in a session of its own.
        subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
        )
        if name == "forever_better":
            report.keep(evolve(_better(request), unfinished=True))
        for number in range(10_000):
            report(f"{number} candidates, best 1.00x", 0.1)
            if name == "forever_deaf":
                time.sleep(0.05)  # noqa: ASYNC251 - a child that does not listen
            else:
                await asyncio.sleep(0.05)
    if name == "dies":
        os._exit(9)
    if name == "raises":
        raise RuntimeError("the search broke")
    if name == "wrong":
        line = request.text.split("\n").index("    raise ValueError") + 1
        return Outcome(name, problem=Problem("ValueError in line of the kernel", line))
    for number in range(3):
        report(f"{number + 1} of 3 candidates, best {1 + number / 2:.2f}x", (number + 1) / 3)
        await asyncio.sleep(0.12)
    if name == "best_already":
        return Outcome(name, profile=profile(), evaluations=3)
    return _better(request)


def _better(request: Request) -> Outcome:
    found = Outcome(
        request.function or "",
        run="run-1",
        profile=profile(2.0, provenance=Provenance.SIMULATED),
        best=profile(1.0, provenance=Provenance.SIMULATED),
        speedup=2.0,
        correct=True,
        new_text=request.text.replace("nl.load(x)", "nl.load(x[0:128])"),
        changes=("hoisted a load",),
        evaluations=3,
    )
    return evolve(found, report=pickle.dumps(found))


async def recheck(request: Request, report: job_process.Report) -> Outcome:
    found: Outcome = pickle.loads(request.details["report"])
    text = request.text
    report("verifying", None)
    if "refused" in text or "nl.load(x)" not in text:
        return Outcome(found.kernel)
    new_text = text.replace("nl.load(x)", "nl.load(x[0:128])")
    return evolve(found, new_text=new_text, notes=("verified again",), unfinished=False)


async def timeline(request: Request, report: job_process.Report) -> Outcome:
    Path(request.details["timeline"]).write_text("[]")
    return Outcome(request.function or "", profile=profile())


async def profile_kernel(request: Request, report: job_process.Report) -> Outcome:
    found = profile(1.234, provenance=Provenance.SIMULATED)
    return Outcome(request.function or "", profile=found)


def main(role: str) -> None:
    if role == "worker":
        worker.serve(
            {
                "check": check,
                **worker_edits.HANDLERS,
                "fix": fix,
                "fix_all": fix_all,
                "forget": forget,
                "echo": echo,
                "strategies": lambda _: (LEARNED,),
                "warm": lambda _: None,
            }
        )
    elif role == "job":
        job_process.run(
            {
                "timeline": timeline,
                "optimize": optimize,
                "recheck": recheck,
                "profile": profile_kernel,
            }
        )
    else:
        from accelopt_lsp.server.app import App, serve

        app = App(job_child=JOB) if role == "analyse" else App(worker=WORKER, job_child=JOB)
        if role == "serve":
            app.worker.time_limit = 2.0
        serve(app=app)


if __name__ == "__main__":
    main(sys.argv[1])
