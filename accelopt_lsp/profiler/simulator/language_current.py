"""The stand-in for ``nki``: names of NKI 0.2 to 0.6."""

from __future__ import annotations

from typing import Any

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.profiler.simulator.kernels import jit_functions
from accelopt_lsp.profiler.simulator.language import isa_names, language_names
from accelopt_lsp.profiler.simulator.sequencers import loop_functions, sequencer_functions
from accelopt_lsp.profiler.simulator.typing_names import current_typing


def modules() -> dict[str, dict[str, Any]]:
    """Module name to its public names; submodules become attributes of their parents."""
    language = language_names(Dialect.CURRENT) | loop_functions()
    isa = isa_names(Dialect.CURRENT) | sequencer_functions()
    return {
        "nki": jit_functions(Dialect.CURRENT),
        "nki.language": language,
        "nki.isa": isa,
        "nki.typing": current_typing(),
    }
