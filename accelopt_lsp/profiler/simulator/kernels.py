"""``nki.jit`` and its relatives, and how one call of a kernel is run on the simulator."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from attrs import define, evolve, field

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.dtypes import DType
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.targets import Target, get_target
from accelopt_lsp.profiler.simulator import following, timeline
from accelopt_lsp.profiler.simulator import state as sessions
from accelopt_lsp.profiler.simulator.cores import Cores, Program
from accelopt_lsp.profiler.simulator.elements import Array, as_dtype, from_carrier, to_carrier
from accelopt_lsp.profiler.simulator.errors import ArgumentFault, KernelRejected
from accelopt_lsp.profiler.simulator.library import OPERATOR_NAMES
from accelopt_lsp.profiler.simulator.session import Session
from accelopt_lsp.profiler.simulator.source import Sources
from accelopt_lsp.profiler.simulator.tensors import BlockTensor, Tensor
from accelopt_lsp.profiler.simulator.typing_names import TensorAnnotation


@define(slots=True)
class ScriptDefaults:
    """How kernels run that a script calls by itself.

    Attributes:
        target: target name; None for the dialect's default.
        observer: called with kernel, session and outputs after each call.
    """

    target: str | None = None
    observer: Callable[[Kernel, Session], None] | None = None


DEFAULTS = ScriptDefaults()


def default_target(dialect: Dialect) -> Target:
    return get_target(DEFAULTS.target or ("trn1" if dialect is Dialect.LEGACY else "trn2"))


class ProgramAxis:
    """An axis of a launch grid whose programs run on several cores.

    ``nl.nc(cores)`` has one program a core, ``nl.nc(cores) * n`` has ``n`` neighbouring ones,
    ``n * nl.nc(cores)`` deals them out in turn.
    """

    def __init__(self, cores: int, each: int = 1, *, in_turn: bool = False) -> None:
        self.cores = int(cores)
        self.each = int(each)
        self.in_turn = in_turn

    @property
    def count(self) -> int:
        """Number of programs."""
        return self.cores * self.each

    def elsewhere(self, index: int) -> bool:
        """Whether a program runs on another core than the first one."""
        core = index % self.cores if self.in_turn else index // self.each
        return core != 0

    def __mul__(self, other: int) -> ProgramAxis:
        return ProgramAxis(self.cores, self.each * int(other))

    def __rmul__(self, other: int) -> ProgramAxis:
        return ProgramAxis(self.cores, self.each * int(other), in_turn=True)


class Kernel:
    """A function decorated with ``nki.jit``."""

    def __init__(self, function: Callable[..., Any], dialect: Dialect) -> None:
        self.function = function
        self.dialect = dialect
        self.grid: tuple[Any, ...] = ()
        functools.update_wrapper(self, function)

    def __getitem__(self, grid: Any) -> Kernel:
        """The same kernel with a launch grid."""
        launched = Kernel(self.function, self.dialect)
        launched.grid = grid if isinstance(grid, tuple) else (grid,)
        return launched

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        bound = Kernel(self.function.__get__(instance, owner), self.dialect)
        bound.grid = self.grid
        return bound

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if sessions.current() is not None:
            if self.grid:
                raise KernelRejected("a kernel inside a kernel cannot have a launch grid", "R021")
            return self.function(*args, **kwargs)
        return run_from_script(self, args, kwargs)

    def __repr__(self) -> str:
        return f"<NKI kernel {getattr(self.function, '__qualname__', self.function)}>"


def unwrap(value: Any) -> Kernel | None:
    """The kernel behind an object, if there is one."""
    while value is not None and not isinstance(value, Kernel):
        value = getattr(value, "kernel", None)
    return value


@define(slots=True)
class Outcome:
    """What one run of a kernel gave.

    Attributes:
        outputs: carriers by output (None when only shapes were traced), with types.
        tensors: the output tensors.
        structure: ``single``, ``tuple`` or ``none``.
        fixed: the call's arguments without the values of tensors.
    """

    tensors: list[Tensor]
    structure: str
    session: Session
    outputs: list[Array] = field(factory=list)
    fixed: Any = None

    def as_returned(self) -> Any:
        """Outputs as NumPy arrays in the form the kernel returned them."""
        arrays = [
            from_carrier(a, t.element).reshape(t.shape)
            for a, t in zip(self.outputs, self.tensors, strict=True)
        ]
        if self.structure == "none":
            return None
        return arrays[0] if self.structure == "single" else tuple(arrays)


@define(slots=True, frozen=True)
class TensorInput:
    """A tensor argument: carrier values, or only a shape.

    Attributes:
        values: carrier in the tensor's shape, or None.
    """

    shape: tuple[int, ...]
    element: DType
    values: Array | None = None


def execute(
    kernel: Kernel,
    args: list[Any],
    kwargs: Mapping[str, Any],
    session: Session,
    grid: tuple[Any, ...] = (),
    order: Sequence[int] | None = None,
) -> Outcome:
    """Run a kernel whose tensors are given as :class:`TensorInput`.

    Args:
        grid: launch grid; the kernel's own, where it has one, wins.
        order: in which order the grid's programs start; by number unless given.
    """
    names = _parameter_names(kernel.function, len(args))
    places: list[Any] = [
        _place(session, value, name) for name, value in zip(names, args, strict=True)
    ]
    named = {name: _place(session, value, name) for name, value in kwargs.items()}
    sizes, spread = _grid(kernel.grid or grid, kernel.dialect)
    session.grid = sizes
    before = sessions.enter(session)
    tracing = session.tracing
    programs = [
        Program(number, index, traced=tracing and not (number and _elsewhere(index, spread)))
        for number, index in enumerate(itertools.product(*[range(n) for n in sizes]))
    ]
    if order is not None:
        programs = [programs[number] for number in order]
    session.cores = Cores(session, programs, lambda: kernel.function(*places, **named))
    try:
        with np.errstate(all="ignore"):
            session.cores.run()
    finally:
        sessions.enter(before)
        session.tracing = tracing
    result = session.cores.results[0]
    tensors, structure = _outputs(result, [*places, *named.values()])
    outcome = Outcome(tensors, structure, session)
    _mark_external(session, tensors)
    if session.full:
        outcome.outputs = outputs_of(outcome)
    return outcome


def _elsewhere(program: tuple[int, ...], spread: tuple[ProgramAxis | None, ...]) -> bool:
    """Whether this program runs on another core than the first one."""
    return any(a is not None and a.elsewhere(i) for i, a in zip(program, spread, strict=True))


def _grid(
    grid: tuple[Any, ...], dialect: Dialect
) -> tuple[tuple[int, ...], tuple[ProgramAxis | None, ...]]:
    """Sizes of the launch grid, and the axes that are spread over cores."""
    sizes: list[int] = []
    spread: list[ProgramAxis | None] = []
    for axis in grid:
        if isinstance(axis, ProgramAxis):
            sizes.append(axis.count)
            spread.append(axis)
        else:
            sizes.append(int(axis))
            spread.append(ProgramAxis(int(axis)) if dialect is Dialect.CURRENT else None)
    if any(n < 1 for n in sizes):
        raise ArgumentFault(f"a launch grid needs positive sizes, got {sizes}")
    return tuple(sizes), tuple(spread)


def _parameter_names(function: Callable[..., Any], count: int) -> list[str]:
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        names = []
    return [names[i] if i < len(names) else f"argument{i}" for i in range(count)]


def _place(session: Session, value: Any, name: str) -> Any:
    """An argument as the kernel sees it."""
    if isinstance(value, tuple | list):
        return type(value)(_place(session, v, f"{name}[{i}]") for i, v in enumerate(value))
    if not isinstance(value, TensorInput):
        return value
    tensor = session.allocate(
        value.shape,
        value.element,
        Buffer.HBM,
        name=name,
        line=0,
        site=-1000 - len(session.trace.storages),
        external=True,
    )
    session.inputs.append(tensor)
    if value.values is not None and session.full:
        tensor.settle().adopt(value.values)
    elif value.values is not None and session.following:
        following.start(tensor, value.values)
    return tensor


def tensor_inputs(arguments: Any) -> Iterator[TensorInput]:
    """Tensors among a call's arguments, in the order in which :func:`execute` places them."""
    if isinstance(arguments, TensorInput):
        yield arguments
    elif isinstance(arguments, tuple | list):
        for value in arguments:
            yield from tensor_inputs(value)


def outputs_of(outcome: Outcome) -> list[Array]:
    """Carriers of a run's outputs, as they are now."""
    return [_contents(t) for t in outcome.tensors]


def _outputs(result: Any, places: list[Any]) -> tuple[list[Tensor], str]:
    if result is None:
        written = [p for p in places if isinstance(p, Tensor) and p.settle().writes]
        return written, "none"
    items = list(result) if isinstance(result, tuple | list) else [result]
    flat: list[Tensor] = []
    for item in items:
        for part in item if isinstance(item, tuple | list) else [item]:
            if isinstance(part, BlockTensor):
                raise KernelRejected("outputs must be in HBM (buffer=nl.shared_hbm)", "R040")
            if not isinstance(part, Tensor):
                continue
            if part.buffer is not Buffer.HBM:
                raise KernelRejected(
                    f"outputs must be in HBM (buffer=nl.shared_hbm), this one is {part}", "R040"
                )
            flat.append(part)
    return flat, "tuple" if isinstance(result, tuple | list) else "single"


def _mark_external(session: Session, tensors: list[Tensor]) -> None:
    storages = session.trace.storages
    for tensor in tensors:
        number = tensor.settle().id
        storages[number] = evolve(storages[number], external=True)


def _contents(tensor: Tensor) -> Array:
    memory = tensor.settle()
    if memory.array is None:
        memory.allocate()
    return memory.view(tensor)


def convert_input(value: Any) -> Any:
    """An argument of a script: arrays become tensors, everything else stays."""
    if isinstance(value, tuple | list):
        return type(value)(convert_input(v) for v in value)
    if isinstance(value, TensorAnnotation) and value.shape is not None:
        element = as_dtype(value.dtype) or as_dtype("float32")
        assert element is not None
        generator = np.random.default_rng(0)
        values = generator.standard_normal(value.shape, dtype=np.float32)
        return TensorInput(value.shape, element, to_carrier(values, element))
    if isinstance(value, np.ndarray):
        array = value
    elif hasattr(value, "detach") and hasattr(value, "numpy"):
        array = _from_torch(value)
    elif hasattr(value, "__array__") and hasattr(value, "shape") and hasattr(value, "dtype"):
        array = np.asarray(value)
    else:
        return value
    if array.ndim == 0:
        return array[()]
    found = as_dtype(array.dtype)
    if found is None:
        raise ArgumentFault(f"an array of type {array.dtype} cannot be a kernel's argument")
    return TensorInput(array.shape, found, to_carrier(array, found))


def _from_torch(value: Any) -> Array:
    tensor = value.detach().cpu()
    if "bfloat16" in str(tensor.dtype):
        import ml_dtypes

        return np.asarray(tensor.float().numpy()).astype(ml_dtypes.bfloat16)
    return np.asarray(tensor.numpy())


def run_from_script(kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a kernel from ordinary Python: outputs come back as NumPy arrays."""
    code = getattr(kernel.function, "__code__", None)
    sources = Sources(code.co_filename if code else "")
    session = Session(
        default_target(kernel.dialect),
        kernel.dialect,
        sources,
        full=True,
        names=OPERATOR_NAMES,
    )
    session.tracing = DEFAULTS.observer is not None
    converted = [convert_input(a) for a in args]
    named = {k: convert_input(v) for k, v in kwargs.items()}
    outcome = execute(kernel, converted, named, session)
    if outcome.structure == "none":
        _write_back(args, kwargs, outcome)
    if DEFAULTS.observer is not None:
        DEFAULTS.observer(kernel, session)
    return outcome.as_returned()


def _write_back(args: tuple[Any, ...], kwargs: dict[str, Any], outcome: Outcome) -> None:
    """Kernels without a return value write to their arguments."""
    by_shape = [a for a in (*args, *kwargs.values()) if isinstance(a, np.ndarray)]
    places = {t.settle().id: i for i, t in enumerate(outcome.tensors)}
    for number, array in enumerate(by_shape):
        at = places.get(number)
        if at is not None and array.flags.writeable:
            tensor = outcome.tensors[at]
            array[...] = from_carrier(outcome.outputs[at], tensor.element).reshape(array.shape)


class Latency:
    """Percentiles of the simulated latency, in microseconds."""

    def __init__(self, milliseconds: float | None) -> None:
        self.milliseconds = milliseconds

    def get_latency_percentile(self, percentile: int) -> float:
        if self.milliseconds is None:
            raise RuntimeError("no latency is known: run the kernel first")
        return self.milliseconds * 1e3


def jit_functions(dialect: Dialect) -> dict[str, Any]:
    """``nki.jit``, ``nki.simulate_kernel`` and the like in a dialect."""

    def jit(func: Any = None, mode: str = "auto", **_: Any) -> Any:
        if func is None:
            return jit
        if isinstance(func, Kernel):
            return func
        if not callable(func):
            raise KernelRejected("nki.jit decorates functions")
        return Kernel(func, dialect)

    def as_kernel(kernel: Any) -> Kernel:
        return kernel if isinstance(kernel, Kernel) else Kernel(kernel, dialect)

    def simulate_kernel(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        return as_kernel(kernel)(*args, **kwargs)

    def simulate(kernel: Any) -> Kernel:
        return as_kernel(kernel)

    def measured(kernel: Any = None, **_: Any) -> Any:
        if kernel is None:
            return measured
        return MeasuredKernel(as_kernel(kernel))

    names: dict[str, Any] = {"jit": jit, "simulate": simulate, "simulate_kernel": simulate_kernel}
    for name in ("benchmark", "baremetal", "profile"):
        names[name] = measured
    names["trace"] = jit
    return names


class MeasuredKernel:
    """``nki.benchmark`` and its relatives: the simulator's latency in place of the device's."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.benchmark_result = SimpleNamespace(nc_latency=Latency(None))
        functools.update_wrapper(self, kernel.function)

    def __getitem__(self, grid: Any) -> MeasuredKernel:
        return MeasuredKernel(self.kernel[grid])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        before = DEFAULTS.observer

        def observe(kernel: Kernel, session: Session) -> None:
            schedule = timeline.simulate(session.trace, session.target)
            latency = None if schedule.unknown else schedule.latency_ns * 1e-6
            self.benchmark_result = SimpleNamespace(nc_latency=Latency(latency))
            if before is not None:
                before(kernel, session)

        DEFAULTS.observer = observe
        try:
            return self.kernel(*args, **kwargs)
        finally:
            DEFAULTS.observer = before
