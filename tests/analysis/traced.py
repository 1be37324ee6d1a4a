"""Counts of one kernel, traced by the simulator on shapes alone."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from accelopt_lsp.nki.arguments import KernelArguments
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.issued import count_issued
from accelopt_lsp.nki.profile import Issued
from accelopt_lsp.nki.targets import get_target
from accelopt_lsp.profiler.simulator import hook
from accelopt_lsp.profiler.simulator.given import from_spec
from accelopt_lsp.profiler.simulator.kernels import Kernel, execute, unwrap
from accelopt_lsp.profiler.simulator.library import OPERATOR_NAMES
from accelopt_lsp.profiler.simulator.session import Session
from accelopt_lsp.profiler.simulator.source import Sources


def traced_counts(
    path: Path, function: str, arguments: KernelArguments, dialect: Dialect, target: str
) -> Issued:
    """What the simulator issues for one kernel, without computing values."""
    hook.install()
    name = f"traced_{path.stem}"
    try:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        found: Any = module
        for part in function.split("."):
            found = getattr(found, part)
        kernel = unwrap(found) or Kernel(found, dialect)
        session = Session(
            get_target(target), dialect, Sources(str(path)), full=False, names=OPERATOR_NAMES
        )
        values = {k: from_spec(v, module, path.parent) for k, v in arguments.values.items()}
        execute(kernel, [], values, session, arguments.grid)
        counts = Counter(code for code, _ in session.trace.records)
        templates = session.trace.templates
        return count_issued(
            ((templates[code].issue, times) for code, times in counts.items()), get_target(target)
        )
    finally:
        sys.modules.pop(name, None)
        hook.uninstall()
