"""Times and sizes as people read them, with three digits that count."""

from __future__ import annotations


def short(number: float) -> str:
    """``1234``, ``45.4``, ``1.75``, ``0.05``; no zeros at the end of a fraction."""
    if abs(number) >= 99.95:
        return f"{number:.0f}"
    if abs(number) < 1:
        return f"{number:.3g}"
    text = f"{number:.1f}" if abs(number) >= 9.995 else f"{number:.2f}"
    return text.rstrip("0").removesuffix(".")


def size_text(count: float) -> str:
    """Bytes in binary units: ``512 B``, ``64 KiB``, ``1.5 MiB``."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{short(count / size)} {unit}"
    return f"{short(count)} B"


def time_text(ns: float) -> str:
    """Nanoseconds in the unit that fits: ``213 ns``, ``14 µs``, ``1.75 ms``."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return f"{short(ns / size)} {unit}"
    return f"{short(ns)} ns"


def latency_text(ms: float) -> str:
    """Milliseconds in the unit that fits, as :func:`time_text`."""
    return time_text(ms * 1e6)
