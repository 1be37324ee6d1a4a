"""Arguments that are objects of the kernel's project: as a user gives them, and what goes wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.profiler.base import Failure, FailureKind
from tests.simulator.helpers import job, profile

TYPES = """from dataclasses import dataclass
from enum import Enum


class Mode(Enum):
    COPY = 0
    SUM = 1


@dataclass
class Config:
    x: object
    y: object = None
    mode: Mode = Mode.COPY

    def __post_init__(self):
        if self.y is not None and self.y.shape != self.x.shape:
            raise ValueError(f"y has shape {self.y.shape}, x {self.x.shape}")


class Holder:
    def __init__(self, pairs):
        self.pairs = pairs
        self.rows = pairs["a"].shape[0]


def summing(x, y):
    return Config(x, y, Mode.SUM)
"""
KERNEL = """import nki
import nki.isa as nisa
import nki.language as nl
from types_of_it import Config, Mode


@nki.jit
def kernel(config, holder=None):
    shape = config.x.shape
    out = nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=config.x)
    if config.mode == Mode.SUM:
        other = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=other, src=config.y)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=other, op=nl.add)
    if holder is not None:
        part = nl.ndarray((holder.rows, shape[1]), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=part, src=holder.pairs["a"])
        nisa.tensor_tensor(dst=tile, data1=tile, data2=part, op=nl.subtract)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
REFERENCE = """def forward(config, holder=None):
    total = config.x + (config.y if hasattr(config, "y") else 0)
    return total if holder is None else total - holder.pairs["a"]
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "types_of_it.py").write_text(TYPES)
    (tmp_path / "reference.py").write_text(REFERENCE)
    file = tmp_path / "kernel_file.py"
    file.write_text(KERNEL)
    return file


X = "f32[128,64]"
GIVEN = [
    ({"config": f"Config(x={X})"}, 2),
    ({"config": f"Config(x={X}, y={X}, mode=Mode.SUM)"}, 4),
    ({"config": f"types_of_it.Config(x={X}, y={X}, mode=types_of_it.Mode.SUM)"}, 4),
    ({"config": f"Config(x={X})", "holder": f"types_of_it.Holder(pairs={{'a': {X}}})"}, 4),
]


@pytest.mark.parametrize(("specs", "instructions"), GIVEN)
def test_objects_are_made_and_outputs_verified(path, specs, instructions):
    found = profile(job(path, specs, reference=path.with_name("reference.py"), seeds=(0, 1)))
    assert isinstance(found, Profile), found
    assert found.correct
    assert sum(found.issued.instructions.values()) == instructions


def test_a_function_of_the_project_makes_an_object_and_shapes_are_enough(path):
    found = profile(job(path, {"config": f"types_of_it.summing({X}, y={X})"}))
    assert isinstance(found, Profile), found
    assert sum(found.issued.instructions.values()) == 4


WRONG = [
    (f"Configuration({X})", "Configuration is no name of the kernel's file"),
    (f"types_of_it.Confg({X})", "types_of_it has no 'Confg'"),
    (f"Mode.SUM({X})", "Mode.SUM is no class or function"),
    (f"Config({X}, y=f32[128,32])", "y has shape (128, 32), x (128, 64)"),
    (f"Config({X}, z=1)", "unexpected keyword argument 'z'"),
]


@pytest.mark.parametrize(("spec", "message"), WRONG, ids=[m for _, m in WRONG])
def test_what_is_wrong_with_an_object_is_said(path, spec, message):
    found = profile(job(path, {"config": spec}))
    assert isinstance(found, Failure)
    assert message in found.message
    assert found.kind is not FailureKind.CRASH
