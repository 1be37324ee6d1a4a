"""pytest plugin: nki-library's own tests find our simulator where they expect AWS's.

Their ``--test-mode=simulation`` imports a package ``nki_cpu_simulator``, which is not public, and
helpers of ``neuron_dtypes``. This plugin serves both from the simulator's stand-ins::

    accelopt run -m pytest -p nki_library_plugin --test-mode=simulation test/integration/...
"""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.profiler.simulator import hook, kernels
from accelopt_lsp.profiler.simulator.elements import as_dtype, numpy_dtype

GENERATIONS = {"gen2": "trn1", "gen3": "trn2", "gen4": "trn3"}


def cpu_simulate(function: Any) -> Any:
    """Their entry point: ``nki.cpu_simulate(kernel)[cores](**inputs)``."""

    class Launcher:
        def __getitem__(self, cores: int) -> Any:
            kernel = kernels.unwrap(function) or kernels.Kernel(function, Dialect.CURRENT)
            wanted = os.environ.get("NKI_NC_VERSION", "gen3")
            kernels.DEFAULTS.target = GENERATIONS.get(wanted, wanted)
            return kernel[cores] if cores > 1 else kernel

    return Launcher()


def static_cast(values: Any, dtype: Any) -> Any:
    """``neuron_dtypes.static_cast``: values rounded to a type of NKI."""
    element = as_dtype(dtype)
    if element is None:
        return np.asarray(values).astype(dtype)
    array = np.asarray(values)
    if array.dtype.kind == "V" or array.dtype == ml_dtypes.bfloat16:
        array = array.astype(np.float32)
    return array.astype(numpy_dtype(element))


def is_float_type(dtype: Any) -> bool:
    """``neuron_dtypes.is_float_type``."""
    element = as_dtype(dtype)
    return element is not None and element.is_float


def _module(name: str, **content: Any) -> ModuleType:
    module = ModuleType(name)
    module.__path__ = []
    module.__dict__.update({k: v for k, v in content.items() if not k.startswith("__")})
    sys.modules[name] = module
    return module


class AnyName(ModuleType):
    """A module of their test infrastructure that is not public; only its names are needed."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def install() -> None:
    """Serve the modules under the names that the tests import."""
    hook.install()
    nki = importlib.import_module("nki")
    language = importlib.import_module("nki.language")
    isa = importlib.import_module("nki.isa")
    typing = importlib.import_module("nki.typing")
    root = _module("nki_cpu_simulator.nki", **vars(nki), cpu_simulate=cpu_simulate)
    _module("nki_cpu_simulator", nki=root)
    dtypes = _module("nki_cpu_simulator.nki.language.dtypes", **vars(language))
    served = {
        "builtin": _module("nki_cpu_simulator.nki.builtin"),
        "compiler": _module("nki_cpu_simulator.nki.compiler"),
        "isa": isa,
        "isa.constants": isa,
        "language": language,
        "language.dtypes": dtypes,
        "tensor": _module("nki_cpu_simulator.nki.tensor"),
        "typing": typing,
    }
    for name, module in served.items():
        sys.modules[f"nki_cpu_simulator.nki.{name}"] = module
        if "." not in name:
            setattr(root, name, module)
    language.dtypes, isa.constants = dtypes, isa
    numeric = {
        name: numpy_dtype(element)
        for name in ("bfloat16", "float16", "float32", "float8_e4m3", "float8_e5m2", "int32")
        if (element := as_dtype(name)) is not None
    }
    private = ("scripts", "scripts.remote_lock_scripts", "perf_analysis_private")
    for name in (f"test.utils.{n}" for n in private):
        sys.modules[name] = AnyName(name)
        sys.modules[name].__path__ = []
    _module("neuron_dtypes", static_cast=static_cast, is_float_type=is_float_type, **numeric)


def pytest_collection_modifyitems() -> None:
    """Their orchestrator looks for the result of a compilation that simulation skips."""
    orchestrator = sys.modules.get("test.utils.test_orchestrator")
    if orchestrator is not None:
        orchestrator.Orchestrator._compiled_kernel = None  # type: ignore[attr-defined]


def pytest_configure() -> None:
    """Name what their simulation mode forgets to set: there is no compiled kernel."""
    orchestrator = sys.modules.get("test.utils.test_orchestrator")
    if orchestrator is not None:
        orchestrator.Orchestrator._compiled_kernel = None


install()
