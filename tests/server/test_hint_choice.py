"""Calm: at most one hint a line, none about trifles. Rich: everything."""

from __future__ import annotations

import pytest

from accelopt_lsp.server.hint_choice import HINT_KINDS, HintChoice
from accelopt_lsp.server.snapshot import HintView

HINTS = (
    HintView(1, "loop", "4 trips", share=0.001),
    HintView(2, "loop", "n trips", repeats_source=True),
    HintView(3, "compute", "1 µs", share=0.2),
    HintView(3, "dma", "load 1 KiB", share=0.3),
    HintView(3, "shape", "f32[128,1] in SBUF", share=0.3),
    HintView(4, "compute", "64 ns", share=0.004),
    HintView(5, "allocation", "SBUF 12 KiB/partition", share=0.06),
    HintView(5, "shape", "f32[128,1024] in SBUF", share=0.02),
    HintView(6, "compute", "64 ns each"),
    HintView(7, "allocation", "SBUF 4 KiB/partition", share=0.04),
)
CHOICES = {
    "calm": (HintChoice(), ["4 trips", "load 1 KiB", "SBUF 12 KiB/partition", "64 ns each"]),
    "rich": (HintChoice(rich=True), [h.text for h in HINTS]),
    "no threshold": (
        HintChoice(threshold=0),
        [
            "4 trips",
            "load 1 KiB",
            "64 ns",
            "SBUF 12 KiB/partition",
            "64 ns each",
            "SBUF 4 KiB/partition",
        ],
    ),
    "high threshold": (HintChoice(threshold=25), ["4 trips", "load 1 KiB", "64 ns each"]),
    "shapes": (
        HintChoice(kinds=frozenset({"shape"})),
        ["f32[128,1] in SBUF", "f32[128,1024] in SBUF"],
    ),
    "compute": (HintChoice(kinds=frozenset({"compute"})), ["1 µs", "64 ns each"]),
    "nothing": (HintChoice(kinds=frozenset()), []),
}


@pytest.mark.parametrize(("choice", "texts"), CHOICES.values(), ids=CHOICES)
def test_choice(choice: HintChoice, texts: list[str]) -> None:
    chosen = list(choice.of(HINTS))
    assert [hint.text for _, hint in chosen] == texts
    assert all(HINTS[number] is hint for number, hint in chosen)


@pytest.mark.parametrize("kind", HINT_KINDS)
def test_each_kind_can_be_switched_off(kind: str) -> None:
    hints = [HintView(n, k, k, share=0.5) for n, k in enumerate(HINT_KINDS, 1)]
    choice = HintChoice(kinds=frozenset(HINT_KINDS) - {kind})
    assert [h.kind for _, h in choice.of(hints)] == [k for k in HINT_KINDS if k != kind]


def test_a_shape_gives_way_to_a_time_that_a_run_has_made_smaller() -> None:
    hints = [
        HintView(1, "compute", "6 µs simulated", share=0.14),
        HintView(1, "shape", "f32[1]", share=0.15),
    ]
    assert [hint.kind for _, hint in HintChoice().of(hints)] == ["compute"]


def test_the_same_words_stand_once_on_a_line() -> None:
    hints = [HintView(1, "shape", "f32[1]", detail) for detail in ("of a tile", "of a result")]
    assert [hint.detail for _, hint in HintChoice(rich=True).of(hints)] == ["of a tile"]
