"""How kernels are decorated, called and measured, and what they take and return."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.profiler.simulator.errors import (
    ArgumentFault,
    KernelRejected,
    UnsupportedByKernel,
)
from accelopt_lsp.profiler.simulator.frameworks import converter_for, to_numpy, write_back
from accelopt_lsp.profiler.simulator.kernels import TARGET_VARIABLE
from tests.simulator.helpers import job, normal, profile

CURRENT = """
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple
import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
from nki.isa.constants import oob_mode
from nki.language import NKIObject, NkiTensor
import numpy as np


def times(x, factor):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
LEGACY = """
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
from neuronxcc import nki as also_nki
from neuronxcc.nki.isa.constants import dge_mode
import numpy as np


def times(x, factor):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), factor))
    return out
"""


@pytest.fixture
def scope(stand_ins: None) -> Any:
    """Run statements after one of the preambles, as a script would; gives their names."""

    def run(preamble: str, statements: str, **names: Any) -> dict[str, Any]:
        found: dict[str, Any] = {"__name__": "script", **names}
        sys.modules["script"] = type(sys)("script")
        code = compile(preamble + textwrap.dedent(statements), "script", "exec")
        exec(code, found)  # noqa: S102 - the test's own text
        return found

    yield run
    sys.modules.pop("script", None)


X = np.round(normal(64, 32) * 16)

DECORATED = {
    "plain": "run = nki.jit(times)",
    "with options": "run = nki.jit(mode='auto', experimental_flags='x')(times)",
    "as decorator": "@nki.jit\ndef run(x, factor):\n    return times(x, factor)",
    "with a target": "run = nki.jit(platform_target='trn2')(times)",
    "twice": "run = nki.jit(nki.jit(times))",
    "in a kernel": "inner = nki.jit(times)\nrun = nki.jit(lambda x, factor: inner(x, factor))",
    "method": (
        "class Model:\n    @nki.jit\n    def scaled(self, x, factor):\n"
        "        return times(x, factor)\nrun = Model().scaled"
    ),
    "static method": (
        "class Model:\n    @nki.jit\n    @staticmethod\n    def scaled(x, factor):\n"
        "        return times(x, factor)\nrun = Model.scaled"
    ),
    "class method": (
        "class Model:\n    @nki.jit\n    @classmethod\n    def scaled(cls, x, factor):\n"
        "        return times(x, factor)\nrun = Model.scaled"
    ),
    "one program": "run = nki.jit(times)[1]",
}


@pytest.mark.parametrize("preamble", [LEGACY, CURRENT], ids=["legacy", "current"])
@pytest.mark.parametrize("name", DECORATED)
def test_kernels_are_decorated_in_many_ways(scope: Any, name: str, preamble: str) -> None:
    run = scope(preamble, DECORATED[name])["run"]
    assert np.array_equal(run(X, 2.0), 2 * X)
    assert np.array_equal(run(X, factor=3.0), 3 * X)


def test_other_ways_to_run_a_kernel(scope: Any) -> None:
    found = scope(CURRENT, "run, again = nki.simulate(times), nki.simulate(nki.jit(times))")
    assert np.array_equal(found["run"](X, 2.0), 2 * X)
    assert np.array_equal(found["again"](X, 2.0), 2 * X)
    found = scope(LEGACY, "run = lambda x, f: nki.simulate_kernel(nki.jit(times), x, factor=f)")
    assert np.array_equal(found["run"](X, 2.0), 2 * X)


def test_a_schedule_changes_no_result(scope: Any) -> None:
    run = scope(CURRENT, "run = nki.jit(times).with_schedule([('b', 'a'), ('c', ['a', 'b'])])")
    assert np.array_equal(run["run"](X, 2.0), 2 * X)
    with pytest.raises(KernelRejected, match="takes pairs"):
        scope(CURRENT, "nki.jit(times).with_schedule(['a'])")


ARGUMENTS = """
class Mode(Enum):
    TWICE = 2.0
    THRICE = 3.0

@dataclass
class Options(NKIObject):
    x: NkiTensor
    mode: Mode = Mode.TWICE

class Plain(NKIObject):
    x: NkiTensor
    mode: Mode
    label: str = "none"

    def __post_init__(self):
        assert self.label in ("none", "some")

class Pair(NamedTuple):
    x: NkiTensor
    mode: Mode

@nki.jit
def by_object(options):
    assert options.mode == Mode.THRICE or options.mode == Mode.TWICE
    return times(options.x, options.mode.value)

@nki.jit
def by_structure(items, table=None, *, last=()):
    outs = [times(x, 2.0) for x in items]
    rest = [times(x, 4.0) for x in last]
    return {"outs": outs, "table": (times(table["x"], 3.0), 7), "last": rest}
"""


def test_kernels_take_objects_with_tensors(scope: Any) -> None:
    found = scope(CURRENT, ARGUMENTS)
    run, mode = found["by_object"], found["Mode"]
    for kind in ("Options", "Plain", "Pair"):
        given = found[kind](X, mode.THRICE)
        assert np.array_equal(run(given), 3 * X)
        assert given.x is X
    assert np.array_equal(run(found["Plain"](x=X, mode=mode.TWICE, label="some")), 2 * X)
    with pytest.raises(TypeError, match="takes 3 values"):
        found["Plain"](X, mode.TWICE, "some", 4)


def test_results_have_the_structure_that_the_kernel_returns(scope: Any) -> None:
    run = scope(CURRENT, ARGUMENTS)["by_structure"]
    result = run([X, X], {"x": X}, last=(X,))
    assert list(result) == ["outs", "table", "last"]
    assert isinstance(result["outs"], list)
    assert all(np.array_equal(o, 2 * X) for o in result["outs"])
    assert isinstance(result["table"], tuple)
    assert np.array_equal(result["table"][0], 3 * X)
    assert result["table"][1] == 7
    assert np.array_equal(result["last"][0], 4 * X)


WRITES = """
@nki.jit
def overwrite(x, y):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=y, src=tile)
    {ending}
"""


@pytest.mark.parametrize("ending", ["pass", "return times(x, 2.0)"])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int32])
def test_arguments_that_are_written_change(scope: Any, ending: str, dtype: Any) -> None:
    run = scope(CURRENT, WRITES.format(ending=ending))["overwrite"]
    x, y = X.astype(dtype), np.zeros(X.shape, dtype)
    run(x, y)
    assert np.array_equal(x, y)


def test_a_read_only_argument_stays(scope: Any) -> None:
    run = scope(CURRENT, WRITES.format(ending="return y"))["overwrite"]
    y = np.zeros(X.shape, np.float32)
    y.flags.writeable = False
    assert np.array_equal(run(X, y), X)
    assert not y.any()


def test_unknown_types_are_refused(scope: Any) -> None:
    run = scope(CURRENT, "run = nki.jit(times)")["run"]
    with pytest.raises(ArgumentFault, match="complex128"):
        run(X.astype(complex), 2.0)


# Other frameworks, whose arrays stand-ins imitate here: neither is installed with the product.


class _Torch(type(sys)):  # type: ignore[misc]
    """As much of PyTorch as is asked for."""

    class Tensor:
        def __init__(self, array: Any) -> None:
            self.array = array
            self.shape, self.dtype = array.shape, f"torch.{array.dtype}"

        def detach(self) -> Any:
            return self

        cpu = contiguous = detach

        def numpy(self) -> Any:
            assert self.array.dtype != ml_dtypes.bfloat16, "NumPy lacks it"
            return self.array

        def element_size(self) -> int:
            return int(self.array.itemsize)

        def view(self, kind: Any) -> Any:
            return type(self)(self.array.view(kind))

        def reshape(self, shape: Any) -> Any:
            return type(self)(self.array.reshape(shape))

        def copy_(self, other: Any) -> None:
            self.array[...] = other.array

    int16, uint8, bfloat16 = np.int16, np.uint8, ml_dtypes.bfloat16

    @staticmethod
    def from_numpy(array: Any) -> Any:
        assert array.dtype != ml_dtypes.bfloat16, "PyTorch cannot read it"
        return _Torch.Tensor(array)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_tensors_of_pytorch(scope: Any, monkeypatch: pytest.MonkeyPatch, dtype: Any) -> None:
    monkeypatch.setitem(sys.modules, "torch", _Torch("torch"))
    run = scope(CURRENT, WRITES.format(ending="return times(x, 2.0)"))["overwrite"]
    x, y = _Torch.Tensor(X.astype(dtype)), _Torch.Tensor(np.zeros(X.shape, dtype))
    result = run(x, y)
    assert isinstance(result, _Torch.Tensor)
    assert result.array.dtype == dtype
    assert np.array_equal(result.array, 2 * x.array)
    assert np.array_equal(y.array, x.array)
    assert np.array_equal(to_numpy(x), x.array)


def test_arrays_of_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    class Array(np.ndarray):
        pass

    jax = type(sys)("jax")
    jax.Array = Array  # type: ignore[attr-defined]
    jax.numpy = type(sys)("jax.numpy")  # type: ignore[attr-defined]
    jax.numpy.asarray = lambda a: a.view(Array)
    monkeypatch.setitem(sys.modules, "jax", jax)
    made = converter_for([1, X.view(Array)])(X)
    assert isinstance(made, Array)
    assert type(converter_for([X])(X)) is np.ndarray
    before = X.copy()
    write_back("neither", X)
    assert np.array_equal(before, X)


def test_elements_with_fields_keep_their_bits() -> None:
    pairs = np.zeros((2, 3), np.dtype([("low", "u2"), ("high", "u2")]))
    bits = np.arange(6, dtype=np.uint32).reshape(2, 3) + (7 << 16)
    write_back(pairs, bits)
    assert np.array_equal(pairs.view(np.uint32), bits)


# Measuring.


def test_benchmarks_report_the_simulated_latency(scope: Any) -> None:
    found = scope(LEGACY, "timed = nki.benchmark(warmup=2, iters=3)(times)")
    timed = found["timed"]
    with pytest.raises(RuntimeError, match="run the kernel first"):
        timed.benchmark_result.nc_latency.get_latency_percentile(50)
    assert np.array_equal(timed(X, 2.0), 2 * X)
    latency = timed.benchmark_result.nc_latency
    assert 0 < latency.get_latency_percentile(50) <= latency.get_latency_percentile(99)
    with pytest.raises(ValueError, match="must be one of"):
        latency.get_latency_percentile(42)


def test_a_launch_grid_reports_to_the_kernel_it_was_made_from(scope: Any) -> None:
    body = """
    @nki.benchmark
    def timed(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        rows = nl.arange(32)[:, None] + 32 * nl.program_id(0)
        columns = nl.arange(32)[None, :]
        nl.store(out[rows, columns], nl.load(x[rows, columns]))
        return out
    """
    timed = scope(LEGACY, body)["timed"]
    assert np.array_equal(timed[2](X), X)
    assert timed.benchmark_result.nc_latency.get_latency_percentile(99) > 0


def test_a_grid_of_none_is_one_legacy_program(scope: Any) -> None:
    run = scope(LEGACY, "run = nki.jit(times)")["run"]
    assert np.array_equal(run[0](X, 2.0), 2 * X)
    with pytest.raises(ArgumentFault, match=r"positive sizes, got \[-1\]"):
        run[-1](X, 2.0)
    with pytest.raises(ArgumentFault, match=r"positive sizes, got \[0\]"):
        scope(CURRENT, "run = nki.jit(times)")["run"][0](X, 2.0)


@pytest.mark.parametrize(
    "decorator",
    ["nki.baremetal", "nki.baremetal(save_neff_name='file.neff')",
     "nki.profile(working_directory='/tmp', save_neff_name='a', save_trace_name='b')"],
)  # fmt: skip
def test_relatives_of_benchmark_run_the_kernel(scope: Any, decorator: str) -> None:
    run = scope(LEGACY, f"run = {decorator}(times)")["run"]
    assert np.array_equal(run(X, 2.0), 2 * X)


def test_annotations_stand_for_inputs(scope: Any) -> None:
    found = scope(LEGACY, "timed = nki.benchmark(times)\nresult = timed(nt.tensor[(64, 32), "
                  "np.float16], 2.0)")  # fmt: skip
    assert found["result"].shape == (64, 32)
    assert found["result"].dtype == np.float16


@pytest.mark.parametrize("dtype", ["np.float16", "np.float32", "nl.bfloat16"])
def test_a_data_type_is_an_argument_like_any_other(scope: Any, dtype: str) -> None:
    body = f"""
    @nki.jit
    def cast(x, dtype):
        out = nl.ndarray(x.shape, dtype=dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x, dtype=dtype))
        return out

    result = cast(np.ones((8, 4), np.float32), {dtype})
    """
    found = scope(LEGACY, body)["result"]
    assert found.dtype == {"np.float16": np.float16, "np.float32": np.float32}.get(
        dtype, ml_dtypes.bfloat16
    )
    assert (found == 1).all()


def test_an_unknown_cost_is_named(scope: Any) -> None:
    body = """
    @nki.benchmark
    def timed(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.floor(nl.load(x)))
        return out
    """
    timed = scope(LEGACY, body)["timed"]
    timed(X)
    with pytest.raises(RuntimeError, match="round_to_integer"):
        timed.benchmark_result.nc_latency.get_latency_percentile(50)


@pytest.mark.parametrize("name", ["benchmark", "baremetal", "profile"])
def test_the_current_dialect_measures_otherwise(scope: Any, name: str) -> None:
    with pytest.raises(KernelRejected, match="accelopt profile"):
        scope(CURRENT, f"nki.{name}(times)")


# Targets.

ASKED = """
seen = []

@nki.jit
def ask(x):
    seen.append((int(nisa.get_nc_version()), nl.tile_size.sbuf_fmax_bytes))
    return times(x, 1.0)

outside = int(nisa.get_nc_version())
"""


@pytest.mark.parametrize(
    ("value", "generation"),
    [(None, 3), ("trn1", 2), ("inf2", 2), ("gen2", 2), ("trn2", 3), ("gen3", 3), ("trn3", 4),
     ("gen4", 4)],
)  # fmt: skip
def test_the_environment_chooses_the_target(
    scope: Any, monkeypatch: pytest.MonkeyPatch, value: str | None, generation: int
) -> None:
    monkeypatch.delenv(TARGET_VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(TARGET_VARIABLE, value)
    found = scope(CURRENT, ASKED)
    found["ask"](X)
    assert found["outside"] == found["seen"][0][0] == generation


def test_an_unknown_target_is_named(scope: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TARGET_VARIABLE, "trn9")
    with pytest.raises(ArgumentFault, match="trn1, trn2, trn3"):
        scope(CURRENT, "nki.jit(times)(X, 2.0)", X=X)


def test_a_decorator_chooses_the_target(scope: Any) -> None:
    body = """
    seen = []
    @nki.jit(mode="simulation", platform_target="trn2")
    def ask(x):
        seen.append(int(nisa.get_nc_version()))
        return times(x, 1.0)
    ask(X)
    """
    assert scope(LEGACY, body, X=X)["seen"] == [3]


# Collectives.


@pytest.mark.parametrize(
    "call",
    [
        "ncc.all_reduce(srcs=[x], dsts=[out], replica_group=alone, op=nl.add)",
        "ncc.all_gather([x], [out], alone, collective_dim=0)",
        "ncc.reduce_scatter([x], [out], alone, 0, nl.add)",
        "ncc.all_to_all([x], [out], alone, 0)",
        "ncc.collective_permute([x], [out], [(0, 0)])",
        "ncc.collective_permute_implicit([[x]], [[out]], alone)",
    ],
)
def test_collectives_of_one_rank_copy(scope: Any, call: str) -> None:
    body = f"""
    alone = ncc.ReplicaGroup([[0]])
    @nki.jit
    def run(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        assert ncc.rank_id().value == 0
        {call}
        return out
    """
    assert np.array_equal(scope(CURRENT, body)["run"](X), X)


@pytest.mark.parametrize(
    "call",
    [
        "ncc.all_reduce([x], [x], ncc.ReplicaGroup([[0, 1]]), nl.add)",
        "ncc.collective_permute([x], [x], [(0, 1), (1, 0)])",
        "ncc.all_to_all_v([x], [x], None, None)",
    ],
)
def test_other_ranks_are_not_invented(scope: Any, call: str) -> None:
    body = f"""
    @nki.jit
    def run(x):
        {call}
    """
    with pytest.raises(UnsupportedByKernel, match="nki.collectives"):
        scope(CURRENT, body)["run"](X)


# Packages.


def test_a_kernel_in_a_package_is_imported_as_part_of_it(tmp_path: Path) -> None:
    package = tmp_path / "library" / "core"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("")
    (package.parent / "helpers.py").write_text("FACTOR = 2.0\n")
    (package / "parts.py").write_text(CURRENT)
    kernel = package / "scaled.py"
    kernel.write_text(
        "import nki\nfrom ..helpers import FACTOR\nfrom .parts import times\n"
        "from library.core import parts\n\n\n@nki.jit\ndef kernel(x):\n"
        "    assert parts.times is times\n    return times(x, FACTOR)\n"
    )
    reference = tmp_path / "reference.py"
    reference.write_text("def forward(x):\n    return 2 * x\n")
    found = profile(
        job(kernel, {"x": "f32[64,32]"}, target="trn2", reference=reference, seeds=(0, 21))
    )
    assert isinstance(found, Profile), found
    assert found.correct is True


PRECISION = (
    CURRENT
    + """
@nki.jit
def through_bfloat16(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=out, src=tile)
    return out

x = np.full((1, 4), 1.001, np.float32)
print(bool((through_bfloat16(x) == x).all()))
"""
)


@pytest.mark.parametrize(("value", "kept"), [("1", "False"), ("0", "True")])
def test_precision_of_narrow_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, kept: str
) -> None:
    path = tmp_path / "script.py"
    path.write_text(PRECISION)
    monkeypatch.setenv("NKI_PRECISE_FP", value)
    program = "import sys; from accelopt_lsp.profiler.simulator import run_script; "
    program += "sys.exit(run_script(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == kept
