"""The simulator: kernels run on NumPy in a sandboxed child, and their trace is scheduled.

Importing this package loads no NumPy: that happens in the child, or when a script is run.
"""

from __future__ import annotations

from accelopt_lsp.profiler.simulator.client import SimulatorProfiler
from accelopt_lsp.profiler.simulator.script import run_script

__all__ = ["SimulatorProfiler", "run_script"]
