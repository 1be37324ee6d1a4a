"""Short figures for the end of lines, each with how it comes about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from attrs import frozen

from accelopt_lsp.analysis.results import Hint
from accelopt_lsp.nki.dtypes import find_dtype
from accelopt_lsp.nki.figures import short, size_text, time_text
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.profile import Profile, Provenance
from accelopt_lsp.nki.targets import Target, get_target
from accelopt_lsp.nki.workload import AllocationWork, Dependence, LineWork, Waiting, Workload

TRACED = "Counted in a traced run."


def build_hints(workload: Workload, profile: Profile) -> tuple[Hint, ...]:
    """All hints of a kernel, by line; who shows them chooses among them by kind and share.

    Args:
        workload: counts; those that a trace filled in say so in their detail.
        profile: estimated or simulated. Simulated engine times replace those of the cost table;
            compute and transfer hints give shares of its latency.
    """
    target = get_target(profile.target)
    times = _Times.of(workload, profile)
    hints = [
        *_loop_hints(workload, times),
        *_line_hints(workload, times),
        *_uncounted_hints(workload),
        *_allocation_hints(workload, target),
        *_shape_hints(workload, times, target),
    ]
    return tuple(sorted(hints, key=lambda h: (h.line, h.kind)))


@frozen(slots=True)
class _Times:
    """Engine times that hints show, and what they are shares of.

    Attributes:
        whole_ns: latency, or where it is unknown what the busiest engine needs; 0 if neither
            is known.
        provenance: of the latency; None if there is none.
        simulated: engine time in ns by line and engine.
    """

    whole_ns: float
    provenance: Provenance | None
    simulated: Mapping[tuple[int, str], float]

    @classmethod
    def of(cls, workload: Workload, profile: Profile) -> _Times:
        rows: dict[tuple[int, str], float] = {}
        if profile.provenance is not Provenance.ESTIMATED:
            for row in profile.lines:
                if row.busy_ms is not None:
                    key = (row.line, row.engine)
                    rows[key] = rows.get(key, 0.0) + row.busy_ms * 1e6
        if profile.latency_ms is None:
            return cls(max(workload.issued.engine_ns.values(), default=0.0), None, rows)
        return cls(profile.latency_ms * 1e6, profile.provenance, rows)

    def share(self, ns: float | None) -> float | None:
        return ns / self.whole_ns if ns is not None and self.whole_ns else None


def _loop_hints(workload: Workload, times: _Times) -> Iterator[Hint]:
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
            again = bool(loop.written) and not loop.written.isdigit()
            yield Hint(
                loop.line, "loop", f"{loop.written or '?'} trips", detail, repeats_source=again
            )
            continue
        around = [
            other.trips
            for other in workload.loops
            if other.line < loop.line <= other.end_line and other.total_trips is not None
        ]
        chain = [*around, loop.trips]
        text = f"{loop.total_trips:,} trips"
        product = 1
        for count in chain:
            product *= count or 0
        if len(chain) > 1 and product == loop.total_trips:
            text = f"{' x '.join(map(str, chain))} = {text}"
        own = "a changing number of" if loop.trips is None else str(loop.trips)
        parts = [
            f"`{loop.variable}` takes {own} iterations each time; over the whole kernel the "
            f"body runs {loop.total_trips:,} times."
        ]
        if loop.provenance is not Provenance.ESTIMATED:
            parts = [f"Traced: over the whole kernel the body runs {loop.total_trips:,} times."]
        busy = max(loop.issued.engine_ns.items(), key=lambda i: i[1], default=None)
        share = times.share(busy[1]) if busy is not None else None
        if busy is not None:
            parts.append(f"Its body keeps {_engine(busy[0])} busy for {time_text(busy[1])}.")
        parts += [_wait_text(wait) for wait in waits[loop.line, loop.variable][:2]]
        yield Hint(loop.line, "loop", text, " ".join(parts), share)


def _wait_text(wait: Dependence) -> str:
    """Why an iteration waits for the one before."""
    if wait.waiting is Waiting.CARRIED:
        return f"Each iteration needs `{wait.tensor}` of the one before."
    return (
        f"Each iteration fills `{wait.tensor}` (line {wait.line}) anew and waits until the one "
        "before has used it."
    )


def _line_hints(workload: Workload, times: _Times) -> Iterator[Hint]:
    for line in workload.lines:
        if line.issued.hbm_read_bytes or line.issued.hbm_write_bytes:
            yield _dma_hint(line, times)
        computing = {e: ns for e, ns in line.issued.engine_ns.items() if e != "dma"}
        if computing:
            yield _compute_hint(line, computing, times)


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
            yield Hint(line.line, "dma", f"{verb} {size_text(moved)} each", detail)
            continue
        busy = max(once.engine_ns.values(), default=0.0)
        if busy:
            yield Hint(line.line, "compute", f"{time_text(busy)} each", detail)


def _dma_hint(line: LineWork, times: _Times) -> Hint:
    read, wrote = line.issued.hbm_read_bytes, line.issued.hbm_write_bytes
    verb, total = ("load", read) if read else ("store", wrote)
    if read and wrote:
        verb, total = "copy", read
    each = total / max(line.count, 1)
    about = "" if total % max(line.count, 1) == 0 else "about "
    parts = [f"{verb} {about}{size_text(each)}"]
    detail = [
        f"{line.count:,} transfer{'s' if line.count != 1 else ''} of {size_text(each)}: "
        f"{size_text(total)} in all."
    ]
    if line.descriptor_bytes is not None:
        parts.append(f"{size_text(line.descriptor_bytes)}/descriptor")
        count = line.issued.dma_descriptors
        detail.append(
            f"Each transfer splits into pieces of {size_text(line.descriptor_bytes)} that lie "
            f"together on both sides, {count:,} in all; each costs a fixed time besides its bytes."
        )
    busy = line.issued.engine_ns.get("dma")
    if busy is not None:
        detail.append(f"All DMA engines together take {time_text(busy)} for it.")
        detail += _derived(line)
    simulated = times.simulated.get((line.line, "dma"))
    if simulated is not None:
        busy = simulated
        detail.append(f"Simulated: its transfers are under way for {time_text(simulated)}.")
    kind = "dma"
    if line.reload_factor is not None and line.reload_factor >= 1.5:
        kind = "reload"
        parts.append(f"x{short(round(line.reload_factor, 2))} reloaded")
        detail.append(f"On average every byte is read {short(line.reload_factor)} times.")
        over = [f"{name} (line {at}, {trips})" for at, name, trips in line.reload_loops]
        if over:
            detail.append(f"The same bytes in every iteration over {', '.join(over)}.")
    if line.provenance is not Provenance.ESTIMATED:
        detail.append(TRACED)
    return Hint(line.line, kind, ", ".join(parts), " ".join(detail), times.share(busy))


def _compute_hint(line: LineWork, engines: dict[str, float], times: _Times) -> Hint:
    engine, busy = max(engines.items(), key=lambda item: item[1])
    simulated = times.simulated.get((line.line, engine))
    estimate = busy
    if simulated is not None:
        busy = simulated
        text = f"{time_text(busy)} simulated"
    elif line.count == 1:
        text = time_text(busy)
    else:
        text = f"{time_text(busy / max(line.count, 1))} x {line.count:,} = {time_text(busy)}"
    share = times.share(busy)
    if share is not None and share >= 0.005 and times.provenance is not None:
        text += f" ({100 * share:.0f} %)"
    counts = ", ".join(f"{n} {op}" for op, n in sorted(line.issued.instructions.items()))
    parts = [f"{_engine(engine)}; issues {counts} over the whole kernel."]
    parts += _derived(line)
    if simulated is not None:
        parts.append(
            f"Simulated: {time_text(simulated)}; the cost table says {time_text(estimate)}."
        )
    if line.flops:
        done = ", ".join(f"{_flops_text(n)} in {dtype}" for dtype, n in sorted(line.flops.items()))
        parts.append(f"{done}.")
    if times.provenance is not None and times.whole_ns:
        parts.append(f"Percent of the {times.provenance} latency of {time_text(times.whole_ns)}.")
    if line.provenance is not Provenance.ESTIMATED:
        parts.append(TRACED)
    return Hint(line.line, "compute", text, " ".join(parts), share)


def _engine(name: str) -> str:
    return "DMA" if name == "dma" else f"{name.capitalize()} engine"


def _derived(line: LineWork) -> list[str]:
    """The formulas behind a line's engine time, with their numbers."""
    return [f"{'; '.join(line.derivation)}."] if line.derivation else []


def _shape_hints(workload: Workload, times: _Times, target: Target) -> Iterator[Hint]:
    """Shape and data type of what a line makes."""
    for allocation in workload.allocations:
        if not allocation.name:
            continue
        dtype = find_dtype(allocation.dtype)
        short = allocation.dtype if dtype is None else dtype.short
        sizes = ",".join(map(str, allocation.shape))
        text = f"{short}[{sizes}] in {allocation.buffer.upper()}"
        share = _memory_share(allocation, target)
        detail = f"Shape and data type of `{allocation.name}`."
        yield Hint(allocation.line, "shape", text, detail, share)
    for line in workload.lines:
        if line.shape is not None and line.shape.buffer.on_chip:
            share = times.share(line.engine_ns)
            text = line.shape.describe()
            detail = "Shape and data type of what this line writes, by its last execution."
            yield Hint(line.line, "shape", text, detail, share)


def _flops_text(count: float) -> str:
    for unit, size in (("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6)):
        if count >= size:
            return f"{short(count / size)} {unit}"
    return f"{short(count)} FLOP"


def _allocation_hints(workload: Workload, target: Target) -> Iterator[Hint]:
    by_line: dict[int, AllocationWork] = {}
    for allocation in workload.allocations:
        known = by_line.get(allocation.line)
        if allocation.name and (
            known is None or known.partition_bytes < allocation.partition_bytes
        ):
            by_line[allocation.line] = allocation
    for line, allocation in by_line.items():
        yield _allocation_hint(line, allocation, workload, target)


def _allocation_hint(
    line: int, allocation: AllocationWork, workload: Workload, target: Target
) -> Hint:
    size = size_text(allocation.partition_bytes)
    memory = allocation.buffer.upper()
    parts = [
        f"`{allocation.name}` {list(allocation.shape)} {allocation.dtype} takes {size} of each "
        "partition it uses."
    ]
    held_at_once = allocation.partition_bytes
    if allocation.live_bytes is not None and allocation.live_bytes != held_at_once:
        held_at_once = allocation.live_bytes
        parts.append(f"Up to {size_text(held_at_once)} of it are alive at once.")
    if allocation.banks:
        parts.append(f"It takes {allocation.banks} of {target.integer('psum_banks')} PSUM banks.")
    in_sbuf = allocation.buffer is Buffer.SBUF
    peak = workload.sbuf_peak_bytes if in_sbuf else workload.psum_peak_bytes
    at = workload.sbuf_peak_line if in_sbuf else workload.psum_peak_line
    if peak and at is not None:
        held = workload.sbuf_holders if in_sbuf else workload.psum_holders
        parts.append(f"At the fullest moment (line {at}) {size_text(peak)} of {memory} are alive")
        first = held[0]
        if (first.name, first.line) == (allocation.name, line):
            parts[-1] += ", most of it this."
        else:
            parts[-1] += (
                f"; `{first.name}` (line {first.line}) holds {size_text(first.partition_bytes)}."
            )
    share = _memory_share(allocation, target)
    text = f"{memory} {size_text(held_at_once)}/partition"
    return Hint(line, "allocation", text, " ".join(parts), share)


def _memory_share(allocation: AllocationWork, target: Target) -> float | None:
    """Share of a partition that it takes at once."""
    capacity = target.get(f"{allocation.buffer}_partition_bytes")
    live = allocation.live_bytes
    taken = allocation.partition_bytes if live is None else live
    return taken / capacity if capacity else None
