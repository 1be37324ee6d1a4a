"""Microscaling formats against the definitions of the OCP specification, in plain Python."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from accelopt_lsp.profiler.simulator.errors import KernelRejected
from accelopt_lsp.profiler.simulator.numerics.mx import pack, unpack
from tests.simulator.helpers import Runner

FORMATS = {
    "float8_e5m2_x4": (5, 2, 4),
    "float8_e4m3fn_x4": (4, 3, 4),
    "float4_e2m1fn_x4": (2, 1, 2),
}
"""Bits of exponent and mantissa, and bytes of a packed element."""
LARGEST = {"float8_e5m2_x4": 15, "float8_e4m3fn_x4": 8}


def value_of(code: int, format: str) -> float:
    """Value of one element's code; infinities and NaNs excluded."""
    exponent_bits, mantissa_bits, _ = FORMATS[format]
    mantissa = code & ((1 << mantissa_bits) - 1)
    exponent = code >> mantissa_bits & ((1 << exponent_bits) - 1)
    sign = -1.0 if code >> (exponent_bits + mantissa_bits) else 1.0
    bias = (1 << exponent_bits - 1) - 1
    if exponent == 0:
        return sign * math.ldexp(mantissa, 1 - bias - mantissa_bits)
    return sign * math.ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits)


def finite_codes(format: str) -> list[int]:
    if format == "float8_e5m2_x4":
        return [c for c in range(256) if c & 0x7C != 0x7C]
    return [c for c in range(256) if c & 0x7F != 0x7F] if "e4m3" in format else list(range(16))


def parts(packed: int, format: str) -> list[float]:
    bits = 4 if "e2m1" in format else 8
    return [value_of(packed >> bits * i & ((1 << bits) - 1), format) for i in range(4)]


def random_packed(generator: np.random.Generator, shape: tuple[int, int], format: str) -> Any:
    bits = 4 if "e2m1" in format else 8
    kind = np.uint16 if bits == 4 else np.uint32
    codes = generator.choice(finite_codes(format), (*shape, 4)).astype(kind)
    return np.bitwise_or.reduce(codes << (np.arange(4, dtype=kind) * kind(bits)), axis=-1)


def row_of(group: int) -> int:
    """Partition of a group's scale: four in each quadrant of 32."""
    return group // 4 * 32 + group % 4


@pytest.mark.parametrize("format", FORMATS)
def test_every_code_has_its_value(format: str) -> None:
    codes = finite_codes(format)
    values = np.array([[value_of(c, format)] * 4 for c in codes], dtype=np.float32)
    packed = pack(values, format)
    assert packed.dtype.itemsize == FORMATS[format][2]
    assert np.array_equal(unpack(packed, format), values)
    assert [int(p) & 0xF if "e2m1" in format else int(p) & 0xFF for p in packed] == codes


def product(
    stationary: Any, moving: Any, scales: tuple[Any, Any], formats: tuple[str, str], at: int = 0
) -> np.ndarray[Any, Any]:
    """``sum_kq`` of scaled elements, one multiplication after the other."""

    def scaled(packed: Any, scale: Any, format: str, start: int) -> np.ndarray[Any, Any]:
        out = np.zeros((*packed.shape, 4))
        for k, column in np.ndindex(*packed.shape):
            bits = int(scale[row_of(k // 8) + start, column])
            out[k, column] = [
                v * 2.0 ** (bits - 127) for v in parts(int(packed[k, column]), format)
            ]
        return out

    left = scaled(stationary, scales[0], formats[0], 0)
    right = scaled(moving, scales[1], formats[1], at)
    return np.einsum("kmq,knq->mn", left, right)


PRODUCT = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(a, b, sa, sb):
    out = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.{dst}, buffer=nl.shared_hbm)
    result = nl.ndarray(out.shape, dtype=nl.{dst}, buffer=nl.psum)
    tiles = []
    for source in (a, b, sa, sb):
        tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=source)
        tiles.append(tile)
    for repeat in range({times}):
        nisa.nc_matmul_mx(
            dst=result,
            stationary=tiles[0].view(nl.{first}),
            moving=tiles[1].view(nl.{second}),
            stationary_scale=tiles[2]{scale},
            moving_scale=tiles[3]{scale},
        )
    copy = nl.ndarray(out.shape, dtype=nl.{dst}, buffer=nl.sbuf)
    nisa.tensor_copy(dst=copy, src=result)
    nisa.dma_copy(dst=out, src=copy)
    return out
"""


@pytest.mark.parametrize(
    ("first", "second", "dst", "scale", "times"),
    [
        ("float8_e5m2_x4", "float8_e5m2_x4", "float32", "", 1),
        ("float8_e4m3fn_x4", "float4_e2m1fn_x4", "float32", ".view(nl.float8_e8m0fnu)", 1),
        ("float4_e2m1fn_x4", "float8_e4m3fn_x4", "bfloat16", "", 1),
        ("float8_e4m3fn_x4", "float8_e4m3fn_x4", "float32", "", 3),
    ],
)
@pytest.mark.parametrize("partitions", [32, 96])
def test_products(
    run_text: Runner, first: str, second: str, dst: str, scale: str, times: int, partitions: int
) -> None:
    generator = np.random.default_rng(7)
    a = random_packed(generator, (partitions, 4), first)
    b = random_packed(generator, (partitions, 6), second)
    rows = row_of(partitions // 8 - 1) + 1
    sa, sb = (generator.integers(117, 137, (rows, n)).astype(np.uint8) for n in (4, 6))
    text = PRODUCT.format(first=first, second=second, dst=dst, scale=scale, times=times)
    found = run_text(text, a, b, sa, sb, target="trn3").as_returned().astype(np.float64)
    expected = times * product(a, b, (sa, sb), (first, second))
    tolerance = 2.0**-8 if dst == "bfloat16" else 1e-5
    assert np.allclose(found, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


QUANTIZE = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    partitions, columns = x.shape
    data = nl.ndarray((partitions, columns // 4), dtype=nl.uint32, buffer=nl.shared_hbm)
    scales = nl.ndarray((128, columns // 4), dtype=nl.uint8, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    packed = nl.ndarray((partitions, columns // 4), dtype=nl.{format}, buffer=nl.sbuf)
    kept = nl.ndarray((128, columns // 4), dtype=nl.{scale}, buffer=nl.sbuf)
    nisa.memset(dst=kept.view(nl.uint8), value=77)
    nisa.quantize_mx(dst=packed, src=tile, dst_scale=kept[{start}:])
    nisa.dma_copy(dst=data, src=packed.view(nl.uint32))
    nisa.dma_copy(dst=scales, src=kept.view(nl.uint8))
    return data, scales
"""


def nearest(value: float, format: str) -> float:
    """The closest element of a format; of two as close, the one with an even code."""
    codes = finite_codes(format)
    return value_of(min(codes, key=lambda c: (abs(value_of(c, format) - value), c & 1)), format)


@pytest.mark.parametrize("format", LARGEST)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(("scale", "start"), [("uint8", 0), ("uint8", 4), ("float8_e8m0fnu", 8)])
def test_quantization(run_text: Runner, format: str, dtype: str, scale: str, start: int) -> None:
    """Of each 8 x 4 values the largest decides the scale; other rows of scales stay."""
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16
    generator = np.random.default_rng(3)
    x = generator.standard_normal((64, 8)) * 2.0 ** generator.integers(-9, 9, (64, 8))
    x[8:16, :4] = 0
    x = x.astype(kind)
    text = QUANTIZE.format(format=format, scale=scale, start=start)
    data, scales = run_text(text, x, target="trn3").as_returned()
    expected = np.full((128, 2), 77)
    values = x.astype(np.float64)
    for group, column in np.ndindex(8, 2):
        block = values[8 * group : 8 * group + 8, 4 * column : 4 * column + 4]
        largest = float(np.abs(block).max())
        exponent = -127
        if largest:
            exponent = math.floor(math.log2(largest)) - LARGEST[format]
        expected[start + row_of(group), column] = exponent + 127
        for row in range(8):
            quotients = [v / 2.0**exponent for v in block[row]]
            found = parts(int(data[8 * group + row, column]), format)
            assert found == [nearest(q, format) for q in quotients]
    assert np.array_equal(scales, expected)


def test_packed_elements_are_moved_as_their_bits(run_text: Runner) -> None:
    """Copies on chip and by DMA, through views and bfloat16 halves, keep every bit."""
    text = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    first = nl.ndarray(x.shape, dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
    second = nl.ndarray(x.shape, dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
    third = nl.ndarray((x.shape[0], 2 * x.shape[1]), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=first, src=x.view(nl.float8_e4m3fn_x4))
    nisa.tensor_copy(dst=second, src=first)
    nisa.tensor_copy(dst=third, src=second.view(nl.bfloat16))
    nisa.dma_copy(dst=out, src=third.view(nl.uint32))
    return out
"""
    bits = np.random.default_rng(1).integers(0, 1 << 32, (32, 64)).astype(np.uint32)
    assert np.array_equal(run_text(text, bits, target="trn3").as_returned(), bits)


def test_only_zeros_fill_packed_tiles(run_text: Runner) -> None:
    text = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=nl.uint32, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=nl.float8_e5m2_x4, buffer=nl.sbuf)
    nisa.memset(dst=tile, value={value})
    nisa.dma_copy(dst=out, src=tile.view(nl.uint32))
    return out
"""
    x = np.ones((32, 4), dtype=np.uint32)
    assert not run_text(text.format(value=0), x, target="trn3").as_returned().any()
    with pytest.raises(KernelRejected) as caught:
        run_text(text.format(value=1.0), x, target="trn3")
    assert caught.value.code == "R067"


def test_infinities_and_nans_are_quantized(run_text: Runner) -> None:
    """An infinity takes the largest scale, a NaN leaves its group's scale as it was."""
    x = np.ones((32, 4), dtype=ml_dtypes.bfloat16)
    x[3, 1], x[9, 2] = np.inf, np.nan
    text = QUANTIZE.format(format="float8_e5m2_x4", scale="uint8", start=0)
    data, scales = run_text(text, x, target="trn3").as_returned()
    assert scales[:4, 0].tolist() == [254, 112, 112, 112]
    codes = data.view(np.uint8)
    assert codes[3].tolist() == [0, 0x7C, 0, 0]
    elements = codes.view(ml_dtypes.float8_e5m2).astype(np.float32)
    assert np.isnan(elements[9, 2])
    assert np.count_nonzero(np.isnan(elements)) == 1
    assert set(elements[16:].ravel()) == {2.0**15}


def test_whole_tiles_of_scales_are_moved(run_text: Runner) -> None:
    """Nothing stands between the scales of two quadrants, and kernels copy the tile as it is."""
    source = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    packed = nl.ndarray((128, 2), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
    scale = nl.ndarray((128, 2), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.quantize_mx(dst=packed, src=tile, dst_scale=scale)
    out = nl.ndarray(scale.shape, dtype=scale.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=scale)
    return out
"""
    x = np.ones((128, 8), dtype=ml_dtypes.bfloat16)
    found = run_text(source, x, target="trn3").as_returned()
    rows = [32 * q + g for q in range(4) for g in range(4)]
    assert (found[rows] == 127 - 8).all()
