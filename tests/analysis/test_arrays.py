"""Headers of .npy files, against NumPy's own writer."""

from __future__ import annotations

import io

import numpy as np
import pytest

from accelopt_lsp.analysis import analyze
from accelopt_lsp.analysis.arrays import array_header
from accelopt_lsp.analysis.syntax import Document

KINDS = [
    ("float32", "float32"),
    ("float16", "float16"),
    ("float64", "float32"),
    ("int64", "int32"),
    ("int8", "int8"),
    (">u2", "uint16"),
]


@pytest.mark.parametrize(("kind", "found"), KINDS)
@pytest.mark.parametrize("shape", [(128, 512), (7,), (1, 2, 3)])
def test_shape_and_type(tmp_path, kind, found, shape):
    path = tmp_path / "array.npy"
    np.save(path, np.zeros(shape, kind))
    assert array_header(path)[0] == shape
    assert array_header(path)[1].name == found


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_versions_of_the_format(tmp_path, version):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.zeros((4, 5), np.int32), version)
    path = tmp_path / "array.npy"
    path.write_bytes(buffer.getvalue())
    assert array_header(path)[0] == (4, 5)


DAMAGED = [
    (b"", "no .npy file"),
    (b"\x93NUMPY\x01\x00\x76", "no .npy file"),
    (b"PK\x03\x04" + b"\0" * 40, "no .npy file"),
    (b"\x93NUMPY\x01\x00\xff\xff{'descr': '<f4'", "header of array.npy is damaged"),
    (b"\x93NUMPY\x01\x00\x05\x00[1,2]", "header of array.npy is damaged"),
]


@pytest.mark.parametrize(("content", "reason"), DAMAGED)
def test_damaged_files_give_a_reason(tmp_path, content, reason):
    path = tmp_path / "array.npy"
    path.write_bytes(content)
    assert reason in array_header(path)
    assert "cannot be read" in array_header(tmp_path / "absent.npy")


TEXT = """import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=@array.npy
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for row in range(x.shape[0] // 128):
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[row * 128 : (row + 1) * 128, :])
        nisa.dma_copy(dst=out[row * 128 : (row + 1) * 128, :], src=tile)
    return out
"""


def test_a_kernel_is_counted_with_the_shape_in_the_file_as_it_is_now(tmp_path):
    for rows in (256, 512):
        np.save(tmp_path / "array.npy", np.zeros((rows, 8), np.float16))
        (kernel,) = analyze(Document.parse(TEXT), path=tmp_path / "kernel.py").kernels
        assert kernel.workload.complete
        assert kernel.workload.issued.hbm_read_bytes == rows * 16
