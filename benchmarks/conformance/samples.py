"""Tutorials and contributed kernels of nki-samples, against NumPy."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import sdk_examples as examples
from sdk_examples import RNG, Array, close, normal, softmax
from table import Row

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.profiler.simulator import hook, kernels


def doubled(values: Array, axis: int) -> Array:
    """Linear interpolation to twice the size of an axis, corners not aligned."""
    count = values.shape[axis]
    before = np.take(values, np.maximum(np.arange(count) - 1, 0), axis)
    behind = np.take(values, np.minimum(np.arange(count) + 1, count - 1), axis)
    pairs = np.stack([0.75 * values + 0.25 * before, 0.75 * values + 0.25 * behind], axis + 1)
    shape = list(values.shape)
    shape[axis] *= 2
    return pairs.reshape(shape)


def interpolation(*shape: int) -> Callable[[Any], None]:
    def check(kernel: Any) -> None:
        x = wanted = normal(*shape)
        for axis in range(2, len(shape)):
            wanted = doubled(wanted, axis)
        close(kernel(x), wanted)

    return check


def window(kernel: Any) -> None:
    x, size = normal(200, 160), 3
    views = np.lib.stride_tricks.sliding_window_view(x, (size, size))
    close(kernel(x, size), views.max((2, 3)))


def blocked_product(kernel: Any) -> None:
    left, right = normal(1024, 512), normal(1024, 2048)
    if kernels.unwrap(kernel) is None:
        kernel = kernels.Kernel(kernel, Dialect.LEGACY)
    close(kernel(left, right), left.T @ right, 2e-2)


def flash(kernel: Any) -> None:
    """At the one length that the kernel is written for, launched as its file launches it."""
    length = 16384
    q, k, v = (
        RNG.random(shape).astype(ml_dtypes.bfloat16)
        for shape in ((1, 128, length), (1, 128, length), (1, length, 128))
    )
    found = np.asarray(kernel[0](q, k, v, softmax_scale=0.125, use_causal_mask=False), np.float32)
    queries, keys, values = (x[0].astype(np.float32) for x in (q, k, v))
    for start in range(0, length, 1024):
        scores = 0.125 * queries[:, start : start + 1024].T @ keys
        close(found[0, start : start + 1024], softmax(scores) @ values, 1e-2)


TUTORIALS = "src/nki_samples/tutorials"
ATTENTION = f"{TUTORIALS}/attention_fwd_performance/attention_kernels.py"
ADDITION = f"{TUTORIALS}/tensor_addition"
CASES: tuple[tuple[str, str, Callable[[Any], None]], ...] = (
    *((ATTENTION, f"attn_fwd_v{n}", examples.attention(128)) for n in (1, 2)),
    *(
        (ATTENTION, f"attn_fwd_v{n}", examples.attention(1024))
        for n in ("3", "4", "5", "6", "7", "8", "8a", "9", "10", "11")
    ),
    *(
        (f"{TUTORIALS}/{file}", kernel, check)
        for file, kernel, check in examples.HEAD
        if file in (examples.MATMUL, examples.MAMBA) or "2d/" in file
    ),
    (
        f"{ADDITION}/tensor_addition_nki_kernels.py",
        "nki_tensor_add_kernel_",
        examples.addition(128, 512),
    ),
    (
        f"{ADDITION}/spmd_tensor_addition_nki_kernels.py",
        "nki_tensor_add",
        examples.addition(256, 1024),
    ),
    (
        f"{ADDITION}/spmd_multiple_nc_tensor_addition_nki_kernels.py",
        "nki_tensor_add_nc2",
        examples.addition(512, 2048),
    ),
    ("contributed/matmul.py", "matmul", blocked_product),
    ("contributed/maxpooling.py", "max_pooling_2d_stride_1", window),
    (
        "contributed/interpolate_bilinear_fwd.py",
        "interpolate_bilinear_2x_fwd",
        interpolation(2, 64, 30, 20),
    ),
    (
        "contributed/interpolate_trilinear_fwd.py",
        "interpolate_trilinear_2x_fwd",
        interpolation(1, 128, 10, 8, 8),
    ),
    ("contributed/pipelined_attention.py", "flash_fwd", flash),
)
"""File, kernel, and what checks it."""


def run(checkout: Path, options: Namespace) -> list[Row]:
    """One row a kernel."""
    hook.install()
    return [
        examples.attempt(checkout / file, kernel, check, file)
        for file, kernel, check in CASES
        if options.only in f"{file}::{kernel}"
    ]
