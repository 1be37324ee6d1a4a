"""Short figures for the end of lines, each with how it comes about."""

from __future__ import annotations

from collections.abc import Iterator

from accelopt_lsp.analysis.machine import Machine
from accelopt_lsp.analysis.results import Hint
from accelopt_lsp.nki.issued import count_issued
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.nki.workload import LineWork, Workload


def bytes_text(count: float) -> str:
    """``512 B``, ``64 KiB``, ``1.5 MiB``."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{_short(count / size)} {unit}"
    return f"{_short(count)} B"


def time_text(ns: float) -> str:
    """``213 ns``, ``14 us``, ``1.75 ms``."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{_short(ns / size)} {unit}"
    return f"{_short(ns)} ns"


def _short(number: float) -> str:
    if number >= 100 or number == int(number):
        return f"{number:.0f}"
    return f"{number:.1f}" if number >= 10 else f"{number:.2f}"


def build_hints(machine: Machine, workload: Workload, profile: Profile) -> tuple[Hint, ...]:
    """All hints of a kernel, by line."""
    hints = [
        *_loop_hints(machine, workload),
        *_line_hints(workload, profile),
        *_uncounted_hints(machine, workload),
        *_allocation_hints(workload),
    ]
    return tuple(sorted(hints, key=lambda h: (h.line, h.kind)))


def _loop_hints(machine: Machine, workload: Workload) -> Iterator[Hint]:
    ends = {(v.line, v.variable): v.end_line for v in machine.visits}
    trips = {(loop.line, loop.variable): loop.trips for loop in workload.loops}
    written = {(line, name): text for line, name, text in machine.uncounted_loops}
    for loop in workload.loops:
        if loop.total_trips is None:
            text = written.get((loop.line, loop.variable), "?")
            reasons = [why for line, why in workload.unknowns if line == loop.line]
            yield Hint(loop.line, "loop", f"{text} trips", "; ".join(dict.fromkeys(reasons)))
            continue
        around = [
            trips[key]
            for key, end in sorted(ends.items())
            if key[0] < loop.line <= end and key in trips
        ]
        chain = [*around, loop.trips]
        text = f"{loop.total_trips} trips"
        product = 1
        for count in chain:
            product *= count or 0
        if len(chain) > 1 and product == loop.total_trips:
            text = f"{' x '.join(map(str, chain))} = {text}"
        own = "a changing number of" if loop.trips is None else str(loop.trips)
        detail = (
            f"`{loop.variable}` takes {own} iterations each time; over the whole kernel the "
            f"body runs {loop.total_trips} times."
        )
        yield Hint(loop.line, "loop", text, detail)


def _line_hints(workload: Workload, profile: Profile) -> Iterator[Hint]:
    whole = (profile.latency_ms or 0.0) * 1e6
    for line in workload.lines:
        if line.issued.hbm_read_bytes or line.issued.hbm_write_bytes:
            yield _dma_hint(line)
        computing = {e: ns for e, ns in line.issued.engine_ns.items() if e != "dma"}
        if computing:
            yield _compute_hint(line, computing, whole)


def _uncounted_hints(machine: Machine, workload: Workload) -> Iterator[Hint]:
    """What one execution costs in loops whose iterations are not known."""
    counted = {line.line for line in workload.lines}
    seen: set[int] = set()
    for record in machine.uncounted:
        if record.line in counted or record.line in seen:
            continue
        seen.add(record.line)
        once = count_issued([(issue, 1) for issue in record.lowered.issues], machine.target)
        detail = "How often this runs is not known."
        moved = once.hbm_read_bytes or once.hbm_write_bytes
        if moved:
            verb = "load" if once.hbm_read_bytes else "store"
            yield Hint(record.line, "dma", f"{verb} {bytes_text(moved)} each", detail)
            continue
        busy = max(once.engine_ns.values(), default=0.0)
        if busy:
            yield Hint(record.line, "compute", f"{time_text(busy)} each", detail)


def _dma_hint(line: LineWork) -> Hint:
    read, wrote = line.issued.hbm_read_bytes, line.issued.hbm_write_bytes
    verb, total = ("load", read) if read else ("store", wrote)
    if read and wrote:
        verb, total = "copy", read
    each = total / max(line.count, 1)
    about = "" if total % max(line.count, 1) == 0 else "about "
    parts = [f"{verb} {about}{bytes_text(each)}"]
    detail = [f"{line.count} transfers of {bytes_text(each)}: {bytes_text(total)} in all."]
    if line.descriptor_bytes is not None:
        parts.append(f"{bytes_text(line.descriptor_bytes)}/descriptor")
        detail.append(
            f"Each transfer splits into pieces of {bytes_text(line.descriptor_bytes)} that lie "
            "together on both sides; below 512 B a piece costs as much as one of 512 B."
        )
    kind = "dma"
    if line.reload_factor is not None and line.reload_factor >= 1.5:
        kind = "reload"
        parts.append(f"x{_short(round(line.reload_factor, 2))} reloaded")
        detail.append(f"On average every byte is read {_short(line.reload_factor)} times.")
    return Hint(line.line, kind, ", ".join(parts), " ".join(detail))


def _compute_hint(line: LineWork, engines: dict[str, float], whole_ns: float) -> Hint:
    engine, busy = max(engines.items(), key=lambda item: item[1])
    each = busy / max(line.count, 1)
    text = (
        time_text(busy)
        if line.count == 1
        else (f"{time_text(each)} x {line.count} = {time_text(busy)}")
    )
    if whole_ns and busy / whole_ns >= 0.005:
        text += f" ({100 * busy / whole_ns:.0f} %)"
    counts = ", ".join(f"{n} {op}" for op, n in sorted(line.issued.instructions.items()))
    detail = f"{engine.capitalize()} engine; issues {counts} over the whole kernel."
    if whole_ns:
        detail += f" Percent of the estimated latency of {time_text(whole_ns)}."
    return Hint(line.line, "compute", text, detail)


def _allocation_hints(workload: Workload) -> Iterator[Hint]:
    by_line: dict[int, tuple[Buffer, int, str]] = {}
    for allocation in workload.allocations:
        known = by_line.get(allocation.line)
        if allocation.name and (known is None or known[1] < allocation.partition_bytes):
            by_line[allocation.line] = (
                allocation.buffer,
                allocation.partition_bytes,
                f"`{allocation.name}` {list(allocation.shape)} {allocation.dtype}",
            )
    for line, (buffer, size, what) in by_line.items():
        yield Hint(
            line,
            "allocation",
            f"{buffer.upper()} {bytes_text(size)}/partition",
            f"{what} takes {bytes_text(size)} of each partition it uses.",
        )
