"""Figures derived from the counters of HBM traffic."""

from __future__ import annotations

from collections.abc import Mapping


def spill_share(counters: Mapping[str, float | None]) -> float | None:
    """Spilled and re-loaded bytes as a share of the HBM traffic that they are part of.

    ``counters``: by neuron-profile's summary names. None where one of them is unknown.
    """
    spilled = _sum(counters, "spill_save_bytes", "spill_reload_bytes")
    moved = _sum(counters, "hbm_read_bytes", "hbm_write_bytes")
    if spilled is None or moved is None:
        return None
    return spilled / moved if moved else 0.0


def _sum(counters: Mapping[str, float | None], *names: str) -> float | None:
    total = 0.0
    for name in names:
        value = counters.get(name)
        if value is None:
            return None
        total += value
    return total
