"""Traces for Perfetto: the structure that its JSON importer needs, and what they show."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from accelopt_lsp.nki import costs
from accelopt_lsp.nki.dtypes import BFLOAT16
from accelopt_lsp.profiler import timeline_export
from accelopt_lsp.profiler.simulator.timeline import Schedule, simulate
from accelopt_lsp.profiler.simulator.trace import Trace
from accelopt_lsp.profiler.timeline_export import write_chrome_trace
from tests.timeline.builder import TRN1, Builder, rmsnorm, silu, tiled_matmul
from tests.timeline.test_laws import pressure


def ahead() -> Trace:
    """A chain on Vector, and products that could run far ahead of it."""
    b = Builder()
    chain = b.call(1, "nl.load", src=b.hbm((128, 2048)))
    left = b.call(2, "nl.load", src=b.hbm((128, 2048), BFLOAT16))
    for i in range(16):
        chain = b.call(3, "nl.add", into=b.tensor((128, 2048), site=3), x=chain, y=1.0)
        piece = left.columns(i * 128, i * 128 + 128)
        b.call(4, "nisa.nc_matmul", stationary=piece, moving=piece)
    b.call(5, "nl.store", dst=b.hbm((128, 2048)), value=chain)
    return b.trace


TRACES = {
    "matmul": lambda: tiled_matmul(512, 512, 1024),
    "silu": lambda: silu(512, 4096),
    "rmsnorm": lambda: rmsnorm(1024, 1024),
    "spilling": lambda: pressure(60),
    "ahead": ahead,
    "empty": lambda: Trace(tiled_matmul(128, 128, 512).dialect),
}


@pytest.fixture(params=sorted(TRACES))
def exported(
    request: pytest.FixtureRequest, tmp_path: Path
) -> tuple[Schedule, list[dict[str, Any]]]:
    schedule = simulate(TRACES[request.param](), TRN1)
    path = tmp_path / "timeline.json"
    write_chrome_trace(schedule, path, "kernel.py")
    return schedule, json.loads(path.read_text("utf-8"))["traceEvents"]


def by_track(events: list[dict[str, Any]]) -> dict[tuple[int, int], list[dict[str, Any]]]:
    tracks: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append(event)
    return tracks


def names(events: list[dict[str, Any]]) -> dict[tuple[int, int], str]:
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}


def test_events_of_one_track_follow_each_other(exported):
    _, events = exported
    for track in by_track(events).values():
        for before, after in pairwise(track):
            assert round(before["ts"] + before["dur"], 3) <= after["ts"]
        assert all(event["dur"] >= 0 for event in track)


def test_every_instruction_is_on_a_named_track(exported):
    schedule, events = exported
    named = names(events)
    tracks = by_track(events)
    assert tracks.keys() <= named.keys()
    shown = [e for t, found in tracks.items() if named[t] != "critical path" for e in found]
    assert len(shown) == len(schedule.stream)
    for event in shown:
        assert event["args"]["source"] == f"kernel.py:{event['args']['line']}"


def test_arrows_have_two_ends_that_lie_in_events(exported):
    _, events = exported
    tracks = by_track(events)
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert starts.keys() == ends.keys()
    for number, start in starts.items():
        end = ends[number]
        assert start["ts"] <= end["ts"]
        assert end["bp"] == "e"
        for arrow in (start, end):
            found = tracks[arrow["pid"], arrow["tid"]]
            assert any(e["ts"] <= arrow["ts"] <= round(e["ts"] + e["dur"], 3) for e in found)


def test_the_critical_path_covers_the_run(exported):
    schedule, events = exported
    named = names(events)
    path = [
        e for t, found in by_track(events).items() if named[t] == "critical path" for e in found
    ]
    assert sum(e["dur"] for e in path) == pytest.approx(schedule.latency_ns / 1e3, abs=1e-2)


def test_counters_advance_in_time(exported):
    schedule, events = exported
    moments: dict[str, list[float]] = defaultdict(list)
    for event in events:
        if event["ph"] == "C":
            moments[event["name"]].append(event["ts"])
            assert all(value >= 0 for value in event["args"].values())
    assert bool(moments) == bool(len(schedule.stream))
    for found in moments.values():
        assert found == sorted(found)


def test_the_traffic_shown_is_the_traffic_there_is():
    schedule = simulate(silu(512, 4096), TRN1)
    step = schedule.latency_ns / timeline_export.SAMPLES
    read, written = timeline_export._traffic(schedule, step)
    assert sum(read) * step == pytest.approx(512 * 4096 * 4)
    assert sum(written) * step == pytest.approx(512 * 4096 * 4)


def test_a_timeline_over_an_unknown_instruction_has_no_total(monkeypatch, tmp_path):
    known = {name: f for name, f in costs.FORMULAS.items() if name != "reciprocal"}
    monkeypatch.setattr(costs, "FORMULAS", known)
    path = tmp_path / "timeline.json"
    write_chrome_trace(simulate(silu(128, 1024), TRN1), path)
    about = json.loads(path.read_text("utf-8"))["otherData"]
    assert about == {
        "target": "trn1",
        "latency_ms": None,
        "unknown_instructions": ["reciprocal"],
    }


def test_spills_stand_out(tmp_path):
    path = tmp_path / "timeline.json"
    write_chrome_trace(simulate(pressure(60), TRN1), path)
    events = json.loads(path.read_text("utf-8"))["traceEvents"]
    spilled = [e for e in events if e.get("cat") == "spill"]
    assert spilled
    assert {names(events)[e["pid"], e["tid"]].rstrip(" 0123456789") for e in spilled} == {
        "dma loads",
        "dma spills",
    }


def test_long_traces_leave_regions_out(monkeypatch, tmp_path):
    schedule = simulate(silu(512, 4096), TRN1)
    write_chrome_trace(schedule, tmp_path / "all.json")
    monkeypatch.setattr(timeline_export, "MOST_DESCRIBED", 10)
    monkeypatch.setattr(timeline_export, "MOST_ARROWS", 5)
    write_chrome_trace(schedule, tmp_path / "short.json")
    short = json.loads((tmp_path / "short.json").read_text("utf-8"))["traceEvents"]
    assert sum(e["ph"] == "s" for e in short) <= 5
    assert (tmp_path / "short.json").stat().st_size < (tmp_path / "all.json").stat().st_size
