"""A page about what bounds a kernel and what could be gained, as Markdown. Knows no LSP."""

from __future__ import annotations

from collections.abc import Sequence

from accelopt_lsp.nki.figures import latency_text, size_text, time_text
from accelopt_lsp.nki.profile import EngineUse, Profile, Provenance
from accelopt_lsp.nki.reference.pages import ENGINE_NAMES
from accelopt_lsp.server.hover_pages import strategy_line
from accelopt_lsp.server.snapshot import KernelView, Learned
from accelopt_lsp.server.wording import gaps, lens_title

MOST_LINES = 8
MOST_GAPS = 6
LEAST_SHARE = 0.005


def explanation(kernel: KernelView, lines: Sequence[str], learned: Sequence[Learned]) -> str:
    """Everything that is known of a kernel's time.

    Args:
        lines: of the file's text, for excerpts.
        learned: strategies of the optimization memory that fit.
    """
    parts = [f"# {kernel.qualname}", lens_title(kernel)]
    profile = kernel.profile
    if profile is not None:
        parts += [
            _section("What bounds it", _bounds(kernel, profile)),
            _section("Where the time goes", _dear_lines(profile, lines)),
            _section("What waits for what", _gaps(profile)),
            _section("What could be gained at most", _what_ifs(profile)),
            _section("Memory and traffic", _traffic(kernel, profile)),
        ]
    parts.append(_section("Learned before", [f"- {strategy_line(one)}" for one in learned]))
    if profile is not None:
        parts.append(_section("Remarks", [f"- {note}" for note in profile.notes]))
        if profile.provenance is Provenance.ESTIMATED:
            parts.append(
                'These figures are estimated from the source. "Profile" simulates the kernel, and '
                "then says who waited for whom and what could be gained."
            )
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(title: str, rows: Sequence[str]) -> str:
    return f"## {title}\n\n" + "\n".join(rows) if rows else ""


def _bounds(kernel: KernelView, profile: Profile) -> list[str]:
    shares = sorted((profile.bounded_shares or {}).items(), key=lambda item: -item[1])
    rows = [
        f"- {name.replace('_', ' ')}: {100 * share:.1f} % of the time"
        for name, share in shares
        if share >= LEAST_SHARE
    ]
    if not rows and profile.bound is not None:
        rows = [f"- bound by {profile.bound}"]
    if profile.engines:
        rows += [_engine(use) for use in profile.engines if use.busy >= LEAST_SHARE]
    else:
        busy = sorted(profile.engine_busy_ms.items(), key=lambda item: -item[1])
        rows += [f"- {_name(e)}: busy {latency_text(ms)}" for e, ms in busy if ms > 0]
        rows += _shared(kernel, profile)
    return rows


def _shared(kernel: KernelView, profile: Profile) -> list[str]:
    """Queues and ports, which bound an estimate as engines do."""
    ceilings = kernel.workload.ceilings_ns if kernel.workload is not None else {}
    waiting = [(ns, name) for name, ns in ceilings.items() if name not in profile.engine_busy_ms]
    return [
        f"- {name}: {time_text(ns)}, "
        + ("one transfer after another" if name.endswith("queue") else "two engines in turn")
        for ns, name in sorted(waiting, reverse=True)
    ]


def _engine(use: EngineUse) -> str:
    text = f"- {_name(use.engine)}: busy {100 * use.busy:.0f} % of the time"
    if use.attainable:
        reached = 100 * use.achieved / use.attainable
        text += f", then at {reached:.0f} % of the rate that it can reach"
    if use.mean_bytes is not None:
        text += f" ({use.instructions:,} transfers, descriptors of {size_text(use.mean_bytes)})"
    return text


def _dear_lines(profile: Profile, lines: Sequence[str]) -> list[str]:
    critical = any(row.critical_ms for row in profile.lines)
    weighed = [
        (weight, row)
        for row in profile.lines
        if (weight := row.critical_ms if critical else row.busy_ms)
    ]
    weighed.sort(key=lambda item: -item[0])
    rows = []
    for weight, row in weighed[:MOST_LINES]:
        share = f" ({100 * weight / profile.latency_ms:.0f} %)" if profile.latency_ms else ""
        text = lines[row.line - 1].strip() if 1 <= row.line <= len(lines) else ""
        code = f" `{text.replace('`', '')}`" if text else ""
        rows.append(f"- line {row.line}, {_name(row.engine)}: {latency_text(weight)}{share}{code}")
    if rows:
        kind = "on the critical path" if critical else "of engine time"
        rows.insert(0, f"The dearest lines, by milliseconds {kind}:\n")
    return rows


def _gaps(profile: Profile) -> list[str]:
    latency = profile.latency_ms
    return [
        f"- {_name(gap.engine)} {gap.reason()}: {latency_text(gap.total_ms)} in {gaps(gap.count)}"
        for gap in (profile.idle or ())[:MOST_GAPS]
        if latency and gap.total_ms >= LEAST_SHARE * latency
    ]


def _what_ifs(profile: Profile) -> list[str]:
    found = sorted(profile.what_ifs or (), key=lambda w: w.latency_ms)
    return [
        f"- If {w.condition()}: {latency_text(w.latency_ms)}, at most {w.speedup:.2f} times as fast"
        for w in found
    ]


def _traffic(kernel: KernelView, profile: Profile) -> list[str]:
    issued, work = profile.issued, kernel.workload
    read = f"- HBM: {size_text(issued.hbm_read_bytes)} read"
    if work is not None and work.compulsory_read_bytes is not None:
        read += f" ({size_text(work.compulsory_read_bytes)} if every byte were read once)"
    rows = [f"{read}, {size_text(issued.hbm_write_bytes)} written"]
    for memory in ("sbuf", "psum"):
        peak = getattr(work, f"{memory}_peak_bytes", None)
        line = getattr(work, f"{memory}_peak_line", None)
        if peak and line is not None:
            rows.append(
                f"- {memory.upper()}: at most {size_text(peak)} a partition, at line {line}"
            )
    return rows


def _name(engine: str) -> str:
    return ENGINE_NAMES.get(engine, engine)
