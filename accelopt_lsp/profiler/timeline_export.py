"""Chrome trace files, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

A track for every engine, tracks for every DMA queue (as many as transfers of it were under way
at once, since events of one track must not overlap), the critical path, and counters over time.
Arrows lead from what was waited for to who waited: along the critical path, and across the
longest idle gaps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from heapq import heappop, heappush, nlargest
from pathlib import Path
from typing import Any

from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.profiler.simulator.timeline.critical import Path as CriticalPath
from accelopt_lsp.profiler.simulator.timeline.critical import Waits, critical_path
from accelopt_lsp.profiler.simulator.timeline.liveness import psum_bytes, sbuf_bytes
from accelopt_lsp.profiler.simulator.timeline.schedule import Schedule
from accelopt_lsp.profiler.simulator.timeline.stream import COMPUTE_QUEUES, QUEUE_NAMES
from accelopt_lsp.profiler.simulator.trace import Region

_ENGINES, _DMA, _COUNTERS = 1, 2, 3
"""Process ids: groups of tracks."""
_CRITICAL = 0
"""Thread id of the critical path; compute engines follow."""
_LANES = 100
"""Thread ids between two DMA queues."""
MOST_DESCRIBED = 50_000
"""With more instructions than this, events do not say which regions they touch."""
MOST_ARROWS = 20_000
SAMPLES = 2_000
"""Points of time at which counters are shown."""
_WAITED_NS = 1.0
_SPILLS = frozenset({"spill_save", "spill_reload", "reload"})

Event = dict[str, Any]


def chrome_events(schedule: Schedule, source: str = "") -> Iterator[Event]:
    """Events of a schedule in Chrome's trace format; times in microseconds.

    Args:
        schedule: what to show.
        source: name of the kernel's file, for places such as ``matmul.py:31``.
    """
    waits = Waits(schedule)
    path = critical_path(schedule, waits)
    tracks = _tracks(schedule, waits)
    yield from _names(schedule, tracks)
    yield from _critical_events(schedule, path, source)
    yield from _spans(schedule, tracks, source)
    yield from _arrows(schedule, path, waits, tracks)
    yield from _counters(schedule)


def write_chrome_trace(schedule: Schedule, path: Path, source: str = "") -> None:
    """Write a schedule for Perfetto; instructions of unknown cost take no time in it.

    Raises:
        OSError: the file cannot be written.
    """
    about: dict[str, Any] = {
        "target": schedule.target.name,
        "latency_ms": None if schedule.unknown else schedule.latency_ns * 1e-6,
        "unknown_instructions": sorted(schedule.unknown),
    }
    with Path(path).open("w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit":"ns","otherData":')
        json.dump(about, file)
        file.write(',"traceEvents":[\n')
        for number, event in enumerate(chrome_events(schedule, source)):
            file.write(",\n" if number else "")
            json.dump(event, file, separators=(",", ":"))
        file.write("\n]}\n")


def _us(ns: float) -> float:
    """Microseconds in whole nanoseconds, so that neighbours touch and never overlap."""
    return round(ns) / 1000


def _tracks(schedule: Schedule, waits: Waits) -> list[tuple[int, int]]:
    """Process and thread of every instruction."""
    times = schedule.times
    found = [(_ENGINES, 1 + queue) for queue in waits.queues]
    for queue in range(COMPUTE_QUEUES, len(QUEUE_NAMES)):
        running: list[tuple[float, int]] = []
        free: list[int] = []
        lanes = 0
        for index in sorted(waits.lines_up[queue], key=times.start.__getitem__):
            begin = round(times.start[index])
            while running and running[0][0] <= begin:
                heappush(free, heappop(running)[1])
            if free:
                lane = heappop(free)
            else:
                lane, lanes = lanes, lanes + 1
            heappush(running, (round(times.end[index]), lane))
            found[index] = (_DMA, queue * _LANES + min(lane, _LANES - 1))
    return found


def _names(schedule: Schedule, tracks: list[tuple[int, int]]) -> Iterator[Event]:
    title = schedule.target.title
    groups = {_ENGINES: f"NeuronCore ({title})", _DMA: "DMA queues", _COUNTERS: "memory and HBM"}
    for process, name in groups.items():
        common = {"ph": "M", "pid": process}
        yield {**common, "name": "process_name", "args": {"name": name}}
        yield {**common, "name": "process_sort_index", "args": {"sort_index": process}}
    for process, thread in sorted({(_ENGINES, _CRITICAL), *tracks}):
        if process == _DMA:
            queue, lane = divmod(thread, _LANES)
            name = f"{QUEUE_NAMES[queue]} {lane + 1}"
        else:
            name = "critical path" if thread == _CRITICAL else QUEUE_NAMES[thread - 1]
        common = {"ph": "M", "pid": process, "tid": thread}
        yield {**common, "name": "thread_name", "args": {"name": name}}
        yield {**common, "name": "thread_sort_index", "args": {"sort_index": thread}}


def _place(source: str, line: int) -> str:
    return f"{source}:{line}" if source else f"line {line}"


def _critical_events(schedule: Schedule, path: CriticalPath, source: str) -> Iterator[Event]:
    """The critical path in order of time; pieces of one op and resource that follow each other
    are one event."""
    stream = schedule.stream
    merged: list[tuple[int, str, float, float]] = []
    for index, resource, begin, end in reversed(path.pieces):
        code = stream.codes[index] if index >= 0 else -1
        if merged and merged[-1][:2] == (code, resource.value):
            merged[-1] = (code, resource.value, merged[-1][2], end)
        else:
            merged.append((code, resource.value, begin, end))
    for code, resource_name, begin, end in merged:
        if _us(end) <= _us(begin):
            continue
        event = {
            "ph": "X",
            "pid": _ENGINES,
            "tid": _CRITICAL,
            "ts": _us(begin),
            "dur": round(_us(end) - _us(begin), 3),
            "name": resource_name,
            "cat": "critical",
        }
        if code >= 0:
            op = stream.ops[code]
            event["args"] = {"source": _place(source, op.line), "instruction": op.name}
        yield event


def _spans(schedule: Schedule, tracks: list[tuple[int, int]], source: str) -> Iterator[Event]:
    """One event an instruction, track by track in order of time."""
    stream, times = schedule.stream, schedule.times
    described = len(stream) <= MOST_DESCRIBED
    order = sorted(range(len(stream)), key=lambda index: (tracks[index], times.start[index]))
    for index in order:
        op = stream.ops[stream.codes[index]]
        args: Event = {"line": op.line, "source": _place(source, op.line)}
        if op.work.dma is not None:
            args["bytes"] = max(op.work.dma.read_bytes, op.work.dma.write_bytes)
            args["triggered_us"] = _us(times.trigger[index])
        if described:
            operands = op.issue.operands if op.issue is not None else (("dst", ""), ("src", ""))
            for (role, _), region in zip(operands, stream.regions[index], strict=False):
                args[role] = _describe(schedule, region)
        process, thread = tracks[index]
        begin = _us(times.start[index])
        event = {
            "ph": "X",
            "pid": process,
            "tid": thread,
            "ts": begin,
            "dur": round(_us(times.end[index]) - begin, 3),
            "name": f"{op.name} (line {op.line})",
            "cat": op.engine_name,
            "args": args,
        }
        if op.name in _SPILLS:
            event["cat"] = "spill"
            event["cname"] = "terrible"
        yield event


def _describe(schedule: Schedule, region: Region) -> str:
    storage, p0, p1, b0, b1 = region
    name = schedule.stream.storages[storage].name or f"tile {storage}"
    return f"{name}[{p0}:{p1}, bytes {b0}:{b1}]"


def _arrows(
    schedule: Schedule, path: CriticalPath, waits: Waits, tracks: list[tuple[int, int]]
) -> Iterator[Event]:
    """Arrows from what was waited for to who waited."""
    times = schedule.times
    critical = {index for index, *_ in path.pieces if index >= 0}
    idle = [
        (times.since[index] - times.end[before], index)
        for line_up in waits.lines_up[:COMPUTE_QUEUES]
        for before, index in zip(line_up, line_up[1:], strict=False)
        if index not in critical and times.since[index] - times.end[before] > _WAITED_NS
    ]
    room = max(0, MOST_ARROWS - len(critical))
    waiting = sorted(critical)[:MOST_ARROWS] + [index for _, index in nlargest(room, idle)]
    for number, index in enumerate(waiting, 1):
        cause = times.cause[index]
        if cause < 0 or tracks[cause] == tracks[index]:
            continue
        left, reached = times.start[cause], times.end[cause]
        kind = waits.kind(cause, index).value
        common = {"cat": "critical" if index in critical else "wait", "name": kind, "id": number}
        # An arrow is bound to the event that its end lies in. Who waits for its turn only may begin
        # together with whom it waited for, and no arrow leads back in time.
        leaves = min(_us(reached) - 0.001, _us(times.start[index]))
        ends = ((cause, "s", max(_us(left), leaves)), (index, "f", None))
        for end, phase, moment in ends:
            process, thread = tracks[end]
            event: Event = {"ph": phase, "pid": process, "tid": thread, **common}
            event["ts"] = _us(times.start[end]) if moment is None else round(moment, 3)
            if phase == "f":
                event["bp"] = "e"
            yield event


def _counters(schedule: Schedule) -> Iterator[Event]:
    """SBUF and PSUM in use, and traffic with HBM."""
    finish = schedule.latency_ns
    if not len(schedule.stream) or finish <= 0:
        return
    step = finish / SAMPLES
    target = schedule.target
    bank = target.integer("psum_bank_bytes")
    sbuf, psum = _occupancy(schedule, step, bank)
    read, written = _traffic(schedule, step)
    rows = (
        ("SBUF bytes per partition", {"in use": sbuf}),
        ("PSUM banks", {"in use": [used / bank for used in psum]}),
        ("HBM GB/s", {"read": read, "written": written}),
    )
    for name, series in rows:
        last: Event | None = None
        for number in range(SAMPLES):
            args = {key: round(values[number], 3) for key, values in series.items()}
            if args == last:
                continue
            last = args
            yield {
                "ph": "C",
                "pid": _COUNTERS,
                "ts": _us(number * step),
                "name": name,
                "args": args,
            }


def _occupancy(schedule: Schedule, step: float, bank: int) -> tuple[list[float], list[float]]:
    """Bytes per partition that hold tiles in use: from a tile's first access to its last."""
    stream, times = schedule.stream, schedule.times
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    for index, regions in enumerate(stream.regions):
        begin, end = times.start[index], times.end[index]
        for region in regions:
            storage = region[0]
            first[storage] = min(begin, first.get(storage, begin))
            last[storage] = max(end, last.get(storage, end))
    changes = {buffer: [0.0] * (SAMPLES + 1) for buffer in (Buffer.SBUF, Buffer.PSUM)}
    for number, begin in first.items():
        storage_of = stream.storages[number]
        change = changes.get(storage_of.buffer)
        if change is None:
            continue
        in_sbuf = storage_of.buffer is Buffer.SBUF
        size = sbuf_bytes(storage_of) if in_sbuf else psum_bytes(storage_of, bank)
        change[min(SAMPLES, int(begin / step))] += size
        change[min(SAMPLES, int(last[number] / step) + 1)] -= size
    levels = []
    for change in changes.values():
        level, sums = 0.0, []
        for difference in change[:SAMPLES]:
            level += difference
            sums.append(level)
        levels.append(sums)
    return levels[0], levels[1]


def _traffic(schedule: Schedule, step: float) -> tuple[list[float], list[float]]:
    """Bytes per ns (GB/s) read from and written to HBM, by sample."""
    stream, times = schedule.stream, schedule.times
    totals = [0.0] * SAMPLES, [0.0] * SAMPLES
    for index, code in enumerate(stream.codes):
        dma = stream.ops[code].work.dma
        if dma is None:
            continue
        begin, end = times.start[index], times.end[index]
        for total, size in zip(totals, (dma.hbm_read_bytes, dma.hbm_write_bytes), strict=True):
            if not size:
                continue
            place, stop = int(begin / step), min(SAMPLES - 1, int(end / step))
            for sample in range(place, stop + 1):
                inside = min(end, (sample + 1) * step) - max(begin, sample * step)
                total[sample] += size * (inside / (end - begin) if end > begin else 1.0)
    read, written = ([size / step for size in total] for total in totals)
    return read, written
