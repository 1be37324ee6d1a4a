"""What both dialects' ``nki.language`` and ``nki.isa`` share: constants, loops, queries."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import IntEnum, StrEnum
from types import SimpleNamespace
from typing import Any

import numpy as np

from accelopt_lsp.nki.dialects import LANGUAGE_CONSTANTS, MEMORIES, Dialect
from accelopt_lsp.nki.dtypes import all_dtypes
from accelopt_lsp.profiler.simulator import state as sessions
from accelopt_lsp.profiler.simulator.assignment import loop_reduce as reduce_loops
from accelopt_lsp.profiler.simulator.creation import (
    MemoryRegion,
    creation_functions,
    element_of,
)
from accelopt_lsp.profiler.simulator.elements import ELEMENTS
from accelopt_lsp.profiler.simulator.errors import KernelRejected, UnsupportedByKernel
from accelopt_lsp.profiler.simulator.indexing import DynamicSlice, loop_range
from accelopt_lsp.profiler.simulator.kernels import ProgramAxis
from accelopt_lsp.profiler.simulator.library import api_functions, operator_functions
from accelopt_lsp.profiler.simulator.tensors import BlockTensor, Tensor


class Constants(SimpleNamespace):
    """A group of constants such as ``nl.tile_size``; unknown members are named clearly."""

    def __init__(self, name: str, **values: Any) -> None:
        super().__init__(**values)
        object.__setattr__(self, "_name", name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        owner = object.__getattribute__(self, "_name")
        raise UnsupportedByKernel(f"accelopt's simulator does not know {owner}.{name}")


def _tile_sizes() -> Constants:
    values = {
        k.partition(".")[2]: v for k, v in LANGUAGE_CONSTANTS.items() if k.startswith("tile_size.")
    }

    class TileSizes(Constants):
        """Sizes that depend on the target are looked up when asked for."""

        @property
        def total_available_sbuf_size(self) -> int:
            session = sessions.current()
            if session is None:
                raise KernelRejected("sizes of a target are known inside a kernel only", "R022")
            target = session.target
            reserved = target.get("sbuf_reserved_bytes") or 0
            return int(target["sbuf_partition_bytes"] - reserved)

        @property
        def sbuf_fmax_bytes(self) -> int:
            return self.total_available_sbuf_size

        @property
        def sbuf_fmax(self) -> int:
            return self.total_available_sbuf_size // 4

        @property
        def sbuf_size_bytes(self) -> int:
            return self.total_available_sbuf_size * 128

    return TileSizes("nl.tile_size", **values)


def program_id(axis: int = 0) -> int:
    """Index of this program in the launch grid; 0 without a grid."""
    program = sessions.active().program
    if not program:
        return 0
    if not 0 <= axis < len(program):
        raise KernelRejected(f"the launch grid has {len(program)} axes, no axis {axis}")
    return program[axis]


def num_programs(axes: Any = None) -> Any:
    """Size of the launch grid along some axes."""
    grid = sessions.active().grid or (1,)
    if axes is None:
        axes = tuple(range(len(grid)))
        return grid[0] if len(grid) == 1 else grid
    if isinstance(axes, int):
        return grid[axes]
    return tuple(grid[a] for a in axes)


def program_ndim() -> int:
    return len(sessions.active().grid)


def expand_dims(data: Tensor, axis: int) -> Tensor:
    return data.expand_dims(axis)


def static_cast(input_data: Any, dtype: Any) -> Any:
    """Legacy: cast a scalar or array while the kernel is traced."""
    return np.asarray(input_data).astype(ELEMENTS[element_of(dtype)].dtype)[()]


def shared_identity_matrix(make: Callable[..., Any]) -> Callable[..., Any]:
    def function(n: int, dtype: Any = np.uint8, **_: Any) -> Any:
        return make(np.identity(n), dtype)

    return function


def spmd_dim(size: Any, core: Any = None) -> Any:
    """Legacy: an axis of the launch grid, spread over cores."""
    return core if isinstance(size, int) and core is not None else size


def language_names(dialect: Dialect) -> dict[str, Any]:
    """Everything that ``nki.language`` holds in a dialect."""
    names: dict[str, Any] = dict(api_functions("nl", dialect))
    names.update(operator_functions(names))
    names.update(creation_functions(dialect))
    for element in all_dtypes():
        names[element.name] = ELEMENTS[element]
    for buffer in MEMORIES:
        names[buffer] = MemoryRegion(buffer)
    for loop in ("affine_range", "sequential_range", "static_range"):
        names[loop] = loop_range
    names.update(
        ds=DynamicSlice,
        program_id=program_id,
        num_programs=num_programs,
        program_ndim=program_ndim,
        expand_dims=expand_dims,
        tile_size=_tile_sizes(),
        fp32=Constants("nl.fp32", min=LANGUAGE_CONSTANTS["fp32.min"]),
        nc=ProgramAxis,
        spmd_dim=spmd_dim,
        shared_identity_matrix=shared_identity_matrix(names["shared_constant"]),
    )
    return names


def loop_reduce(
    x: Any,
    op: Any,
    loop_indices: Any,
    *,
    dtype: Any = None,
    mask: Any = None,
    **_: Any,
) -> Any:
    """Reduce a value over the named loops."""
    if isinstance(x, BlockTensor) or not isinstance(x, Tensor):
        raise KernelRejected(f"nl.loop_reduce takes a tile, got {type(x).__name__}")
    if mask is not None:
        raise UnsupportedByKernel("accelopt's simulator does not know nl.loop_reduce(mask=...)")
    return reduce_loops(sessions.active(), x, op, loop_indices, dtype, sys._getframe(1))


class EngineName(StrEnum):
    """``nisa.engine``."""

    unknown = "unknown"
    tensor = "tensor"
    scalar = "scalar"
    gpsimd = "gpsimd"
    dma = "dma"
    vector = "vector"
    sync = "sync"


class ReduceCommand(StrEnum):
    """``nisa.reduce_cmd``."""

    idle = "idle"
    reset = "reset"
    reduce = "reduce"
    reset_reduce = "reset_reduce"
    load_reduce = "load_reduce"


class DgeMode(StrEnum):
    """``nisa.dge_mode``."""

    unknown = "unknown"
    swdge = "swdge"
    hwdge = "hwdge"
    none = "none"


class OutOfBounds(StrEnum):
    """``nisa.oob_mode``."""

    error = "error"
    skip = "skip"


class PerformanceMode(StrEnum):
    """``nisa.matmul_perf_mode``."""

    none = "none"


class CoreVersion(IntEnum):
    """``nisa.nc_version``."""

    gen2 = 2
    gen3 = 3
    gen4 = 4


def get_nc_version() -> CoreVersion:
    return CoreVersion(sessions.active().target.generation)


def isa_names(dialect: Dialect) -> dict[str, Any]:
    """Everything that ``nki.isa`` holds in a dialect."""
    names: dict[str, Any] = dict(api_functions("nisa", dialect))
    names.update(
        engine=EngineName,
        reduce_cmd=ReduceCommand,
        dge_mode=DgeMode,
        oob_mode=OutOfBounds,
        matmul_perf_mode=PerformanceMode,
        nc_version=CoreVersion,
        get_nc_version=get_nc_version,
    )
    for engine in EngineName:
        names[f"{engine.value}_engine"] = engine
    return names
