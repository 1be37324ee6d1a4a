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
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.profiler.simulator import state as sessions
from accelopt_lsp.profiler.simulator.blocks import BlockTensor
from accelopt_lsp.profiler.simulator.creation import (
    MemoryRegion,
    creation_functions,
    element_of,
    region_of,
)
from accelopt_lsp.profiler.simulator.elements import ELEMENTS, from_carrier
from accelopt_lsp.profiler.simulator.errors import KernelRejected, UnsupportedByKernel
from accelopt_lsp.profiler.simulator.indexing import DynamicSlice, loop_range
from accelopt_lsp.profiler.simulator.kernels import default_target
from accelopt_lsp.profiler.simulator.library import api_functions, operator_functions
from accelopt_lsp.profiler.simulator.loop_reductions import loop_reduce as reduce_loops
from accelopt_lsp.profiler.simulator.tensors import Tensor


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


def target_of(dialect: Dialect) -> Target:
    """Target of the kernel that runs, or of those that the script will call."""
    session = sessions.current()
    return default_target(dialect) if session is None else session.target


def _tile_sizes(dialect: Dialect) -> Constants:
    values = {
        k.partition(".")[2]: v for k, v in LANGUAGE_CONSTANTS.items() if k.startswith("tile_size.")
    }

    class TileSizes(Constants):
        """Sizes that depend on the target are looked up when asked for."""

        @property
        def total_available_sbuf_size(self) -> int:
            target = target_of(dialect)
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


def expand_dims(data: Any = None, axis: Any = None, *, x: Any = None) -> Tensor:
    """Insert axes of size 1; they count in the result, negative ones from its end."""
    tensor = data if x is None else x
    if not isinstance(tensor, Tensor):
        raise KernelRejected(f"nl.expand_dims takes a tile, got {type(tensor).__name__}", "R101")
    axes = tuple(axis) if isinstance(axis, list | tuple) else (axis,)
    rank = tensor.ndim + len(axes)
    for position in sorted(int(a) % rank for a in axes):
        tensor = tensor.expand_dim(position)
    return tensor


def static_cast(input_data: Any, dtype: Any) -> Any:
    """Legacy: cast a scalar or array while the kernel is traced."""
    return np.asarray(input_data).astype(ELEMENTS[element_of(dtype)].dtype)[()]


def spmd_dim(*sizes: Any) -> Any:
    """Legacy: an axis of the launch grid from its parts, outermost first."""
    total: Any = 1
    for size in sizes:
        total = total * size
    return total


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
        tile_size=_tile_sizes(dialect),
        device_print=device_print,
    )
    if dialect is Dialect.CURRENT:
        names.update(buffer_queries())
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
    return reduce_loops(sessions.active(), x, op, loop_indices, dtype, mask, sys._getframe(1))


def all_reduce(one_program: Callable[..., Any]) -> Callable[..., Any]:
    """Legacy ``nl.all_reduce``, from the function for a single program."""

    def function(x: Any, op: Any, program_axes: Any, **options: Any) -> Any:
        axes = program_axes if isinstance(program_axes, list | tuple) else (program_axes,)
        grid = sessions.active().grid
        if any(0 <= int(a) < len(grid) and grid[int(a)] > 1 for a in axes):
            raise UnsupportedByKernel(
                "accelopt's simulator does not know nl.all_reduce over several programs: no "
                "document says how they wait for each other"
            )
        return one_program(x, op, program_axes, **options)

    function.__name__ = function.__qualname__ = "all_reduce"
    return function


def device_print(prefix: Any = "", x: Any = None, *, mask: Any = None, **named: Any) -> None:
    """Print a tile, where values are computed; it issues nothing."""
    prefix = named.get("print_prefix", prefix)
    tensor = named.get("tensor", x)
    session = sessions.active()
    session.flush()
    if not isinstance(tensor, Tensor):
        print(prefix, tensor)
    elif session.full:
        print(prefix, from_carrier(tensor.array(), tensor.element))
    else:
        session.notes.setdefault("nl.device_print prints only where values are computed")


def buffer_queries() -> dict[str, Callable[[Any], bool]]:
    """``nl.is_hbm(buffer)`` and its siblings."""

    def query(name: str, memories: tuple[Buffer, ...]) -> Callable[[Any], bool]:
        def function(buffer: Any) -> bool:
            return region_of(buffer, "sbuf").buffer in memories

        function.__name__ = function.__qualname__ = name
        return function

    groups = {
        "is_hbm": (Buffer.HBM,),
        "is_sbuf": (Buffer.SBUF,),
        "is_psum": (Buffer.PSUM,),
        "is_on_chip": (Buffer.SBUF, Buffer.PSUM),
    }
    return {name: query(name, memories) for name, memories in groups.items()}


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
    double_row = "double_row"


class CoreVersion(IntEnum):
    """``nisa.nc_version``."""

    gen2 = 2
    gen3 = 3
    gen4 = 4


def get_nc_sub_version() -> int:
    """Revision of the silicon: the first, since targets describe no other."""
    return 0


def isa_names(dialect: Dialect) -> dict[str, Any]:
    """Everything that ``nki.isa`` holds in a dialect."""
    names: dict[str, Any] = dict(api_functions("nisa", dialect))

    def get_nc_version() -> CoreVersion:
        return CoreVersion(target_of(dialect).generation)

    names.update(
        engine=EngineName,
        reduce_cmd=ReduceCommand,
        dge_mode=DgeMode,
        oob_mode=OutOfBounds,
        matmul_perf_mode=PerformanceMode,
        nc_version=CoreVersion,
        get_nc_version=get_nc_version,
    )
    if dialect is Dialect.CURRENT:
        names["get_nc_sub_version"] = get_nc_sub_version
    for engine in EngineName:
        names[f"{engine.value}_engine"] = engine
    return names
