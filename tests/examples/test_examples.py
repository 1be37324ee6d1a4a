"""The example kernels: their directives, their references, and that they compute these."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from accelopt_lsp.analysis.arguments import discover_arguments
from accelopt_lsp.analysis.kernels import find_kernels
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.arguments import TensorSpec
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.dtypes import numpy_dtype
from accelopt_lsp.workbench.profile import ProfileReport, ProfileRequest, profile_kernel
from accelopt_lsp.workbench.requests import KernelRequest

FOLDER = Path(__file__).resolve().parents[2] / "examples"
NAMES = ["matmul", "rmsnorm", "rotary", "silu_gate", "softmax"]
KERNELS = [FOLDER / dialect / f"{name}.py" for dialect in ("legacy", "current") for name in NAMES]
kernels = pytest.mark.parametrize("path", KERNELS, ids=lambda p: f"{p.parent.name}-{p.stem}")


def reference_of(path: Path) -> ModuleType:
    file = path.with_name(f"{path.stem}_reference.py")
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_kernel_is_listed():
    found = {p for p in FOLDER.glob("*/*.py") if not p.stem.endswith("_reference")}
    assert found == set(KERNELS)


@kernels
def test_the_directive_says_what_the_reference_feeds(path):
    """Shapes and types of the directive are those of the reference's transformed inputs."""
    document = Document.parse(path.read_text("utf-8"))
    (kernel,) = find_kernels(document)
    assert kernel.dialect is Dialect(path.parent.name)
    arguments = discover_arguments(document, kernel, path=path)
    assert arguments.complete
    assert arguments.reference == f"{path.stem}_reference.py"
    reference = reference_of(path)
    np.random.seed(0)
    inputs = reference.get_inputs()
    transform = getattr(reference, "transform_to_nki_inputs", lambda given: given)
    names = [p.name for p in kernel.parameters]
    for name, array in zip(names, transform(inputs), strict=False):
        spec = arguments.values[name]
        assert isinstance(spec, TensorSpec)
        assert (spec.shape, numpy_dtype(spec.dtype)) == (array.shape, array.dtype), name


@pytest.mark.parametrize("name", NAMES)
def test_both_dialects_compute_the_same(name):
    """Layouts and sizes may differ, the mathematics may not."""
    legacy, current = (reference_of(FOLDER / d / f"{name}.py") for d in ("legacy", "current"))
    assert inspect.getsource(legacy.forward) == inspect.getsource(current.forward)


@pytest.fixture(scope="module")
def reports() -> dict[Path, ProfileReport]:
    return {}


async def report_of(path: Path, reports: dict[Path, ProfileReport]) -> ProfileReport:
    if path not in reports:
        reports[path] = await profile_kernel(ProfileRequest(KernelRequest(path)))
    return reports[path]


@kernels
@pytest.mark.slow
async def test_the_kernel_computes_its_reference(path, reports):
    report = await report_of(path, reports)
    assert report.failure is None
    profile = report.profile
    assert profile is not None
    assert profile.correct is True
    assert profile.reference == "file"
    assert profile.max_relative_error is not None
    assert profile.max_relative_error < 1e-2
    assert profile.latency_ms is not None
    assert profile.unknown_instructions == ()


COMPULSORY_BYTES = {
    # read, written
    "legacy/matmul": (4096 * (1024 + 4096) * 2, 1024 * 4096 * 2),
    "current/matmul": (2 * 2048 * 2048 * 2, 2048 * 2048 * 2),
    "rmsnorm": ((4096 * 2048 + 2048) * 2, 4096 * 2048 * 2),
    "softmax": (4096 * 2048 * 2, 4096 * 2048 * 2),
    "silu_gate": (2 * 4096 * 3072 * 2, 4096 * 3072 * 2),
    "legacy/rotary": ((128 + 2 * 64) * 32768 * 4, 128 * 32768 * 4),
    "current/rotary": ((4096 * 1024 + 2 * 4096 * 64) * 4, 4096 * 1024 * 4),
}


def compulsory_bytes(path: Path) -> tuple[int, int]:
    full = f"{path.parent.name}/{path.stem}"
    return COMPULSORY_BYTES.get(full) or COMPULSORY_BYTES[path.stem]


@kernels
@pytest.mark.slow
async def test_traffic_is_at_least_what_the_problem_needs(path, reports):
    profile = (await report_of(path, reports)).profile
    assert profile is not None
    read, written = compulsory_bytes(path)
    assert profile.issued.hbm_read_bytes >= read
    assert profile.issued.hbm_write_bytes == written
    assert profile.counters["hbm_read_bytes"] is not None
    assert profile.counters["hbm_read_bytes"] >= read


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dialect", "tiles_m", "tiles_n", "tiles_k"), [("legacy", 8, 8, 32), ("current", 16, 4, 16)]
)
async def test_counts_of_the_matrix_product_by_hand(dialect, tiles_m, tiles_n, tiles_k, reports):
    """Both tiles are loaded for every product; every output tile is copied and stored once."""
    profile = (await report_of(FOLDER / dialect / "matmul.py", reports)).profile
    assert profile is not None
    issued = profile.issued
    outputs = tiles_m * tiles_n
    products = outputs * tiles_k
    assert issued.instructions == {
        "dma_copy": 2 * products + outputs,
        "nc_matmul": products,
        "tensor_copy": outputs,
    }
    assert issued.matmul_flops == 2 * 128 * 128 * 512 * products
    assert issued.hbm_read_bytes == products * (128 * 128 + 128 * 512) * 2
