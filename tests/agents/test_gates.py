"""What must be refused, and what must not."""

from __future__ import annotations

import pytest
from attrs import evolve

from accelopt_lsp.agents.gates import Gates, narrowed, static_floor
from accelopt_lsp.nki.arguments import KernelArguments, parse_spec
from accelopt_lsp.nki.profile import Issued, Profile, Provenance
from accelopt_lsp.nki.targets import get_target
from accelopt_lsp.profiler.base import VALUES_DECIDE

HEAD = "import neuronxcc.nki as nki\nimport neuronxcc.nki.language as nl\n\n\n@nki.jit\n"
BASE = (
    HEAD
    + """def kernel(x, y):
    acc = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum)
    for k in nl.affine_range(4):
        acc += nl.matmul(x, y)
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    out[...] = nl.copy(acc)
    return out
"""
)


def arguments(x: str = "f32[1024,1024]", y: str = "f32[1024,1024]") -> KernelArguments:
    return KernelArguments(values={"x": parse_spec(x), "y": parse_spec(y)})


def profile(**changes: object) -> Profile:
    issued = Issued(
        hbm_read_bytes=32 << 20,
        hbm_write_bytes=4 << 20,
        matmul_flops=2 * 1024**3,
        engine_ns={"tensor": 2 * 1024**3 * 4 / (2 * 128 * 128 * 2.4)},
    )
    made = Profile("kernel", "trn1", "simulator", Provenance.SIMULATED, 1.0, issued=issued)
    return evolve(made, **changes)  # type: ignore[arg-type]


def gates(**changes: object) -> Gates:
    made = Gates(BASE, "kernel", arguments(), get_target("trn1"), profile())
    return evolve(made, **changes)  # type: ignore[arg-type]


def test_the_baseline_passes_its_own_gates() -> None:
    assert gates().findings(BASE, profile()) == ()


@pytest.mark.parametrize(("correct", "passes"), [(True, True), (False, False), (None, False)])
def test_only_compared_and_equal_outputs_pass(correct: bool | None, passes: bool) -> None:
    assert (gates().verified(profile(correct=correct)) == ()) is passes


def test_faster_than_possible_is_refused() -> None:
    floor = gates().floor(profile())
    assert gates().findings(BASE, profile(latency_ms=floor.hard_ms)) == ()
    (finding,) = gates().findings(BASE, profile(latency_ms=floor.hard_ms * 0.99))
    assert finding.gate == "floor"


def test_an_unknown_latency_is_refused() -> None:
    found = gates().findings(BASE, profile(latency_ms=None, unknown_instructions=("mystery",)))
    assert "mystery" in found[0].message


def test_outputs_left_unwritten_are_refused() -> None:
    half = evolve(profile().issued, hbm_write_bytes=2 << 20)
    strict = gates(written_bytes=4 << 20)
    assert strict.findings(BASE, profile()) == ()
    assert [f.gate for f in strict.findings(BASE, profile(issued=half))] == ["outputs"]


def test_outputs_of_another_type_or_shape_are_refused() -> None:
    base = profile(outputs=("f32[128,512]",))
    strict = gates(baseline=base)
    assert strict.findings(BASE, base) == ()
    assert strict.findings(BASE, profile()) == ()
    for outputs in (("bf16[128,512]",), ("f32[512,128]",), (), ("f32[128,512]",) * 2):
        (finding,) = strict.findings(BASE, evolve(base, outputs=outputs))
        assert finding.gate == "outputs"
    lenient = evolve(strict, allow_lower_precision=True)
    assert lenient.findings(BASE, evolve(base, outputs=("bf16[128,512]",))) == ()
    assert lenient.findings(BASE, evolve(base, outputs=("bf16[512,128]",)))


def test_other_instructions_when_inputs_are_there_are_refused() -> None:
    first, other = profile(stream="a"), profile(stream="b")
    assert gates().observed(first, first) == ()
    assert gates().observed(None, first) == ()
    assert gates().observed(profile(), first) == ()
    assert [f.gate for f in gates().observed(first, other)] == ["repeatable"]


def test_a_course_that_depends_on_values_needs_a_baseline_whose_course_does() -> None:
    decided = profile(notes=(f"{VALUES_DECIDE}: the profile is that of seed 0",))
    assert [f.gate for f in gates().observed(profile(), decided)] == ["values"]
    assert gates(baseline=decided).observed(profile(), decided) == ()


def test_products_in_a_narrower_type_are_refused_by_their_time() -> None:
    fast = evolve(profile().issued, engine_ns={"tensor": profile().issued.engine_ns["tensor"] / 4})
    assert [f.gate for f in gates().findings(BASE, profile(issued=fast))] == ["precision"]
    assert gates(allow_lower_precision=True).findings(BASE, profile(issued=fast)) == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("dtype=nl.float32", "dtype=nl.bfloat16"), "bfloat16"),
        (("nl.copy(acc)", "nl.copy(acc, dtype='float8_e4m3')"), "float8_e4m3"),
        (("nl.copy(acc)", "nl.copy(acc, dtype=nl.float16)"), "float16"),
    ],
)
def test_new_narrow_types_are_refused(change: tuple[str, str], message: str) -> None:
    found = narrowed(BASE, BASE.replace(*change), "kernel", arguments())
    assert any(message in text for text in found)


def test_types_that_were_there_before_are_not_refused() -> None:
    before = BASE.replace("nl.copy(acc)", "nl.copy(acc, dtype=nl.bfloat16)")
    assert narrowed(before, before.replace("range(4)", "range(2)"), "kernel", arguments()) == ()
    bf16 = arguments("bf16[1024,1024]", "bf16[1024,1024]")
    named = BASE.replace("dtype=x.dtype", "dtype=nl.bfloat16")
    assert narrowed(BASE, named, "kernel", bf16) == ()


@pytest.mark.parametrize(
    "line",
    [
        "part += nl.matmul(x, y)",
        "part[...] = nl.add(part, nl.matmul(x, y))",
        "part[0:128] = part[0:128] + nl.matmul(x, y)",
        "nisa.tensor_tensor(dst=part[0], data1=part[0], data2=x, op=nl.add)",
        "part[...] = nisa.tensor_tensor(part[...], x, nl.add)",
    ],
)
def test_adding_up_in_a_narrower_type_is_refused(line: str) -> None:
    tile = "    part = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)\n"
    text = BASE.replace("    for k", tile + "    for k").replace("acc += nl.matmul(x, y)", line)
    bf16 = arguments("bf16[1024,1024]", "bf16[1024,1024]")
    assert any("adds up in part" in m for m in narrowed(BASE, text, "kernel", bf16))
    assert narrowed(BASE, text, "kernel", arguments()) == ()


@pytest.mark.parametrize("text", ["def kernel(:", "", "x = 1"])
def test_texts_that_do_not_parse_say_nothing_about_precision(text: str) -> None:
    assert narrowed(BASE, text, "kernel", arguments()) == ()


def test_the_floor_is_the_largest_of_its_parts() -> None:
    target = get_target("trn1")
    base = profile()
    floor = static_floor(base, base, arguments(), target, written_bytes=4 << 20)
    assert floor.hbm_bytes == 12 << 20
    by_bytes = (12 << 20) / (target["hbm_bandwidth"] * 1e9) * 1e3
    by_flops = 2 * 1024**3 / (target["matmul_peak_fp32"] * 1e12) * 1e3
    assert floor.hard_ms == pytest.approx(max(by_bytes, by_flops))
    assert floor.attainable_ms > floor.hard_ms
    idle = profile(issued=Issued())
    launch = target["launch_ns"] * 1e-6
    assert static_floor(idle, idle, arguments(), target).hard_ms == pytest.approx(launch)


@pytest.mark.parametrize("faster", [4.0, 16.0])
def test_products_of_operands_that_are_cast_or_packed_may_be_as_fast_as_they_are(
    faster: float,
) -> None:
    """float32 arguments, cast to bfloat16 or packed before they are multiplied."""
    flops = 64 * 1024**3
    busy = flops * 4 / (2 * 128 * 128 * 2.4) / faster
    issued = Issued(matmul_flops=flops, engine_ns={"tensor": busy})
    base = profile(issued=issued, latency_ms=busy * 1e-6)
    floor = static_floor(base, base, arguments(), get_target("trn1"))
    assert floor.hard_ms == pytest.approx(busy * 1e-6 * 2.4 / 2.8)
    assert floor.attainable_ms == pytest.approx(busy * 1e-6 + 0.014)
    assert gates(baseline=base).findings(BASE, base) == ()


def test_what_a_rewrite_may_remove_does_not_count() -> None:
    issued = profile().issued
    busy = {"tensor": issued.engine_ns["tensor"] * 4.5}
    wasteful = profile(issued=evolve(issued, matmul_flops=9 * 1024**3, engine_ns=busy))
    target = get_target("trn1")
    floor = static_floor(profile(), wasteful, arguments(), target)
    assert floor == static_floor(profile(), profile(), arguments(), target)
