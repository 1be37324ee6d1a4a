"""The legacy examples of the SDK's documentation at v2.26.0, against NumPy."""

from __future__ import annotations

import ast
import importlib.util
import sys
import time
import traceback
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from table import Row

from accelopt_lsp.profiler.simulator import hook

Array = NDArray[Any]
RNG = np.random.default_rng(0)


def normal(*shape: int) -> Array:
    """Standard normal float32."""
    return RNG.standard_normal(shape).astype(np.float32)


def close(found: Any, wanted: Array, tolerance: float = 1e-4) -> None:
    """Fail unless shapes are equal and values close."""
    got = np.asarray(found, dtype=np.float64)
    if got.shape != wanted.shape:
        raise AssertionError(f"shape {got.shape}, not {wanted.shape}")
    worst = float(np.abs(got - wanted).max())
    if not np.allclose(got, wanted, rtol=tolerance, atol=tolerance):
        raise AssertionError(f"differs by up to {worst:.2e}")


def softmax(scores: Array) -> Array:
    """Over the last axis."""
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def layernorm(kernel: Any) -> None:
    x, gain, shift = normal(300, 1024), normal(1024), normal(1024)
    centred = x - x.mean(1, keepdims=True)
    wanted = centred / np.sqrt(x.var(1, keepdims=True) + 1e-5) * gain + shift
    close(kernel(x, 1e-5, gain, shift), wanted, 1e-3)


def attention(length: int) -> Callable[[Any], None]:
    def check(kernel: Any) -> None:
        q, k, v = (RNG.uniform(-1, 1, (128, length)).astype(np.float32) for _ in range(3))
        close(kernel(q, k, v), softmax(q.T @ k) @ v.T, 1e-2)

    return check


def small_heads(kernel: Any) -> None:
    q, k, v = (RNG.random((4096, 64)).astype(np.float32) for _ in range(3))
    close(kernel(q, k, v), softmax((q * 0.125) @ k.T) @ v, 1e-2)


def mamba(kernel: Any) -> None:
    batch, channels, states, length = 1, 256, 16, 512
    delta, u = normal(batch, channels, length) * 0.3, normal(batch, channels, length)
    a = -np.abs(normal(channels, states))
    b, c = normal(batch, states, length), normal(batch, states, length)
    decay = np.exp(delta[:, :, None, :] * a[None, :, :, None])
    drive = delta[:, :, None, :] * b[:, None] * u[:, :, None, :]
    state = np.zeros((batch, channels, states), np.float32)
    wanted = np.zeros((batch, channels, length), np.float32)
    for t in range(length):
        state = decay[..., t] * state + drive[..., t]
        wanted[..., t] = (c[:, None, :, t] * state).sum(-1)
    close(kernel(delta, u, a, b, c), wanted, 1e-2)


def product(m: int, k: int, n: int) -> Callable[[Any], None]:
    def check(kernel: Any) -> None:
        left, right = normal(k, m), normal(k, n)
        close(kernel(left, right), left.T @ right, 2e-2)

    return check


def rmsnorm(kernel: Any) -> None:
    x, gain = normal(250, 512), normal(512)
    close(kernel(x, gain), x / np.sqrt((x * x).mean(1, keepdims=True)) * gain)


def pool(kernel: Any) -> None:
    x = np.arange(72, dtype=np.float32).reshape(2, 6, 6)
    close(kernel(x, 2), x.reshape(2, 3, 2, 3, 2).mean((2, 4)))


def transpose(kernel: Any) -> None:
    x = np.arange(60, dtype=np.float32).reshape(5, 12)
    close(kernel(x, (3, 4)), x.reshape(5, 3, 4).transpose(0, 2, 1).reshape(5, 12))


def addition(*shape: int) -> Callable[[Any], None]:
    def check(kernel: Any) -> None:
        x, y = normal(*shape), normal(*shape)
        close(kernel(x, y), x + y)

    return check


def split(kernel: Any) -> None:
    x = normal(64, 101)
    even, odd = kernel(x)
    close(even, x[:, ::2])
    close(odd, x[:, 1::2])


def maxpool(kernel: Any) -> None:
    x = normal(3, 6, 8)
    close(kernel(x, 2), x.reshape(3, 3, 2, 4, 2).max((2, 4)))


def exponential(rows: int, checked: int) -> Callable[[Any], None]:
    def check(kernel: Any) -> None:
        x = normal(rows, 512)
        result = kernel(x)
        if result is not None:
            close(np.asarray(result)[:checked], np.exp(x)[:checked])

    return check


def grid_product(*, transposed: bool) -> Callable[[Any], None]:
    def check(kernel: Any) -> None:
        left, right = normal(512, 128), normal(128, 1024)
        given = np.ascontiguousarray(left.T) if transposed else left
        close(kernel[4, 2](given, right), left @ right, 1e-3)

    return check


def rejected(kernel: Any) -> None:
    try:
        kernel(normal(256, 512))
    except Exception as error:
        if "128" in str(error):
            return
        raise
    raise AssertionError("a tile of 256 partitions was accepted")


ATTENTION = "attention/attention_kernels.py"
MATMUL = "matrix_multiplication/matrix_multiplication_nki_kernels.py"
MAMBA = "fused_mamba/mamba_nki_kernels.py"
ADDITION = "tensor_addition/spmd_"
CASES: tuple[tuple[str, str, Callable[[Any], None]], ...] = (
    ("layernorm/layernorm_nki_kernel.py", "nki_layernorm_kernel_v1", layernorm),
    ("layernorm/layernorm_nki_kernel.py", "nki_layernorm_kernel_v2", layernorm),
    (ATTENTION, "attn_fwd_v1", attention(128)),
    (ATTENTION, "attn_fwd_v2", attention(128)),
    *(
        (ATTENTION, f"attn_fwd_v{n}", attention(1024))
        for n in ("3", "4", "5", "6", "7", "8", "8a", "9", "10", "11")
    ),
    (
        "sd_attention/sd_attention_nki_kernels.py",
        "fused_self_attn_for_SD_small_head_size",
        small_heads,
    ),
    *((MAMBA, f"mamba_v{n}", mamba) for n in (1, 2, 3)),
    ("average_pool2d/average_pool2d_nki_kernels.py", "tensor_avgpool_kernel", pool),
    (MATMUL, "nki_matmul_basic_", product(64, 128, 512)),
    (MATMUL, "nki_matmul_tiled_", product(1024, 2048, 1024)),
    (MATMUL, "nki_matmul_hoist_load_", product(1024, 2048, 1024)),
    (MATMUL, "nki_matmul_block_free_dimension_", product(1024, 1024, 2048)),
    (MATMUL, "nki_matmul_fully_optimized_", product(4096, 1024, 2048)),
    ("rmsnorm/rmsnorm_nki_kernels.py", "nki_rmsnorm_kernel", rmsnorm),
    ("transpose2d/transpose2d_nki_kernels.py", "tensor_transpose2D_kernel_", transpose),
    (f"{ADDITION}tensor_addition_nki_kernels.py", "nki_tensor_add", addition(256, 1024)),
    (
        f"{ADDITION}multiple_nc_tensor_addition_nki_kernels.py",
        "nki_tensor_add_nc2",
        addition(512, 2048),
    ),
    ("index-case-1.py", "tensor_split_kernel_", split),
    ("index-case-3.py", "tensor_maxpool_kernel_", maxpool),
    ("layout-dynamic-loop.py", "tensor_exp_kernel_", exponential(250, 128)),
    ("layout-pass.py", "tensor_exp_kernel_", exponential(128, 128)),
    ("prof-kernel-benchmark.py", "tensor_exp_kernel_", exponential(250, 250)),
    ("prof-kernel-profile.py", "tensor_exp_kernel_", exponential(250, 250)),
    ("layout-violation.py", "tensor_exp_kernel_", rejected),
    ("mm-nisa-spmd.py", "matmul_128x128x512_spmd", grid_product(transposed=True)),
    ("mm-nl-spmd.py", "matmul_128x128x512_spmd", grid_product(transposed=False)),
)
"""File, kernel, and what checks it. ``layout-violation.py`` is wrong on purpose."""


HEAD: tuple[tuple[str, str, Callable[[Any], None]], ...] = (
    *(case for case in CASES if case[0] in (MATMUL, MAMBA) or "2d/" in case[0]),
    ("tensor_addition/tensor_addition_nki_kernels.py", "nki_tensor_add", addition(256, 1024)),
    ("getting_started_baremetal.py", "nki_tensor_add_kernel", addition(4, 3)),
    *(case for case in CASES if case[0].startswith(("index-", "layout-"))),
    ("layout-loop.py", "tensor_exp_kernel_", exponential(256, 256)),
    ("simulate/nki_simulate_example.py", "add_kernel", addition(128, 512)),
)
"""Those of the documentation as it is now."""


EXPLAINED = {
    (
        "layout-dynamic-loop.py",
        SyntaxError,
    ): "as published it does not parse: a parenthesis is open",
    ("layout-loop.py", ImportError): "it is a listing: it imports a decorator of another package "
    "and uses an index that it does not define",
}
"""File and what it raises when it is loaded, to what is wrong with it."""


def run(checkout: Path, options: Namespace) -> list[Row]:
    """One row a kernel; those of v2.26.0 where the checkout has that layout."""
    hook.install()
    legacy = checkout / "general" / "nki" / "examples"
    root, cases = (legacy, CASES) if legacy.is_dir() else (checkout / "nki" / "examples", HEAD)
    return [
        attempt(root / file, kernel, check, file)
        for file, kernel, check in cases
        if options.only in f"{file}::{kernel}"
    ]


def attempt(path: Path, kernel: str, check: Callable[[Any], None], group: str) -> Row:
    """One kernel of a file, checked by a function that raises if it is wrong."""
    start = time.perf_counter()
    outcome, why = "pass", ""
    try:
        check(getattr(load(path), kernel))
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)[::-1]
        line = next((f.lineno for f in frames if f.filename == str(path)), None)
        outcome, why = "fail", f"line {line}: {type(error).__name__}: {error}"
        reason = EXPLAINED.get((path.name, type(error)))
        if reason is not None:
            outcome, why = "explained", reason
    return Row(group, kernel, outcome, why, round(time.perf_counter() - start, 1))


def load(path: Path, change: Callable[[ast.Module], ast.Module] | None = None) -> ModuleType:
    """A file of the checkout as a module, its folder importable.

    A file that would run its kernel when it is imported is read up to there.

    Args:
        change: may change the tree before it is compiled.
    """
    _absent_packages()
    sys.path.insert(0, str(path.parent))
    module = ModuleType(path.stem.replace("-", "_"))
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    tree = ast.parse(path.read_text("utf-8"))
    body = tree.body
    first = next((n for n, node in enumerate(body) if _launches(node)), len(body))
    tree.body = body[:first]
    if change is not None:
        tree = change(tree)
    exec(compile(tree, str(path), "exec"), vars(module))  # noqa: S102 - files that the user names
    return module


def _launches(node: ast.stmt) -> bool:
    """A statement of the module that calls ``kernel[grid](...)``."""
    return isinstance(node, ast.Assign | ast.Expr) and any(
        isinstance(part, ast.Call) and isinstance(part.func, ast.Subscript)
        for part in ast.walk(node)
    )


def _absent_packages() -> None:
    """Packages that some files import for their own tests, which are not needed here."""
    if "scipy" not in sys.modules and importlib.util.find_spec("scipy") is None:
        special = ModuleType("scipy.special")
        special.softmax = softmax  # type: ignore[attr-defined]
        scipy = ModuleType("scipy")
        scipy.special = special  # type: ignore[attr-defined]
        sys.modules["scipy"], sys.modules["scipy.special"] = scipy, special
    for name in ("torch_neuronx", "torch_xla", "torch_xla.core", "torch_xla.core.xla_model"):
        if name not in sys.modules:
            sys.modules[name] = ModuleType(name)
            sys.modules[name].__path__ = []
