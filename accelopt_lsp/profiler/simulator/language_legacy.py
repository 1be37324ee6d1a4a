"""The stand-in for ``neuronxcc.nki``: names of NKI 0.1."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import ml_dtypes

from accelopt_lsp.nki.dialects import LANGUAGE_CONSTANTS, Dialect
from accelopt_lsp.profiler.simulator.creation import MemoryRegion, element_of, par_dim
from accelopt_lsp.profiler.simulator.elements import ELEMENTS
from accelopt_lsp.profiler.simulator.indexing import MeshGrid, arange
from accelopt_lsp.profiler.simulator.kernels import ProgramAxis
from accelopt_lsp.profiler.simulator.language import (
    Constants,
    all_reduce,
    isa_names,
    language_names,
    loop_reduce,
    spmd_dim,
    static_cast,
)
from accelopt_lsp.profiler.simulator.launch import jit_functions
from accelopt_lsp.profiler.simulator.typing_names import (
    TensorAnnotation,
    constants_of,
    legacy_typing,
)


def _unchanged(function: Any = None, **_: Any) -> Any:
    """Decorators that steer the compiler: nothing to do here."""
    return function if callable(function) else _unchanged


class _Directive(AbstractContextManager["_Directive"]):
    """Directives to the compiler's scheduler and allocator: nothing to do here."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()

    def __exit__(self, *_: object) -> None:
        return None


def _finfo(dtype: Any) -> Any:
    limits: Any = ml_dtypes.finfo
    return limits(ELEMENTS[element_of(dtype)].dtype)


def gemm_grid() -> Any:
    """Indices of a full moving tile, and of the result, of the Tensor Engine."""
    return MeshGrid()[0:128, 0:512]


def gemm_stationary_grid() -> Any:
    """Indices of a full stationary tile of the Tensor Engine."""
    return MeshGrid()[0:128, 0:128]


def modules() -> dict[str, dict[str, Any]]:
    """Module name to its public names; submodules become attributes of their parents."""
    language = language_names(Dialect.LEGACY)
    language.update(
        fp32=Constants("nl.fp32", min=LANGUAGE_CONSTANTS["fp32.min"]),
        bfp16=Constants("nl.bfp16", min=LANGUAGE_CONSTANTS["bfp16.min"]),
        nc=ProgramAxis,
        spmd_dim=spmd_dim,
        gemm_grid=gemm_grid,
        gemm_stationary_grid=gemm_stationary_grid,
        all_reduce=all_reduce(language["all_reduce"]),
        arange=arange,
        mgrid=MeshGrid(),
        par_dim=par_dim,
        loop_reduce=loop_reduce,
        static_cast=static_cast,
        finfo=_finfo,
    )
    compiler = {
        "sbuf": MemoryRegion("sbuf"),
        "psum": MemoryRegion("psum"),
        "skip_middle_end_transformations": _unchanged,
        "enable_stack_allocator": _unchanged,
        "force_auto_alloc": _unchanged,
        "no_reorder": _Directive,
        "allocation_scope": _Directive,
        "multi_buffer": _Directive,
        "auto_alloc": _Directive,
    }
    isa = isa_names(Dialect.LEGACY)
    root = jit_functions(Dialect.LEGACY)
    root.update(par_dim=par_dim, tensor=TensorAnnotation())
    return {
        "neuronxcc": {},
        "neuronxcc.nki": root,
        "neuronxcc.nki.language": language,
        "neuronxcc.nki.isa": isa,
        "neuronxcc.nki.isa.constants": constants_of(isa),
        "neuronxcc.nki.typing": legacy_typing(),
        "neuronxcc.nki.compiler": compiler,
    }
