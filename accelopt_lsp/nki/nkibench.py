"""NKIBench's problems: the work that each needs at least, by its published formula.

Source: AccelOpt paper (MLSys 2026) and its repository, whose files are named by problem and sizes,
such as ``silu_M4096_N7168_0.py``. All tensors are float32; each counts once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from accelopt_lsp.nki.peak import Yardstick

BASIS = "nkibench"
"""Name of this basis in :class:`~accelopt_lsp.nki.profile.Profile`."""
Sizes = Mapping[str, int]
Formula = Callable[[Sizes], tuple[float, float, float]]
"""Vector FLOPs, matmul FLOPs and elements moved, of a problem's sizes."""
_SIZES = re.compile(r"^(?P<name>[a-z]+(?:_[a-z]+)*)(?P<sizes>(?:_[A-Z]+\d+)+)(?:_|$)")
_SIZE = re.compile(r"_([A-Z]+)(\d+)")


def _product(d: Sizes) -> tuple[float, float, float]:
    m, n, k = d["M"], d["N"], d["K"]
    return 0, 2 * m * n * k, m * k + k * n + m * n


def _batched(vector: int) -> Formula:
    def formula(d: Sizes) -> tuple[float, float, float]:
        b, m, n, k = d["B"], d["M"], d["N"], d["K"]
        return vector * b * m * n, 2 * b * m * n * k, b * (m * k + k * n + m * n)

    return formula


def _silu(d: Sizes) -> tuple[float, float, float]:
    m, n = d["M"], d["N"]
    return 3 * m * n, 0, 2 * m * n


def _adamw(d: Sizes) -> tuple[float, float, float]:
    m, n = d["M"], d["N"]
    return 7 * m * n, 0, 5 * m * n


def _rotary(d: Sizes) -> tuple[float, float, float]:
    size = d["B"] * d["H"] * d["N"] * d["D"]
    return 3 * size, 0, 3 * size


def _scan(d: Sizes) -> tuple[float, float, float]:
    m, c, s = d["M"], d["C"], d["S"]
    return m * c * s * 8, 0, 3 * c * m + c * s + 2 * s * m


def _normed_product(d: Sizes) -> tuple[float, float, float]:
    _, flops, moved = _product(d)
    return 4 * d["M"] * d["K"], flops, moved


def _added_normed_product(d: Sizes) -> tuple[float, float, float]:
    m, n, k = d["M"], d["N"], d["K"]
    return 6 * m * k, 2 * m * n * k, 2 * m * k + k * n + k + m * n


def _product_added_normed(d: Sizes) -> tuple[float, float, float]:
    m, n, k = d["M"], d["N"], d["K"]
    return 6 * m * n, 2 * m * n * k, m * k + k * n + m * n + n + m * n


def _gated(d: Sizes) -> tuple[float, float, float]:
    m, n, k = d["M"], d["N"], d["K"]
    return 5 * m * n, 6 * m * n * k, 2 * m * k + 3 * k * n


def _attention(d: Sizes) -> tuple[float, float, float]:
    b, n, q, k, h = d["B"], d["N"], d["QH"], d["KH"], d["D"]
    return 5 * b * q * n * n, 4 * b * q * n * n * h, 2 * b * q * n * h + 2 * b * k * n * h


def _low_rank(d: Sizes) -> tuple[float, float, float]:
    m, n, k, r = d["M"], d["N"], d["K"], d["R"]
    flops = 2 * m * n * k + 2 * m * k * r + 2 * m * n * r
    return m * n, flops, m * k + k * n + k * r + r * n + m * n


FORMULAS: Mapping[str, Formula] = {
    "adamw": _adamw,
    "add_rmsnorm_matmul": _added_normed_product,
    "bmm": _batched(0),
    "bmm_softmax": _batched(5),
    "gqa_full": _attention,
    "lora": _low_rank,
    "mamba": _scan,
    "matmul": _product,
    "matmul_add_rmsnorm": _product_added_normed,
    "rmsnorm_matmul": _normed_product,
    "rope_single_freq_apply": _rotary,
    "silu": _silu,
    "swiglu": _gated,
    "transpose_matmul": _product,
}


def yardstick_of(stem: str) -> Yardstick | None:
    """The yardstick of a file of that name, without its ending; None if it names no problem."""
    found = _SIZES.match(stem)
    formula = None if found is None else FORMULAS.get(found["name"])
    if found is None or formula is None:
        return None
    sizes = {name: int(count) for name, count in _SIZE.findall(found["sizes"])}
    try:
        vector, products, elements = formula(sizes)
    except KeyError:
        return None
    return Yardstick(float(vector), float(products), 4.0 * elements)


def known_yardstick(stems: Iterable[str]) -> Yardstick | None:
    """The first yardstick that one of these names has."""
    return next((y for stem in stems if (y := yardstick_of(stem)) is not None), None)
