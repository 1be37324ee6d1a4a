"""Kernels called from ordinary Python: ``nki.jit``, ``nki.simulate``, ``nki.benchmark``, ..."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.profiler.simulator import timeline
from accelopt_lsp.profiler.simulator.elements import as_dtype, from_carrier, to_carrier
from accelopt_lsp.profiler.simulator.errors import ArgumentFault, KernelRejected
from accelopt_lsp.profiler.simulator.frameworks import (
    converter_for,
    is_array,
    to_numpy,
    write_back,
)
from accelopt_lsp.profiler.simulator.kernels import (
    DEFAULTS,
    Kernel,
    TensorInput,
    default_target,
    execute,
)
from accelopt_lsp.profiler.simulator.library import OPERATOR_NAMES
from accelopt_lsp.profiler.simulator.session import Session
from accelopt_lsp.profiler.simulator.source import Sources
from accelopt_lsp.profiler.simulator.structures import leaves, transform
from accelopt_lsp.profiler.simulator.typing_names import TensorAnnotation

PERCENTILES = (0, 1, 10, 25, 50, 90, 99, 100)
"""What ``get_latency_percentile`` can be asked for (nki.benchmark)."""


def convert_input(value: Any) -> Any:
    """An argument of a script: arrays become tensors, everything else stays.

    Raises:
        ArgumentFault: an array of a type that NKI lacks.
    """
    return transform(value, lambda leaf, _: _convert_leaf(leaf))


def _convert_leaf(value: Any) -> Any:
    if isinstance(value, TensorAnnotation) and value.shape is not None:
        element = as_dtype(value.dtype) or as_dtype("float32")
        assert element is not None
        generator = np.random.default_rng(0)
        values = generator.standard_normal(value.shape, dtype=np.float32)
        return TensorInput(value.shape, element, to_carrier(values, element))
    if not is_array(value):
        return value
    array = to_numpy(value)
    if array.ndim == 0:
        return array[()]
    found = as_dtype(array.dtype)
    if found is None:
        raise ArgumentFault(f"an array of type {array.dtype} cannot be a kernel's argument")
    carrier = to_carrier(array, found)
    # Kernels may write to their arguments; JAX's arrays must not change.
    return TensorInput(array.shape, found, carrier if carrier.flags.writeable else carrier.copy())


def run_from_script(kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a kernel from ordinary Python.

    Returns:
        What the kernel returns, with arrays of the arguments' framework in place of tensors.
        Arrays whose tensors the kernel wrote to hold what it wrote.
    """
    code = getattr(kernel.function, "__code__", None)
    session = Session(
        default_target(kernel.dialect, kernel.platform),
        kernel.dialect,
        Sources(code.co_filename if code else ""),
        full=True,
        names=OPERATOR_NAMES,
    )
    session.nki_version = DEFAULTS.nki_version
    session.tracing = DEFAULTS.observer is not None
    converted = [convert_input(a) for a in args]
    named = {k: convert_input(v) for k, v in kwargs.items()}
    outcome = execute(kernel, converted, named, session)
    given = [*args, *kwargs.values()]
    originals = [v for v in leaves(given) if _is_tensor(v)]
    for original, tensor in zip(originals, session.inputs, strict=True):
        memory = tensor.settle()
        if memory.writes and memory.array is not None:
            write_back(original, from_carrier(tensor.array(), tensor.element))
    if DEFAULTS.observer is not None:
        DEFAULTS.observer(kernel, session)
    return outcome.as_returned(converter_for(originals))


Kernel.launch = staticmethod(run_from_script)


def _is_tensor(value: Any) -> bool:
    """Whether an argument becomes a tensor of the kernel."""
    if isinstance(value, TensorAnnotation):
        return value.shape is not None
    return is_array(value) and len(value.shape) > 0


class Latency:
    """Percentiles of the simulated latency, in microseconds: one run, so all are equal."""

    def __init__(self, milliseconds: float | None, reason: str = "run the kernel first") -> None:
        self.milliseconds = milliseconds
        self.reason = reason

    def get_latency_percentile(self, percentile: int) -> float:
        """Latency in microseconds.

        Raises:
            RuntimeError: no latency is known.
            ValueError: not one of :data:`PERCENTILES`.
        """
        if percentile not in PERCENTILES:
            raise ValueError(f"percentile must be one of {PERCENTILES}, got {percentile}")
        if self.milliseconds is None:
            raise RuntimeError(f"no latency is known: {self.reason}")
        return self.milliseconds * 1e3


class MeasuredKernel:
    """``nki.benchmark`` and its relatives: the simulator's latency in place of the device's.

    Attributes:
        benchmark_result: ``nc_latency`` of the last call, whatever its launch grid.
    """

    def __init__(self, kernel: Kernel, results: SimpleNamespace | None = None) -> None:
        self.kernel = kernel
        self.benchmark_result = results or SimpleNamespace(nc_latency=Latency(None))
        functools.update_wrapper(self, kernel.function)

    def __getitem__(self, grid: Any) -> MeasuredKernel:
        return MeasuredKernel(self.kernel[grid], self.benchmark_result)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        bound = self.kernel.__get__(instance, owner)
        return self if bound is self.kernel else MeasuredKernel(bound, self.benchmark_result)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        before = DEFAULTS.observer

        def observe(kernel: Kernel, session: Session) -> None:
            schedule = timeline.simulate(session.trace, session.target)
            if schedule.unknown:
                unknown = ", ".join(sorted(schedule.unknown))
                latency = Latency(None, f"the cost of {unknown} is not documented")
            else:
                latency = Latency(schedule.latency_ns * 1e-6)
            self.benchmark_result.nc_latency = latency
            if before is not None:
                before(kernel, session)

        DEFAULTS.observer = observe
        try:
            return self.kernel(*args, **kwargs)
        finally:
            DEFAULTS.observer = before


def jit_functions(dialect: Dialect) -> dict[str, Any]:
    """``nki.jit``, ``nki.simulate_kernel`` and the like in a dialect."""

    def decorator(wrap: Callable[[Any, str | None], Any], name: str) -> Callable[..., Any]:
        def decorate(func: Any = None, *_: Any, **options: Any) -> Any:
            function = options.pop("kernel", options.pop("fn", func))
            platform = options.get("platform_target")
            if function is None or isinstance(function, str):
                return lambda later: wrap(later, platform)
            return wrap(function, platform)

        decorate.__name__ = decorate.__qualname__ = name
        return decorate

    def as_kernel(function: Any, platform: str | None = None) -> Kernel:
        if isinstance(function, Kernel):
            return function
        if isinstance(function, MeasuredKernel):
            return function.kernel
        if not callable(function) and not isinstance(function, classmethod | staticmethod):
            raise KernelRejected(f"nki.jit decorates functions, got {type(function).__name__}")
        return Kernel(function, dialect, platform)

    def measured(function: Any, platform: str | None) -> MeasuredKernel:
        return MeasuredKernel(as_kernel(function, platform))

    def simulate_kernel(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        return as_kernel(kernel)(*args, **kwargs)

    def simulate(kernel: Any) -> Kernel:
        return as_kernel(kernel)

    def removed(name: str) -> Callable[..., Any]:
        def function(*_: Any, **__: Any) -> Any:
            raise KernelRejected(
                f"nki.{name} is not part of NKI 0.2 and later; call the kernel itself, or profile "
                "it with accelopt profile",
                "R079",
            )

        function.__name__ = function.__qualname__ = name
        return function

    names: dict[str, Any] = {"jit": decorator(as_kernel, "jit")}
    if dialect is Dialect.CURRENT:
        names["simulate"] = simulate
        names |= {name: removed(name) for name in ("benchmark", "baremetal", "profile")}
        return names
    names["simulate_kernel"] = simulate_kernel
    names["trace"] = decorator(as_kernel, "trace")
    for name in ("benchmark", "baremetal", "profile"):
        names[name] = decorator(measured, name)
    return names
