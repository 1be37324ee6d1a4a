"""Percent of peak: attainable time by a yardstick over the kernel's latency.

    peak latency = max(vector FLOPs / vector peak, matmul FLOPs / matmul peak, bytes / HBM rate)

Source: AccelOpt paper (MLSys 2026), section on NKIBench. The ``compulsory`` basis uses the
same formula without vector FLOPs: each input and output byte once, and the FLOPs of the true
matrix products that the kernel issues.
"""

from __future__ import annotations

from attrs import frozen

from accelopt_lsp.nki.dtypes import DType
from accelopt_lsp.nki.targets import Target


@frozen(slots=True)
class Yardstick:
    """Work that a problem needs at least: FLOPs and HBM bytes."""

    vector_flops: float
    matmul_flops: float
    hbm_bytes: float


def matmul_peak(target: Target, dtype: DType) -> float:
    """Peak of the Tensor Engine in FLOP/s for inputs of ``dtype``."""
    name = {4: "matmul_peak_fp32", 1: "matmul_peak_fp8"}.get(dtype.nbytes, "matmul_peak_16bit")
    return target[name] * 1e12


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
