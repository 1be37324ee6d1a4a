"""Figures and facts as people read them: lens titles and hover pages. Knows no LSP."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from accelopt_lsp.nki.dialects import Api, Dialect
from accelopt_lsp.nki.instructions import INSTRUCTIONS, Instruction
from accelopt_lsp.nki.profile import Profile, Provenance
from accelopt_lsp.nki.targets import Target, get_target, target_names
from accelopt_lsp.nki.workload import (
    AllocationWork,
    Dependence,
    LineWork,
    LoopWork,
    Waiting,
    Workload,
)
from accelopt_lsp.server.snapshot import KernelView

ENGINE_NAMES: Mapping[str, str] = {
    "tensor": "Tensor Engine",
    "vector": "Vector Engine",
    "scalar": "Scalar Engine",
    "gpsimd": "GpSimd Engine",
    "sync": "Sync Engine",
    "dma": "DMA",
}
MOST_GAPS = 3
"""Idle gaps that an explanation names."""
MOST_WAITS = 2
"""Tiles that iterations wait for, which a page on a loop names."""


def milliseconds(value: float) -> str:
    """``35.2 ms``, ``812 µs``, ``95 ns``: three significant digits."""
    if value >= 1:
        return f"{value:.3g} ms" if value < 1000 else f"{value / 1000:.3g} s"
    if value >= 1e-3:
        return f"{value * 1e3:.3g} µs"
    return f"{value * 1e6:.3g} ns"


def nanoseconds(value: float) -> str:
    return milliseconds(value * 1e-6)


def size(count: float) -> str:
    """Bytes in binary units: ``512 B``, ``2 KiB``, ``8.44 GiB``."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.3g} {unit}"
        value /= 1024
    raise AssertionError("unreachable")


def lens_title(kernel: KernelView) -> str:
    """One line over a kernel: latency, interval, provenance, bound, percent of peak, target."""
    profile = kernel.profile
    if profile is None and kernel.arguments.missing:
        return f"Arguments unknown: {', '.join(kernel.arguments.missing)} · {kernel.target}"
    if profile is None:
        return f"No figures · {kernel.target}"
    return f"{profile_line(profile)} · {kernel.target}"


def profile_line(profile: Profile) -> str:
    parts = []
    if profile.latency_ms is None:
        unknown = ", ".join(profile.unknown_instructions)
        parts.append(f"Latency unknown{f' (no cost for {unknown})' if unknown else ''}")
    else:
        text = f"{milliseconds(profile.latency_ms)} {profile.provenance}"
        interval = profile.uncertainty
        if interval is not None:
            text += f" ({milliseconds(interval.low_ms)} to {milliseconds(interval.high_ms)})"
            if interval.extrapolated:
                text += ", extrapolated"
        parts.append(text)
    shares = bounded_by(profile)
    if shares:
        parts.append(f"bounded by {shares}")
    elif profile.bound is not None:
        parts.append(f"{profile.bound} bound")
    if profile.percent_of_peak is not None:
        parts.append(f"{profile.percent_of_peak:.0f} % of peak")
    return " · ".join(parts)


def bounded_by(profile: Profile, most: int = 2) -> str:
    """``vector 73 %, room 25 %``: what bounded most of the time; empty where it is not known."""
    shares = sorted((profile.bounded_shares or {}).items(), key=lambda item: -item[1])
    named = [f"{name.replace('_', ' ')} {100 * share:.0f} %" for name, share in shares]
    return ", ".join(
        text for text, (_, share) in zip(named[:most], shares, strict=False) if share >= 0.05
    )


def line_facts(profile: Profile, line: int) -> list[str]:
    """What a simulated run says of one line: its part of the critical path, who waited for it."""
    latency = profile.latency_ms
    if not latency or profile.provenance is not Provenance.SIMULATED:
        return []
    facts = []
    for row in profile.lines:
        if row.line == line:
            name = ENGINE_NAMES.get(row.engine, row.engine)
            if row.critical_ms is None or row.busy_ms is None:
                continue
            share = f"{100 * row.critical_ms / latency:.0f} % of the critical path"
            facts.append(f"{name}: busy {milliseconds(row.busy_ms)}, {share}")
    for gap in profile.idle or ():
        if gap.line == line and gap.total_ms >= 0.01 * latency:
            name = ENGINE_NAMES.get(gap.engine, gap.engine)
            facts.append(
                f"{name} {gap.reason().replace(f' of line {line}', '')}: "
                f"{milliseconds(gap.total_ms)} in {gap.count:,} gaps"
            )
    for what_if in profile.what_ifs or ():
        if what_if.line == line:
            facts.append(f"If {what_if.condition()}: at most {what_if.speedup:.2f} times as fast")
    return facts


def explain_kernel(kernel: KernelView) -> str:
    """What bounds a kernel, engine by engine, in a few lines of plain text."""
    lines = [f"{kernel.qualname}: {lens_title(kernel)}"]
    profile = kernel.profile
    if profile is not None:
        busy = sorted(profile.engine_busy_ms.items(), key=lambda item: -item[1])
        lines += [f"{ENGINE_NAMES.get(e, e)}: busy {milliseconds(ms)}" for e, ms in busy if ms > 0]
        for gap in (profile.idle or ())[:MOST_GAPS]:
            name = ENGINE_NAMES.get(gap.engine, gap.engine)
            lines.append(f"{name} idle {milliseconds(gap.total_ms)}: {gap.reason()}")
        issued = profile.issued
        lines.append(
            f"HBM: {size(issued.hbm_read_bytes)} read, {size(issued.hbm_write_bytes)} written"
        )
        lines += profile.notes
    return "\n".join(lines)


def api_page(
    api: Api,
    dialect: Dialect,
    target: str,
    work: LineWork | None,
    workload: Workload | None,
    strategies: Iterable[str] = (),
    simulated: Iterable[str] = (),
) -> str:
    """Markdown for a hover on an API name."""
    parts = []
    signature = api.signature(dialect)
    if signature is not None:
        parts.append(f"```python\n{api.name}{signature.text}\n```")
    else:
        other = ", ".join(api.signatures)
        parts.append(f"`{api.name}` does not exist in the {dialect} dialect (only {other}).")
    parts.append(api.summary)
    instruction = INSTRUCTIONS.get(api.instruction or "")
    if instruction is not None:
        parts.append(_instruction_facts(instruction, target))
    if work is not None:
        parts.append(_cost_here(work, workload, target))
    facts = list(simulated)
    if facts:
        parts.append("**Simulated**\n" + "\n".join(f"- {fact}" for fact in facts))
    learned = list(strategies)
    if learned:
        parts.append("**Learned**\n" + "\n".join(f"- {s}" for s in learned))
    return "\n\n".join(parts)


def _instruction_facts(instruction: Instruction, target: str) -> str:
    facts = [f"`{instruction.semantics}`"] if instruction.semantics else []
    engines = ", ".join(ENGINE_NAMES.get(e, e) for e in instruction.engines)
    if engines:
        facts.append(f"Runs on: {engines}")
    available = [
        name
        for name in target_names()
        if get_target(name).generation >= instruction.since_generation
    ]
    missing = "" if target in available else f"; **not on {target}**"
    facts.append(f"Available on: {', '.join(available)}{missing}")
    facts += [f"Limit: {limit}" for limit in instruction.limits]
    for operand in instruction.operands:
        places = ", ".join(sorted(b.upper() for b in operand.buffers))
        kind = "written" if operand.written else "vector [P, 1]" if operand.vector else "read"
        optional = ", optional" if operand.optional else ""
        facts.append(f"`{operand.role}`: {kind} in {places}{optional}")
    return "\n".join(f"- {fact}" for fact in facts)


def _cost_here(work: LineWork, workload: Workload | None, target: str) -> str:
    """What a line costs over the whole kernel, with the share of its engine."""
    lines = [f"Executions: {work.count:,}; instructions issued: {work.issued.total_instructions:,}"]
    if work.shape is not None:
        lines[0] += f" ({work.shape.describe()})"
    engine = ENGINE_NAMES.get(work.engine, work.engine)
    share = _share(work, workload)
    lines.append(f"{engine}: {nanoseconds(work.engine_ns)}{share}")
    moved = work.issued.hbm_read_bytes + work.issued.hbm_write_bytes
    if moved:
        text = f"HBM: {size(moved)} in {work.issued.dma_descriptors:,} descriptors"
        if work.descriptor_bytes is not None:
            text += f" of {size(work.descriptor_bytes)}"
        lines.append(text)
    if work.reload_factor is not None and work.reload_factor > 1:
        over = ", ".join(f"`{name}` (line {line})" for line, name, _ in work.reload_loops)
        again = f": the same in every iteration over {over}" if over else ""
        lines.append(f"Every byte is read {work.reload_factor:.3g} times{again}")
    if work.sbuf_live_bytes and workload is not None and workload.sbuf_peak_line == work.line:
        lines.append(f"SBUF is fullest here: {size(work.sbuf_live_bytes)} per partition")
    traced = work.provenance is not Provenance.ESTIMATED
    head = f"**Here, {'traced' if traced else 'estimated'} for {target}**\n"
    return head + "\n".join(f"- {line}" for line in lines)


def _share(work: LineWork, workload: Workload | None) -> str:
    total = workload.issued.engine_ns.get(work.engine, 0.0) if workload is not None else 0.0
    return f", {100 * work.engine_ns / total:.0f} % of this engine's time" if total > 0 else ""


def loop_page(loop: LoopWork, end_line: int, workload: Workload) -> str:
    """Markdown for a hover on a loop: its trips and the work of its scope."""
    trips = "an unknown number of" if loop.trips is None else f"{loop.trips:,}"
    head = f"**Loop over `{loop.variable}`**: {trips} iterations"
    if loop.total_trips is not None and loop.total_trips != loop.trips:
        head += f", {loop.total_trips:,} over the whole kernel"
    inside = [w for w in workload.lines if loop.line <= w.line <= end_line]
    lines = []
    engines: dict[str, float] = {}
    for work in inside:
        for engine, ns in work.issued.engine_ns.items():
            engines[engine] = engines.get(engine, 0.0) + ns
    for engine, ns in sorted(engines.items(), key=lambda item: -item[1]):
        total = workload.issued.engine_ns.get(engine, 0.0)
        share = f" ({100 * ns / total:.0f} % of the kernel's)" if total > 0 else ""
        if ns > 0:
            lines.append(f"{ENGINE_NAMES.get(engine, engine)}: {nanoseconds(ns)}{share}")
    moved = sum(w.issued.hbm_read_bytes + w.issued.hbm_write_bytes for w in inside)
    if moved:
        lines.append(f"HBM: {size(moved)}")
    issued = sum(w.issued.total_instructions for w in inside)
    if issued:
        lines.append(f"Instructions: {issued:,}")
    lines += [
        _waits(wait)
        for wait in workload.dependences
        if (wait.loop_line, wait.variable) == (loop.line, loop.variable)
        and wait.waiting is not Waiting.PRODUCT
    ][:MOST_WAITS]
    unknown = [line for line, _ in workload.unknowns if loop.line <= line <= end_line]
    if unknown:
        lines.append(f"Not counted: line{'s' * (len(unknown) > 1)} {', '.join(map(str, unknown))}")
    body = "\n".join(f"- {line}" for line in lines)
    return f"{head}\n\n{body}" if body else head


def _waits(wait: Dependence) -> str:
    """Why the iterations of a loop cannot overlap."""
    if wait.waiting is Waiting.CARRIED:
        return f"Each iteration needs `{wait.tensor}` (line {wait.line}) of the one before"
    return f"Each iteration waits until the one before has used `{wait.tensor}` (line {wait.line})"


def allocation_page(allocation: AllocationWork, workload: Workload, target: str) -> str:
    """Markdown for a hover on an on-chip buffer: its size and the kernel's peak."""
    shape = ", ".join(map(str, allocation.shape))
    where = allocation.buffer.upper()
    capacity = _capacity(get_target(target), allocation.buffer)
    share = f", {100 * allocation.partition_bytes / capacity:.1f} % of {where}" if capacity else ""
    lines = [
        f"**`{allocation.name}`**: {allocation.dtype}[{shape}] in {where}",
        f"- {size(allocation.partition_bytes)} per partition{share}",
    ]
    sbuf = allocation.buffer == "sbuf"
    peak = workload.sbuf_peak_bytes if sbuf else workload.psum_peak_bytes
    if peak is not None and capacity:
        lines.append(f"- Fullest moment of the kernel: {size(peak)} of {size(capacity)}")
    holders = workload.sbuf_holders if sbuf else workload.psum_holders
    if len(holders) > 1:
        at = workload.sbuf_peak_line if sbuf else workload.psum_peak_line
        named = ", ".join(
            f"`{h.name or 'a result'}` {size(h.partition_bytes)}" for h in holders[:3]
        )
        lines.append(f"- Alive then, at line {at}: {named}")
    return "\n".join((lines[0], "", *lines[1:]))


def _capacity(target: Target, buffer: str) -> float | None:
    if buffer == "psum":
        return target.get("psum_partition_bytes")
    whole, reserved = target.get("sbuf_partition_bytes"), target.get("sbuf_reserved_bytes")
    return None if whole is None else whole - (reserved or 0)
