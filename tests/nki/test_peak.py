"""Percent of peak against the published NKIBench yardstick and measurements."""

from __future__ import annotations

import pytest

from accelopt_lsp.nki.costs import tensor_engine_ns
from accelopt_lsp.nki.dtypes import get_dtype
from accelopt_lsp.nki.operands import Buffer, OperandType
from accelopt_lsp.nki.peak import (
    Yardstick,
    matmul_peak,
    peak_latency_ms,
    percent_of_peak,
    product_peak,
)
from accelopt_lsp.nki.targets import get_target
from accelopt_lsp.nki.work import Work, matmul_work, packed_matmul_work

TRN1 = get_target("trn1")
F32, BF16, FP8 = (get_dtype(n) for n in ("f32", "bf16", "f8e4m3"))
GIBIBYTES = 410 * 2**30


def silu(m: int, n: int) -> Yardstick:
    return Yardstick(3 * m * n, 0, 2 * m * n * 4)


def matmul(m: int, n: int, k: int) -> Yardstick:
    return Yardstick(0, 2 * m * n * k, 4 * (m * k + k * n + m * n))


# Measured on Trainium 1 and published with NKIBench; the last column is worked out by hand:
# silu moves 2 x 4096 x 7168 x 4 B = 234.9 MB, which takes 0.5335 ms at 410 GiB/s;
# the matrix products need 2MNK / 23.75 TFLOP/s = 21.699, 7.729 and 0.7234 ms;
# adamw does 7 x 10944 x 2048 operations, which take 0.5472 ms at 286.72 GFLOP/s, but moves
# 5 x 10944 x 2048 x 4 B = 448.3 MB in 1.0182 ms.
PUBLISHED = [
    ("silu", silu(4096, 7168), 1.333232, 40.02),
    ("matmul", matmul(4096, 12288, 5120), 35.199742, 61.65),
    ("transpose_matmul", matmul(4096, 10944, 2048), 9.610311, 80.43),
    (
        "rmsnorm_matmul",
        Yardstick(
            4 * 4096 * 1024, 2 * 4096 * 2048 * 1024, 4 * (4096 * 1024 + 1024 * 2048 + 4096 * 2048)
        ),
        1.05576,
        68.52,
    ),
    ("adamw", Yardstick(7 * 10944 * 2048, 0, 5 * 10944 * 2048 * 4), 1.999829, 50.92),
]


@pytest.mark.parametrize(
    ("yardstick", "latency_ms", "percent"),
    [p[1:] for p in PUBLISHED],
    ids=[p[0] for p in PUBLISHED],
)
def test_published_baselines(yardstick, latency_ms, percent):
    assert percent_of_peak(latency_ms, yardstick, TRN1, F32) == pytest.approx(percent, abs=0.05)


def test_bandwidth_is_410_gibibytes_a_second():
    assert TRN1["hbm_bandwidth"] * 1e9 == pytest.approx(GIBIBYTES, rel=1e-5)
    assert peak_latency_ms(Yardstick(0, 0, GIBIBYTES), TRN1, F32) == pytest.approx(1000, rel=1e-5)


def test_the_slowest_resource_decides():
    parts = [Yardstick(3e9, 0, 0), Yardstick(0, 5e12, 0), Yardstick(0, 0, 7e9)]
    whole = Yardstick(3e9, 5e12, 7e9)
    times = [peak_latency_ms(p, TRN1, F32) for p in parts]
    assert peak_latency_ms(whole, TRN1, F32) == max(times)


def test_matmul_peak_depends_on_the_input_type():
    assert matmul_peak(TRN1, F32) == 23.75e12
    assert matmul_peak(TRN1, BF16) == 91.75e12
    assert matmul_peak(get_target("trn2"), FP8) == pytest.approx(157.3e12)


def product(dtype: str, **options: bool) -> Work:
    pair = (2,) if options.get("double_row") else ()
    left, right = (OperandType((128, *pair, n), get_dtype(dtype), Buffer.SBUF) for n in (128, 512))
    return matmul_work(left, right, **{"is_transpose": False, **options})


PACKED = packed_matmul_work(
    *(OperandType((128, n), get_dtype("float8_e4m3fn_x4"), Buffer.SBUF) for n in (128, 512))
)
TRANSPOSE = product("f32", is_transpose=True)
# In units of the 16-bit rate of Trainium 2 and 3, 2 x 128 x 128 x 2.4 GHz.
PEAKS = [
    ("trn2", product("bf16"), 1),
    ("trn2", product("f32"), 1 / 4),
    ("trn2", product("f8e4m3"), 1),
    ("trn2", product("f8e4m3", double_row=True), 2),
    ("trn2", TRANSPOSE, 1 / 2),
    ("trn3", TRANSPOSE, 1),
    ("trn3", product("bf16", is_transpose=True), 2),
    ("trn3", PACKED, 4),
]


@pytest.mark.parametrize(("target", "work", "times"), PEAKS)
def test_the_peak_of_an_instruction_is_that_of_its_type(target, work, times):
    found = product_peak(get_target(target), work)
    assert found == pytest.approx(times * 2 * 128 * 128 * 2.4e9, rel=1e-3)


@pytest.mark.parametrize(("target", "work", "times"), PEAKS)
def test_no_instruction_is_faster_than_its_peak(target, work, times):
    target = get_target(target)
    seconds = tensor_engine_ns(work, target) * 1e-9
    if work.is_transpose:
        seconds /= target.get("pe_background_transpose") or 1
    assert work.flops / seconds <= product_peak(target, work) * 1.001


def test_halving_the_latency_doubles_the_percentage():
    yardstick = silu(4096, 7168)
    assert percent_of_peak(1.0, yardstick, TRN1, F32) == pytest.approx(
        2 * percent_of_peak(2.0, yardstick, TRN1, F32)
    )
