"""Chrome trace files, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

One track per engine and DMA queue; every event carries its source line, its regions and, for
transfers, bytes and when it was triggered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accelopt_lsp.profiler.simulator.timeline.schedule import Schedule
    from accelopt_lsp.profiler.simulator.trace import Region, Trace

_PROCESS = 1


def chrome_events(schedule: Schedule, trace: Trace) -> Iterator[dict[str, Any]]:
    """Events of a schedule in Chrome's trace format; times in microseconds."""
    from accelopt_lsp.profiler.simulator.timeline.stream import QUEUE_NAMES

    title = f"NeuronCore ({schedule.target.title})"
    yield {"ph": "M", "pid": _PROCESS, "name": "process_name", "args": {"name": title}}
    stream, times = schedule.stream, schedule.times
    used = sorted({int(stream.ops[code].queue) for code in stream.codes})
    for queue in used:
        common = {"ph": "M", "pid": _PROCESS, "tid": queue}
        yield {**common, "name": "thread_name", "args": {"name": QUEUE_NAMES[queue]}}
        yield {**common, "name": "thread_sort_index", "args": {"sort_index": queue}}
    for index, code in enumerate(stream.codes):
        op = stream.ops[code]
        args: dict[str, Any] = {"line": op.line}
        if op.work.dma is not None:
            args["bytes"] = max(op.work.dma.read_bytes, op.work.dma.write_bytes)
            args["triggered_us"] = times.trigger[index] / 1e3
        operands = op.issue.operands if op.issue is not None else (("dst", ""), ("src", ""))
        for (role, _), region in zip(operands, stream.regions[index], strict=False):
            args[role] = _describe(schedule, region)
        yield {
            "ph": "X",
            "pid": _PROCESS,
            "tid": int(op.queue),
            "ts": times.start[index] / 1e3,
            "dur": (times.end[index] - times.start[index]) / 1e3,
            "name": f"{op.name} (line {op.line})",
            "cat": op.engine_name,
            "args": args,
        }


def _describe(schedule: Schedule, region: Region) -> str:
    storage, p0, p1, b0, b1 = region
    name = schedule.stream.storages[storage].name or f"tile {storage}"
    return f"{name}[{p0}:{p1}, bytes {b0}:{b1}]"


def write_chrome_trace(schedule: Schedule, trace: Trace, path: Path) -> None:
    """Write a schedule for Perfetto.

    Raises:
        OSError: the file cannot be written.
    """
    with Path(path).open("w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit":"ns","traceEvents":[\n')
        for number, event in enumerate(chrome_events(schedule, trace)):
            file.write(",\n" if number else "")
            json.dump(event, file, separators=(",", ":"))
        file.write("\n]}\n")
