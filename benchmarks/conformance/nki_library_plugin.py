"""pytest plugin: nki-library's own tests find our simulator where they expect AWS's.

Their ``--test-mode=simulation`` imports a package ``nki_cpu_simulator``, which is not public, and
helpers of ``neuron_dtypes``. This plugin serves both from the simulator's stand-ins::

    accelopt run -m pytest -p nki_library_plugin --test-mode=simulation test/integration/...
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

import ml_dtypes
import nki_library_record as record
import numpy as np

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.dtypes import Kind, all_dtypes, get_dtype, numpy_dtype
from accelopt_lsp.profiler.simulator import elements, hook, kernels
from accelopt_lsp.profiler.simulator.elements import _BY_NUMPY, ELEMENTS, as_dtype
from accelopt_lsp.profiler.simulator.numerics import mx

GENERATIONS = {"gen2": "trn1", "gen3": "trn2", "gen4": "trn3"}


def _packed(name: str) -> np.dtype[Any]:
    """A NumPy type that carries the name of a packed type; it is no number, as theirs is none."""
    half = "u2" if get_dtype(name).nbytes == 4 else "u1"
    return np.dtype([(name, half), ("high", half)])


PACKED = {d.name: _packed(d.name) for d in all_dtypes() if d.kind is Kind.PACKED}
"""Types of arrays that hold four values of a microscaling format in one element."""


class Output:
    """What a kernel returned: converted to the type that their harness asks for."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        array = np.asarray(self.values)
        if dtype is None or array.dtype == dtype:
            return array
        if {array.dtype, np.dtype(dtype)} & set(PACKED.values()):
            # A reference in another type of that size holds the same bits.
            return np.ascontiguousarray(array).view(dtype)
        return static_cast(array, dtype)


def from_carrier(values: Any, element: Any) -> Any:
    """What a kernel returned in the type that stands for it; packed types in their own."""
    array = elements.from_carrier(values, element)
    kind = PACKED.get(element.name)
    return array if kind is None else np.ascontiguousarray(array).view(kind)


def cpu_simulate(function: Any) -> Any:
    """Their entry point: ``nki.cpu_simulate(kernel)[cores](**inputs)``."""

    class Launcher:
        def __getitem__(self, cores: int) -> Any:
            kernel = kernels.unwrap(function)
            if kernel is None:
                record.PLAIN.add(function)
                kernel = kernels.Kernel(function, Dialect.CURRENT)
            wanted = os.environ.get("NKI_NC_VERSION", "gen3")
            kernels.DEFAULTS.target = GENERATIONS.get(wanted, wanted)
            launch = kernel[cores] if cores > 1 else kernel

            def run(**inputs: Any) -> Any:
                # A device has inputs of its own; references are computed from the caller's later.
                copies = {
                    k: v.copy() if isinstance(v, np.ndarray) else v for k, v in inputs.items()
                }
                result = launch(**copies)
                record.launched(kernel.function, cores, kernels.DEFAULTS.target)
                if result is None:
                    return None
                many = isinstance(result, list | tuple)
                outputs = [Output(r) for r in (result if many else [result])]
                return outputs if many else outputs[0]

            return run

    return Launcher()


class _AnyText(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, str)


class Text(str, metaclass=_AnyText):
    """``str`` for code that tells packed types by the names of their NumPy types."""

    __slots__ = ()

    def __new__(cls, value: Any = "", *more: Any) -> Any:
        if isinstance(value, np.dtype) and value.names and value.names[0] in PACKED:
            return value.names[0]
        return str(value, *more)


def static_cast(values: Any, dtype: Any) -> Any:
    """``neuron_dtypes.static_cast``: values rounded to a type of NKI.

    Four neighbours become one packed element, and a packed element four neighbours.
    """
    array = np.asarray(values)
    if array.dtype.names and array.dtype.names[0] in PACKED:
        name = array.dtype.names[0]
        unsigned = np.ascontiguousarray(array).view(numpy_dtype(get_dtype(name)))
        array = mx.unpack(unsigned, name).reshape(*array.shape[:-1], -1)
    element = as_dtype(dtype)
    if element is None:
        return array.astype(dtype)
    if element.kind is Kind.PACKED:
        groups = array.astype(np.float32).reshape(*array.shape[:-1], -1, 4)
        return mx.pack(groups, element.name).view(PACKED[element.name])
    if array.dtype.kind == "V" or array.dtype == ml_dtypes.bfloat16:
        array = array.astype(np.float32)
    return array.astype(numpy_dtype(element))


def is_float_type(dtype: Any) -> bool:
    """``neuron_dtypes.is_float_type``."""
    element = as_dtype(dtype)
    return element is not None and element.is_float


def size_in_bytes(dtype: Any) -> int:
    """``neuron_dtypes.sizeinbytes``."""
    element = as_dtype(dtype)
    return int(np.dtype(dtype).itemsize) if element is None else element.nbytes


def finfo(dtype: Any) -> Any:
    """``neuron_dtypes.finfo``."""
    element = as_dtype(dtype)
    return ml_dtypes.finfo(np.dtype(dtype) if element is None else numpy_dtype(element))


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
    record.watch_kernels()
    record.watch_references()
    kernels.from_carrier = from_carrier
    for name, numpy_type in PACKED.items():
        _BY_NUMPY[numpy_type] = get_dtype(name)
        ELEMENTS[get_dtype(name)].dtype = numpy_type
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
    numeric = {d.name: numpy_dtype(d) for d in all_dtypes()} | PACKED
    private = ("scripts", "scripts.remote_lock_scripts", "perf_analysis_private")
    for name in (f"test.utils.{n}" for n in private):
        sys.modules[name] = AnyName(name)
        sys.modules[name].__path__ = []
    _module(
        "neuron_dtypes",
        static_cast=static_cast,
        is_float_type=is_float_type,
        sizeinbytes=size_in_bytes,
        finfo=finfo,
        **numeric,
    )


MOVED = {"nkilib_src.nkilib.experimental.subkernels": "nkilib_src.nkilib.experimental.collectives"}
"""Packages that a test imports by a name that the library no longer has."""


def pytest_configure(config: Any) -> None:
    """Name what the tests leave out: a compiled kernel, an import and a package that moved."""
    config.pluginmanager.register(record)
    orchestrator = sys.modules.get("test.utils.test_orchestrator")
    if orchestrator is not None:
        orchestrator.Orchestrator._compiled_kernel = None
    validators = sys.modules.get("test.utils.output_validator")
    if validators is not None:
        record.watch_comparisons(validators)
    dataclasses = sys.modules.get("test.utils.common_dataclasses")
    if dataclasses is not None:
        builtins.Platforms = dataclasses.Platforms
    for old, new in MOVED.items():
        if importlib.util.find_spec(new) and not importlib.util.find_spec(old):
            sys.modules[old] = importlib.import_module(new)


def pytest_collection_modifyitems() -> None:
    """Code that asks NumPy types for their names gets those of packed types."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("test.", "nkilib")) and "str" not in vars(module):
            vars(module)["str"] = Text


install()
