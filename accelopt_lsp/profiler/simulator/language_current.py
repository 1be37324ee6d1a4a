"""The stand-in for ``nki``: names of NKI 0.2 to 0.6."""

from __future__ import annotations

from typing import Any

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.profiler.simulator.collectives import collectives
from accelopt_lsp.profiler.simulator.creation import MemoryRegion
from accelopt_lsp.profiler.simulator.elements import ElementType
from accelopt_lsp.profiler.simulator.errors import KernelRejected
from accelopt_lsp.profiler.simulator.language import isa_names, language_names
from accelopt_lsp.profiler.simulator.launch import jit_functions
from accelopt_lsp.profiler.simulator.objects import NKIObject
from accelopt_lsp.profiler.simulator.sequencers import loop_functions, sequencer_functions
from accelopt_lsp.profiler.simulator.tensors import Tensor
from accelopt_lsp.profiler.simulator.typing_names import constants_of, current_typing


def is_data_type(value: Any) -> bool:
    return isinstance(value, ElementType)


def modules() -> dict[str, dict[str, Any]]:
    """Module name to its public names; submodules become attributes of their parents."""
    language = language_names(Dialect.CURRENT) | loop_functions()
    language.update(NKIObject=NKIObject, NkiTensor=Tensor, MemoryRegion=MemoryRegion)
    # No page documents it; kernels of nki-library unroll loops by it.
    language["range"] = language["affine_range"]
    isa = isa_names(Dialect.CURRENT) | sequencer_functions()
    isa["NkiValidationError"] = KernelRejected
    data_types = {name: value for name, value in language.items() if is_data_type(value)}
    return {
        "nki": jit_functions(Dialect.CURRENT),
        "nki.language": language,
        "nki.isa": isa,
        "nki.isa.constants": constants_of(isa),
        "nki.dtype": data_types,
        "nki.collectives": collectives(),
        "nki.typing": current_typing(),
    }
