"""Percent of peak: attainable time by a yardstick over the kernel's latency.

    peak latency = max(vector FLOPs / vector peak, matmul FLOPs / matmul peak, bytes / HBM rate)

Source: AccelOpt paper (MLSys 2026), section on NKIBench (:mod:`~accelopt_lsp.nki.nkibench` has the
figures of its problems). The ``compulsory`` basis uses the
same formula without vector FLOPs: each input and output byte once, and the FLOPs of the true
matrix products that the kernel issues, each at the peak of its own type.
"""

from __future__ import annotations

from attrs import frozen

from accelopt_lsp.nki.dtypes import DType
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.nki.work import Work, matmul_passes


@frozen(slots=True)
class Yardstick:
    """Work that a problem needs at least: FLOPs and HBM bytes.

    Products of several types: those of another type count as the FLOPs that take as long.
    """

    vector_flops: float
    matmul_flops: float
    hbm_bytes: float


def matmul_peak(target: Target, dtype: DType) -> float:
    """Peak of the Tensor Engine in FLOP/s for inputs of ``dtype``."""
    name = {4: "matmul_peak_fp32", 1: "matmul_peak_fp8"}.get(dtype.nbytes, "matmul_peak_16bit")
    return target[name] * 1e12


def product_peak(target: Target, work: Work) -> float:
    """Peak of the Tensor Engine in FLOP/s at instructions like this one, all of it in use.

    Rows that pass two or four at a time count that often. Transposes of fp32 take fewer passes
    than its products where the target says so, and long chains of transposes run faster.
    """
    peak = target["matmul_peak_16bit"] / max(1, work.passes)
    if work.passes == matmul_passes(4):
        peak = target["matmul_peak_fp32"]
    if work.is_transpose:
        if work.passes > 1:
            peak *= work.passes / target["pe_transpose_passes"]
        peak *= target.get("pe_background_transpose") or 1.0
    return peak * work.rows * 1e12


def peak_latency_ms(yardstick: Yardstick, target: Target, dtype: DType) -> float:
    """Attainable time in milliseconds by the formula above."""
    seconds = max(
        yardstick.vector_flops / (target["vector_peak"] * 1e9),
        yardstick.matmul_flops / matmul_peak(target, dtype),
        yardstick.hbm_bytes / (target["hbm_bandwidth"] * 1e9),
    )
    return seconds * 1e3


def percent_of_peak(latency_ms: float, yardstick: Yardstick, target: Target, dtype: DType) -> float:
    """Percent of peak that a latency reaches; may pass 100 where work moves between engines."""
    return 100.0 * peak_latency_ms(yardstick, target, dtype) / latency_ms
