"""How the command line shows where a kernel's time goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from accelopt_lsp.nki.profile import EngineUse, IdleGap, Profile, WhatIf

BAR_WIDTH = 50
MOST_GAPS = 6
LEAST_SHARE = 0.005
"""Shares below this are not worth a word."""
_COLOURS = {
    "tensor": "blue",
    "vector": "green",
    "scalar": "cyan",
    "gpsimd": "bright_green",
    "dma_bandwidth": "yellow",
    "dma_latency": "bright_yellow",
    "engine_latency": "bright_cyan",
    "sync": "magenta",
    "room": "red",
    "launch": "white",
}
_LETTERS = {
    "tensor": "T",
    "vector": "V",
    "scalar": "S",
    "gpsimd": "G",
    "dma_bandwidth": "D",
    "dma_latency": "d",
    "engine_latency": "e",
    "sync": "s",
    "room": "r",
    "launch": "l",
}


def show_attribution(out: Console, profile: Profile) -> None:
    """What bounded the time, what every engine achieved and waited for, and the what-ifs."""
    if profile.bounded_shares:
        out.print()
        out.print(share_bar(profile.bounded_shares))
    if profile.engines:
        out.print()
        out.print(_engines(profile.engines))
    if profile.idle and profile.latency_ms:
        out.print()
        out.print(_gaps(profile.idle, profile.latency_ms))
    if profile.what_ifs is not None:
        out.print()
        out.print(_what_ifs(profile.what_ifs))


def share_bar(shares: Mapping[str, float]) -> Text:
    """A bar of bounded shares with its legend; letters tell parts apart without colours."""
    ranked = sorted(shares.items(), key=lambda item: -item[1])
    bar = Text("bounded by  ", "cyan")
    filled = total = 0.0
    for name, share in ranked:
        total += share
        cells = round(total * BAR_WIDTH) - round(filled * BAR_WIDTH)
        filled = total
        bar.append(_LETTERS.get(name, "?") * cells, _COLOURS.get(name, ""))
    shown = [(name, share) for name, share in ranked if share >= LEAST_SHARE]
    bar.append("\n            ")
    for number, (name, share) in enumerate(shown):
        bar.append(", " if number else "")
        bar.append(_LETTERS.get(name, "?"), _COLOURS.get(name, ""))
        bar.append(f" {name.replace('_', ' ')} {share:.1%}")
    return bar


def rate(value: float | None, unit: str) -> str:
    """``19.7 TFLOP/s``, ``267 GB/s``, ``102.7 elements/cycle``."""
    if value is None:
        return "unknown"
    if unit == "elements/cycle":
        return f"{value:.1f}"
    for prefix, factor in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if value >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def _table(title: str, headings: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, title=title, title_justify="left")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left", no_wrap=True)
    return table


def _engines(uses: Sequence[EngineUse]) -> Table:
    table = _table("achieved while busy", ("engine", "busy", "achieved", "attainable", ""))
    for use in uses:
        elements = use.unit == "elements/cycle"
        remark = "elements/cycle" if elements else ""
        if use.mean_bytes is not None:
            remark = f"{use.instructions:,} transfers, descriptors of {use.mean_bytes:,.0f} B"
        table.add_row(
            use.engine,
            f"{use.busy:.0%}",
            rate(use.achieved, use.unit),
            rate(use.attainable, use.unit),
            Text(remark, "dim"),
        )
    return table


def _gaps(gaps: Sequence[IdleGap], latency_ms: float) -> Table:
    table = _table("engines stood still", ("engine", "time", "gaps", "longest", "because"))
    table.columns[-1].justify = "left"
    for gap in gaps[:MOST_GAPS]:
        table.add_row(
            gap.engine,
            f"{gap.total_ms / latency_ms:.1%}",
            f"{gap.count:,}",
            f"{gap.largest_ms * 1e3:.1f} µs",
            gap.reason(),
        )
    return table


def _what_ifs(found: Sequence[WhatIf]) -> Table:
    table = _table("what if", ("", "latency", "at most"))
    for what_if in found:
        ms = what_if.latency_ms
        latency = f"{ms:.3f} ms" if ms >= 0.1 else f"{ms * 1e3:.1f} µs"
        table.add_row(what_if.condition(), latency, f"{what_if.speedup:.2f}x")
    return table
