"""Short figures for the end of lines, each with how it comes about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from accelopt_lsp.analysis.results import Hint
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.profile import Profile, Provenance
from accelopt_lsp.nki.workload import AllocationWork, Dependence, LineWork, Waiting, Workload

TRACED = "Counted in a traced run."


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


def build_hints(workload: Workload, profile: Profile) -> tuple[Hint, ...]:
    """All hints of a kernel, by line.

    Args:
        workload: counts; those that a trace filled in say so in their detail.
        profile: estimated or simulated; compute hints give shares of its latency.
    """
    hints = [
        *_loop_hints(workload),
        *_line_hints(workload, profile),
        *_uncounted_hints(workload),
        *_allocation_hints(workload),
    ]
    return tuple(sorted(hints, key=lambda h: (h.line, h.kind)))


def _loop_hints(workload: Workload) -> Iterator[Hint]:
    waits: dict[tuple[int, str], list[Dependence]] = defaultdict(list)
    for wait in workload.dependences:
        if wait.waiting is not Waiting.PRODUCT:
            waits[wait.loop_line, wait.variable].append(wait)
    for loop in workload.loops:
        if loop.total_trips is None:
            reasons = [why for line, why in workload.unknowns if line == loop.line]
            detail = "; ".join(dict.fromkeys(reasons))
            if loop.written.isdigit():
                detail = (
                    f"`{loop.variable}` takes {loop.written} iterations each time; how often the "
                    "loop is entered is not known."
                )
            yield Hint(loop.line, "loop", f"{loop.written or '?'} trips", detail)
            continue
        around = [
            other.trips
            for other in workload.loops
            if other.line < loop.line <= other.end_line and other.total_trips is not None
        ]
        chain = [*around, loop.trips]
        text = f"{loop.total_trips} trips"
        product = 1
        for count in chain:
            product *= count or 0
        if len(chain) > 1 and product == loop.total_trips:
            text = f"{' x '.join(map(str, chain))} = {text}"
        own = "a changing number of" if loop.trips is None else str(loop.trips)
        parts = [
            f"`{loop.variable}` takes {own} iterations each time; over the whole kernel the "
            f"body runs {loop.total_trips} times."
        ]
        if loop.provenance is not Provenance.ESTIMATED:
            parts = [f"Traced: over the whole kernel the body runs {loop.total_trips} times."]
        parts += [_wait_text(wait) for wait in waits[loop.line, loop.variable][:2]]
        yield Hint(loop.line, "loop", text, " ".join(parts))


def _wait_text(wait: Dependence) -> str:
    """Why an iteration waits for the one before."""
    if wait.waiting is Waiting.CARRIED:
        return f"Each iteration needs `{wait.tensor}` of the one before."
    return (
        f"Each iteration fills `{wait.tensor}` (line {wait.line}) anew and waits until the one "
        "before has used it."
    )


def _line_hints(workload: Workload, profile: Profile) -> Iterator[Hint]:
    whole = (profile.latency_ms or 0.0) * 1e6
    for line in workload.lines:
        if line.issued.hbm_read_bytes or line.issued.hbm_write_bytes:
            yield _dma_hint(line)
        computing = {e: ns for e, ns in line.issued.engine_ns.items() if e != "dma"}
        if computing:
            yield _compute_hint(line, computing, whole, profile.provenance)


def _uncounted_hints(workload: Workload) -> Iterator[Hint]:
    """What one execution costs in loops whose iterations are not known."""
    counted = {line.line for line in workload.lines}
    for line in workload.uncounted:
        if line.line in counted:
            continue
        once = line.issued
        loop = max(
            (x for x in workload.loops if x.line < line.line <= x.end_line and x.trips is None),
            key=lambda x: x.line,
            default=None,
        )
        detail = "How often this runs is not known."
        if loop is not None and loop.written:
            detail += f" It stands in a loop of {loop.written} iterations."
        moved = once.hbm_read_bytes or once.hbm_write_bytes
        if moved:
            verb = "load" if once.hbm_read_bytes else "store"
            yield Hint(line.line, "dma", f"{verb} {bytes_text(moved)} each", detail)
            continue
        busy = max(once.engine_ns.values(), default=0.0)
        if busy:
            yield Hint(line.line, "compute", f"{time_text(busy)} each", detail)


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
        count = line.issued.dma_descriptors
        detail.append(
            f"Each transfer splits into pieces of {bytes_text(line.descriptor_bytes)} that lie "
            f"together on both sides, {count} in all; below 512 B a piece costs as much as one "
            "of 512 B."
        )
    busy = line.issued.engine_ns.get("dma")
    if busy is not None:
        detail.append(f"All DMA engines together take {time_text(busy)} for it.")
    kind = "dma"
    if line.reload_factor is not None and line.reload_factor >= 1.5:
        kind = "reload"
        parts.append(f"x{_short(round(line.reload_factor, 2))} reloaded")
        detail.append(f"On average every byte is read {_short(line.reload_factor)} times.")
        over = [f"{name} (line {at}, {trips})" for at, name, trips in line.reload_loops]
        if over:
            detail.append(f"The same bytes in every iteration over {', '.join(over)}.")
    if line.provenance is not Provenance.ESTIMATED:
        detail.append(TRACED)
    return Hint(line.line, kind, ", ".join(parts), " ".join(detail))


def _compute_hint(
    line: LineWork, engines: dict[str, float], whole_ns: float, provenance: Provenance
) -> Hint:
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
    parts = [f"{engine.capitalize()} engine; issues {counts} over the whole kernel."]
    if line.flops:
        done = ", ".join(f"{_flops_text(n)} in {dtype}" for dtype, n in sorted(line.flops.items()))
        parts.append(f"{done}.")
    if whole_ns:
        parts.append(f"Percent of the {provenance} latency of {time_text(whole_ns)}.")
    if line.provenance is not Provenance.ESTIMATED:
        parts.append(TRACED)
    return Hint(line.line, "compute", text, " ".join(parts))


def _flops_text(count: float) -> str:
    for unit, size in (("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6)):
        if count >= size:
            return f"{_short(count / size)} {unit}"
    return f"{_short(count)} FLOP"


def _allocation_hints(workload: Workload) -> Iterator[Hint]:
    by_line: dict[int, AllocationWork] = {}
    for allocation in workload.allocations:
        known = by_line.get(allocation.line)
        if allocation.name and (
            known is None or known.partition_bytes < allocation.partition_bytes
        ):
            by_line[allocation.line] = allocation
    for line, allocation in by_line.items():
        yield _allocation_hint(line, allocation, workload)


def _allocation_hint(line: int, allocation: AllocationWork, workload: Workload) -> Hint:
    size = bytes_text(allocation.partition_bytes)
    memory = allocation.buffer.upper()
    parts = [
        f"`{allocation.name}` {list(allocation.shape)} {allocation.dtype} takes {size} of each "
        "partition it uses."
    ]
    live = allocation.live_bytes
    if live is not None and live > allocation.partition_bytes:
        parts.append(f"Up to {bytes_text(live)} of it are alive at once.")
    if allocation.banks:
        parts.append(f"It takes {allocation.banks} of the PSUM banks.")
    in_sbuf = allocation.buffer is Buffer.SBUF
    peak = workload.sbuf_peak_bytes if in_sbuf else workload.psum_peak_bytes
    at = workload.sbuf_peak_line if in_sbuf else workload.psum_peak_line
    if peak and at is not None:
        held = workload.sbuf_holders if in_sbuf else workload.psum_holders
        parts.append(f"At the fullest moment (line {at}) {bytes_text(peak)} of {memory} are alive")
        first = held[0]
        if (first.name, first.line) == (allocation.name, line):
            parts[-1] += ", most of it this."
        else:
            parts[-1] += (
                f"; `{first.name}` (line {first.line}) holds {bytes_text(first.partition_bytes)}."
            )
    return Hint(line, "allocation", f"{memory} {size}/partition", " ".join(parts))
