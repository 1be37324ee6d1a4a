"""Figures and facts as people read them: lens titles, lines of a run. Knows no LSP."""

from __future__ import annotations

from accelopt_lsp.nki.figures import latency_text, size_text
from accelopt_lsp.nki.profile import Profile, Provenance
from accelopt_lsp.nki.reference.pages import ENGINE_NAMES
from accelopt_lsp.server.snapshot import KernelView

MOST_GAPS = 3
"""Idle gaps that an explanation names."""


def gaps(count: int) -> str:
    return "1 gap" if count == 1 else f"{count:,} gaps"


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
        text = f"{latency_text(profile.latency_ms)} {profile.provenance}"
        interval = profile.uncertainty
        if interval is not None:
            text += f" ({latency_text(interval.low_ms)} to {latency_text(interval.high_ms)})"
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
            facts.append(f"{name}: busy {latency_text(row.busy_ms)}, {share}")
    for gap in profile.idle or ():
        if gap.line == line and gap.total_ms >= 0.01 * latency:
            name = ENGINE_NAMES.get(gap.engine, gap.engine)
            facts.append(
                f"{name} {gap.reason().replace(f' of line {line}', '')}: "
                f"{latency_text(gap.total_ms)} in {gaps(gap.count)}"
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
        lines += [f"{ENGINE_NAMES.get(e, e)}: busy {latency_text(ms)}" for e, ms in busy if ms > 0]
        for gap in (profile.idle or ())[:MOST_GAPS]:
            name = ENGINE_NAMES.get(gap.engine, gap.engine)
            lines.append(f"{name} idle {latency_text(gap.total_ms)}: {gap.reason()}")
        issued = profile.issued
        lines.append(
            f"HBM: {size_text(issued.hbm_read_bytes)} read, "
            f"{size_text(issued.hbm_write_bytes)} written"
        )
        lines += profile.notes
    return "\n".join(lines)
