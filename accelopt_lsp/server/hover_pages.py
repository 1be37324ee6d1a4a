"""Hover pages: what a name, a loop or a tensor is and costs here. Knows no LSP."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.figures import size_text, time_text
from accelopt_lsp.nki.instructions import INSTRUCTIONS
from accelopt_lsp.nki.profile import Provenance
from accelopt_lsp.nki.reference.names import OLDEST, Name, constant_value
from accelopt_lsp.nki.reference.pages import ENGINE_NAMES, availability, instruction_facts
from accelopt_lsp.nki.reference.parameters import parameter_text, signature_text
from accelopt_lsp.nki.reference.published import page_address
from accelopt_lsp.nki.targets import Target, get_target
from accelopt_lsp.nki.workload import (
    AllocationWork,
    Dependence,
    Holder,
    LineWork,
    LoopWork,
    NamedView,
    RepeatedLoad,
    TensorTraffic,
    Waiting,
    Workload,
)
from accelopt_lsp.server.markup import escaped
from accelopt_lsp.server.snapshot import KernelView, Learned

MOST_WAITS = 2
"""Tiles that iterations wait for, which a page on a loop names."""
MOST_LOADS = 2
"""Repeated loads of which a page says what they cost."""
LEAST_GAIN = 1.01
"""A repeated load whose absence would gain less is not worth a line."""
MOST_TITLE = 120


def name_page(
    name: Name,
    dialect: Dialect,
    target: str,
    version: str | None = None,
    *,
    here: str = "",
    simulated: Sequence[str] = (),
    learned: Sequence[Learned] = (),
) -> str:
    """Markdown for a hover on a name of NKI: what it is, what it costs here, what was learned.

    Args:
        here: what it costs in this place, as Markdown.
        simulated: what a run said of the line.
        learned: strategies of the optimization memory that fit.
    """
    parts = []
    signature = name.calls.get(dialect)
    if signature is not None:
        parts.append(f"```python\n{name.path}{signature_text(name.path, signature)}\n```")
    else:
        value = constant_value(name.path, get_target(target))
        parts.append(f"`{name.path}`" + (f" = {value}" if value is not None else ""))
    parts.append(name.summary)
    missing = name.missing(dialect, target, version)
    if missing:
        parts.append(f"**Not available here**: {missing}.")
    if name.is_deprecated(version):
        parts.append(f"**Deprecated**: use `{name.deprecated}`.")
    if here:
        parts.append(here)
    if simulated:
        parts.append("**Simulated**\n" + "\n".join(f"- {fact}" for fact in simulated))
    if learned:
        parts.append("**Learned**\n" + "\n".join(f"- {strategy_line(s)}" for s in learned))
    facts = _facts(name)
    if facts:
        parts.append("\n".join(f"- {fact}" for fact in facts))
    address = page_address(name.path, dialect if dialect in name.dialects else _other(dialect))
    if address is not None:
        parts.append(f"[AWS documentation]({address})")
    return "\n\n".join(parts)


def _other(dialect: Dialect) -> Dialect:
    return next(d for d in Dialect if d is not dialect)


def _facts(name: Name) -> list[str]:
    """Formula, engines, limits, and where it exists."""
    api = name.api
    instruction = INSTRUCTIONS.get((api.instruction if api is not None else None) or "")
    facts = [] if instruction is None else list(instruction_facts(instruction))
    if instruction is not None or name.generation > OLDEST:
        facts.append(f"Available on: {availability(name)}")
    return facts


def strategy_line(learned: Learned) -> str:
    """One strategy with its evidence. Its title is somebody else's text."""
    title = " ".join(learned.title.split())
    title = title if len(title) <= MOST_TITLE else f"{title[: MOST_TITLE - 1]}…"
    verb = "gained" if learned.helpful else "lost"
    evidence = f"`accelopt memory show {learned.id}`"
    if learned.page is not None:
        evidence = f"[evidence]({Path(learned.page).as_uri()}), {evidence}"
    again = "not tried again yet"
    if learned.wins or learned.losses:
        again = f"used again: {learned.wins} won, {learned.losses} lost"
    return f"{escaped(title)}: {verb} {learned.ratio:.2f}x, {learned.figures}; {again} ({evidence})"


def parameter_page(name: Name, parameter: str, dialect: Dialect) -> str | None:
    """Markdown for a hover on the keyword of a call; None where nothing is known of it."""
    text = parameter_text(name.path, parameter, name.api)
    return f"`{parameter}` of `{name.path}`: {text}" if text and dialect in name.calls else None


def cost_here(work: LineWork, kernel: KernelView) -> str:
    """What a line costs over the whole kernel, and how that comes about."""
    workload = kernel.workload
    lines = [f"Executions: {work.count:,}; instructions issued: {work.issued.total_instructions:,}"]
    if work.shape is not None:
        lines[0] += f" ({work.shape.describe()})"
    engine = ENGINE_NAMES.get(work.engine, work.engine)
    lines.append(f"{engine}: {time_text(work.engine_ns)}{_share(work, workload)}")
    lines += work.derivation
    moved = work.issued.hbm_read_bytes + work.issued.hbm_write_bytes
    if moved:
        text = f"HBM: {size_text(moved)}"
        if work.descriptor_bytes is not None:
            count = work.issued.dma_descriptors
            text += f" in {count:,} descriptor{'s' if count != 1 else ''}"
            text += f" of {size_text(work.descriptor_bytes)}"
        lines.append(text)
    if work.reload_factor is not None and work.reload_factor > 1:
        over = ", ".join(f"`{name}` (line {line})" for line, name, _ in work.reload_loops)
        again = f": the same in every iteration over {over}" if over else ""
        lines.append(f"Every byte is read {work.reload_factor:.3g} times{again}")
    lines += what_ifs(kernel, lambda load: load.line == work.line)
    if work.sbuf_live_bytes and workload is not None and workload.sbuf_peak_line == work.line:
        lines.append(f"SBUF is fullest here: {size_text(work.sbuf_live_bytes)} per partition")
    traced = work.provenance is not Provenance.ESTIMATED
    head = f"**Here, {'traced' if traced else 'estimated'} for {kernel.target}**\n"
    return head + "\n".join(f"- {line}" for line in lines)


def _share(work: LineWork, workload: Workload | None) -> str:
    total = workload.issued.engine_ns.get(work.engine, 0.0) if workload is not None else 0.0
    return f", {100 * work.engine_ns / total:.0f} % of this engine's time" if total > 0 else ""


def what_ifs(kernel: KernelView, concerns: Callable[[RepeatedLoad], bool]) -> list[str]:
    """What the kernel would take without some repeated loads; estimates beside estimates only."""
    profile = kernel.profile
    if profile is None or profile.provenance is not Provenance.ESTIMATED:
        return []
    found = [load for load in kernel.repeated_loads if concerns(load)]
    return [
        f"If line {load.line} loaded every byte of `{load.tensor or 'its tensor'}` once: "
        f"{time_text(load.before_ns)} to {time_text(load.after_ns)} (estimated)"
        for load in found[:MOST_LOADS]
        if load.before_ns >= LEAST_GAIN * load.after_ns
    ]


def loop_page(loop: LoopWork, kernel: KernelView) -> str:
    """Markdown for a hover on a loop: trips, work of its scope, memory, what could be spared."""
    workload = kernel.workload
    trips = "an unknown number of" if loop.trips is None else f"{loop.trips:,}"
    head = f"**Loop over `{loop.variable}`**: {trips} iterations"
    if loop.total_trips is not None and loop.total_trips != loop.trips:
        head += f", {loop.total_trips:,} over the whole kernel"
    if workload is None:
        return head
    inside = [w for w in workload.lines if loop.line <= w.line <= loop.end_line]
    lines = [*_scope(inside, workload), *_memory(inside, workload)]
    lines += [
        _waits(wait)
        for wait in workload.dependences
        if (wait.loop_line, wait.variable) == (loop.line, loop.variable)
        and wait.waiting is not Waiting.PRODUCT
    ][:MOST_WAITS]
    lines += what_ifs(kernel, lambda load: any(at == loop.line for at, _, _ in load.loops))
    unknown = [line for line, _ in workload.unknowns if loop.line <= line <= loop.end_line]
    if unknown:
        lines.append(f"Not counted: line{'s' * (len(unknown) > 1)} {', '.join(map(str, unknown))}")
    body = "\n".join(f"- {line}" for line in lines)
    return f"{head}\n\n{body}" if body else head


def _scope(inside: Sequence[LineWork], workload: Workload) -> Iterator[str]:
    """Engine time, traffic and instructions of some lines."""
    engines: dict[str, float] = {}
    for work in inside:
        for engine, ns in work.issued.engine_ns.items():
            engines[engine] = engines.get(engine, 0.0) + ns
    for engine, ns in sorted(engines.items(), key=lambda item: -item[1]):
        total = workload.issued.engine_ns.get(engine, 0.0)
        share = f" ({100 * ns / total:.0f} % of the kernel's)" if total > 0 else ""
        if ns > 0:
            yield f"{ENGINE_NAMES.get(engine, engine)}: {time_text(ns)}{share}"
    moved = sum(w.issued.hbm_read_bytes + w.issued.hbm_write_bytes for w in inside)
    if moved:
        yield f"HBM: {size_text(moved)}"
    issued = sum(w.issued.total_instructions for w in inside)
    if issued:
        yield f"Instructions: {issued:,}"


def _memory(inside: Sequence[LineWork], workload: Workload) -> Iterator[str]:
    """The fullest moment of some lines, and who holds the memory if it is the kernel's."""
    for memory, peak_line, holders in (
        ("sbuf", workload.sbuf_peak_line, workload.sbuf_holders),
        ("psum", workload.psum_peak_line, workload.psum_holders),
    ):
        live = [(getattr(w, f"{memory}_live_bytes") or 0, w.line) for w in inside]
        most, line = max(live, default=(0, 0))
        if most:
            text = f"{memory.upper()} holds up to {size_text(most)} per partition (line {line})"
            if peak_line is not None and any(w.line == peak_line for w in inside):
                text += f": {_holders(holders)}" if holders else ""
            yield text


def _holders(holders: Iterable[Holder]) -> str:
    largest = list(holders)[:3]
    return ", ".join(f"`{h.name or 'a result'}` {size_text(h.partition_bytes)}" for h in largest)


def _waits(wait: Dependence) -> str:
    """Why the iterations of a loop cannot overlap."""
    if wait.waiting is Waiting.CARRIED:
        return f"Each iteration needs `{wait.tensor}` (line {wait.line}) of the one before"
    return f"Each iteration waits until the one before has used `{wait.tensor}` (line {wait.line})"


def allocation_page(allocation: AllocationWork, kernel: KernelView) -> str:
    """Markdown for a hover on an on-chip buffer: its size, the kernel's peak, who holds it."""
    workload = kernel.workload or Workload()
    shape = ", ".join(map(str, allocation.shape))
    where = allocation.buffer.upper()
    capacity = _capacity(get_target(kernel.target), allocation.buffer)
    share = f", {100 * allocation.partition_bytes / capacity:.1f} % of {where}" if capacity else ""
    lines = [f"{size_text(allocation.partition_bytes)} per partition{share}"]
    if allocation.live_bytes and allocation.live_bytes > allocation.partition_bytes:
        lines.append(f"Up to {size_text(allocation.live_bytes)} of it are alive at once")
    sbuf = allocation.buffer == "sbuf"
    peak = workload.sbuf_peak_bytes if sbuf else workload.psum_peak_bytes
    if peak is not None and capacity:
        lines.append(f"Fullest moment of the kernel: {size_text(peak)} of {size_text(capacity)}")
    holders = workload.sbuf_holders if sbuf else workload.psum_holders
    if len(holders) > 1:
        at = workload.sbuf_peak_line if sbuf else workload.psum_peak_line
        lines.append(f"Alive then, at line {at}: {_holders(holders)}")
    lines += what_ifs(kernel, lambda load: load.tile == allocation.name)
    head = f"**`{allocation.name}`**: {allocation.dtype}[{shape}] in {where}"
    return "\n".join((head, "", *(f"- {line}" for line in lines)))


def view_page(view: NamedView, whole: str | None) -> str:
    """Markdown for a hover on a name of a part of a tensor, above the tensor's own page."""
    shape = ", ".join(map(str, view.shape))
    head = f"**`{view.name}`**: {view.dtype}[{shape}] in {view.buffer.upper()}"
    if view.tensor and view.tensor != view.name:
        head += f", a view of `{view.tensor}`"
    return f"{head}\n\n---\n\n{whole}" if whole else head


def tensor_page(tensor: TensorTraffic, kernel: KernelView) -> str:
    """Markdown for a hover on an HBM tensor: its size and how often its bytes move."""
    lines = []
    for verb, moved, distinct in (
        ("Read", tensor.read_bytes, tensor.distinct_read_bytes),
        ("Written", tensor.written_bytes, tensor.distinct_written_bytes),
    ):
        if moved:
            text = f"{verb}: {size_text(moved)}"
            if distinct:
                text += f", every byte {moved / distinct:.3g} times" if moved > distinct else ""
                text += f" ({size_text(distinct)} of it)" if distinct < tensor.size_bytes else ""
            lines.append(text)
    if tensor.lines:
        lines.append(f"Loaded at line {', '.join(map(str, tensor.lines))}")
    lines += what_ifs(kernel, lambda load: load.tensor == tensor.name)
    described = f"{tensor.dtype}[{', '.join(map(str, tensor.shape))}], " if tensor.dtype else ""
    head = f"**`{tensor.name}`**: {described}{size_text(tensor.size_bytes)} in HBM"
    return "\n".join((head, "", *(f"- {line}" for line in lines)))


def _capacity(target: Target, buffer: str) -> float | None:
    if buffer == "psum":
        return target.get("psum_partition_bytes")
    whole, reserved = target.get("sbuf_partition_bytes"), target.get("sbuf_reserved_bytes")
    return None if whole is None else whole - (reserved or 0)
