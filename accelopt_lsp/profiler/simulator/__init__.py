"""The simulator: kernels run on NumPy in a sandboxed child, and their trace is scheduled.

Importing this package loads no NumPy: that happens in the child, or when a script is run. Names
are loaded when asked for, since the child is part of this package and needs no asyncio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accelopt_lsp.profiler.simulator.profiler import SimulatorProfiler
    from accelopt_lsp.profiler.simulator.script import run_script

__all__ = ["SimulatorProfiler", "run_script"]


def __getattr__(name: str) -> Any:
    if name == "SimulatorProfiler":
        from accelopt_lsp.profiler.simulator.profiler import SimulatorProfiler

        return SimulatorProfiler
    if name == "run_script":
        from accelopt_lsp.profiler.simulator.script import run_script

        return run_script
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
