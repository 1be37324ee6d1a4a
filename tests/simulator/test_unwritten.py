"""Kernels that compute on memory which holds nothing yet, as far as no result depends on it."""

from __future__ import annotations

import copy
import importlib.util
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accelopt_lsp.nki.dtypes import get_dtype, numpy_dtype
from accelopt_lsp.profiler.simulator.elements import element_named
from accelopt_lsp.profiler.simulator.errors import KernelRejected

SOURCE = """
from dataclasses import dataclass
import nki
import nki.isa as nisa
import nki.language as nl

def begin(x, rows, columns):
    tile = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[0:rows, 0:columns], src=x[0:rows, 0:columns])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    return tile

@nki.jit
def partitions(x, rows, out_rows):
    tile = begin(x, rows, 8)
    out = nl.ndarray((out_rows, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile[0:out_rows, :])
    return out

@nki.jit
def elements(x, columns, out_columns):
    tile = begin(x, 64, columns)
    out = nl.ndarray((64, out_columns), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile[:, 0:out_columns])
    return out

@nki.jit
def sums(x, columns):
    tile = begin(x, 64, columns)
    total = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)
    out = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=total)
    return out

@nki.jit
def refused(x, rows):
    tile = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[0:rows, :], src=x[0:rows, :])
    total = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(
        dst=tile, op=nl.exp, data=tile, reduce_op=nl.add, reduce_res=total,
        reduce_cmd=nisa.reduce_cmd.reduce,
    )

@nki.jit
def doubled(x):
    tile = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)
    out = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out

@nki.jit
def transposed(x):
    tile = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.sbuf)
    turned = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.nc_transpose(dst=turned, data=tile)
    out = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=turned)
    return out

@nki.jit
def padded(x, rows, dtype, overwritten, adds):
    tile = nl.ndarray((64, 8), dtype=dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[0:rows, :], src=x[0:rows, :])
    moved = nl.ndarray((64, 8), dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=moved, src=tile)
    kept = nl.ndarray((64, 8), dtype=dtype, buffer=nl.private_hbm)
    nisa.dma_copy(dst=kept, src=moved)
    out = nl.ndarray((64, 8), dtype=dtype, buffer=nl.shared_hbm)
    if adds:
        nisa.dma_copy(dst=tile, src=kept)
        total = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=total[0:8, :], stationary=tile, moving=tile[:, 0:1])
    nisa.dma_copy(dst=out, src=kept)
    if overwritten:
        rest = nl.ndarray((64, 8), dtype=dtype, buffer=nl.sbuf)
        nisa.memset(dst=rest, value=0)
        nisa.dma_copy(dst=out[overwritten:64, :], src=rest[0:64 - overwritten, :])
    return out

@nki.jit
def turned(x, rows):
    tile = nl.ndarray((32, 32), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[0:rows, :], src=x[0:rows, :])
    back = nl.ndarray((32, 32), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.nc_transpose(dst=back, data=tile, engine=nisa.vector_engine)
    out = nl.ndarray((32, rows), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=back[:, 0:rows])
    sums = nl.ndarray((32, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=sums, op=nl.add, data=back, axis=1)
    return out

@dataclass
class Section(nl.NKIObject):
    start: int
    end: int
    label = None
"""


@pytest.fixture
def kernels(stand_ins: None, tmp_path: Path) -> Iterator[dict[str, Any]]:
    file = tmp_path / "unwritten_kernels.py"
    file.write_text(SOURCE, "utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = sys.modules[file.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield vars(module)
    del sys.modules[file.stem]


X = np.arange(512, dtype=np.float32).reshape(64, 8)


def test_partitions_that_hold_nothing_may_be_computed_on(kernels: dict[str, Any]) -> None:
    assert np.array_equal(kernels["partitions"](X, 32, 32), X[:32] + 1)


def test_elements_that_hold_nothing_may_be_computed_on(kernels: dict[str, Any]) -> None:
    assert np.array_equal(kernels["elements"](X, 5, 5), X[:, :5] + 1)


@pytest.mark.parametrize(
    ("kernel", "arguments"),
    [("partitions", (32, 33)), ("elements", (5, 6)), ("sums", (5,))],
)
def test_their_results_are_no_results(
    kernels: dict[str, Any], kernel: str, arguments: tuple[int, ...]
) -> None:
    with pytest.raises(KernelRejected, match="never written") as caught:
        kernels[kernel](X, *arguments)
    assert caught.value.code == "R099"


TYPES = ["float32", "bfloat16", "float8_e4m3", "int32"]


@pytest.mark.parametrize("dtype", TYPES)
def test_what_holds_nothing_may_be_stored_and_overwritten(
    kernels: dict[str, Any], dtype: str
) -> None:
    x = (X % 8).astype(numpy_dtype(get_dtype(dtype)))
    found = kernels["padded"](x, 48, element_named(dtype), 48, False)
    assert np.array_equal(found[:48], x[:48])
    assert not found[48:].any()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("overwritten", [0, 49])
def test_what_holds_nothing_may_not_be_left_in_an_output(
    kernels: dict[str, Any], dtype: str, overwritten: int
) -> None:
    with pytest.raises(KernelRejected, match=r"ends with .* never written \(tile, cre") as caught:
        kernels["padded"](X, 48, element_named(dtype), overwritten, False)
    assert caught.value.code == "R099"
    assert SOURCE.splitlines()[(caught.value.line or 0) - 1].strip() == (
        "nisa.dma_copy(dst=out, src=kept)"
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_holds_nothing_may_not_be_combined_wherever_it_was_moved(
    kernels: dict[str, Any], dtype: str
) -> None:
    with pytest.raises(KernelRejected, match=r"nc_matmul reads .* never written .*dma_copy on"):
        kernels["padded"](X, 48, element_named(dtype), 48, True)


def test_a_transpose_moves_what_holds_nothing(kernels: dict[str, Any]) -> None:
    x = np.arange(1024, dtype=np.float32).reshape(32, 32) % 64
    with pytest.raises(KernelRejected, match="tensor_reduce reads parts of back"):
        kernels["turned"](x, 16)
    assert np.array_equal(kernels["turned"](x, 32).astype(np.float32), x.T)


def test_an_instruction_refused_half_way_leaves_nothing_behind(kernels: dict[str, Any]) -> None:
    with pytest.raises(KernelRejected, match="accumulators"):
        kernels["refused"](X, 32)
    assert np.array_equal(kernels["doubled"](X), 2 * X)


def test_a_transpose_into_sbuf_is_the_vector_engines(kernels: dict[str, Any]) -> None:
    x = np.arange(1024, dtype=np.float32).reshape(32, 32)
    assert np.array_equal(kernels["transposed"](x), x.T)


def test_every_declared_name_of_a_class_has_a_default(kernels: dict[str, Any]) -> None:
    section = kernels["Section"](start=3, label="first")
    assert (section.start, section.end, section.label) == (3, None, "first")


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3", "float8_e5m2_x4", "int32"])
def test_copies_of_a_type_are_the_type(name: str) -> None:
    element = element_named(name)
    assert copy.deepcopy(element) is element
    assert pickle.loads(pickle.dumps(element)) is element
