"""``nki.jit`` and its relatives, and how one call of a kernel is run on the simulator."""

from __future__ import annotations

import functools
import inspect
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import define, evolve, field

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.dtypes import DType
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.targets import Target, get_target
from accelopt_lsp.profiler.simulator import following
from accelopt_lsp.profiler.simulator import state as sessions
from accelopt_lsp.profiler.simulator.abridging import Abridging
from accelopt_lsp.profiler.simulator.abridging_values import FullTraceNeeded
from accelopt_lsp.profiler.simulator.blocks import BlockTensor
from accelopt_lsp.profiler.simulator.cores import Cores, Program
from accelopt_lsp.profiler.simulator.elements import Array, from_carrier
from accelopt_lsp.profiler.simulator.endings import check_ending
from accelopt_lsp.profiler.simulator.errors import ArgumentFault, IndexOutside, KernelRejected
from accelopt_lsp.profiler.simulator.garbage import uncollected
from accelopt_lsp.profiler.simulator.session import Session
from accelopt_lsp.profiler.simulator.structures import leaves, transform
from accelopt_lsp.profiler.simulator.tensors import Tensor


@define(slots=True)
class ScriptDefaults:
    """How kernels run that a script calls by itself.

    Attributes:
        target: target name; None for the dialect's default.
        nki_version: NKI version in force; None takes any of the dialect.
        observer: called with kernel, session and outputs after each call.
    """

    target: str | None = None
    nki_version: str | None = None
    observer: Callable[[Kernel, Session], None] | None = None


DEFAULTS = ScriptDefaults()


TARGET_VARIABLE = "NEURON_PLATFORM_TARGET_OVERRIDE"
"""Environment variable that names the target (NKI CPU Simulator)."""


def default_target(dialect: Dialect, platform: str | None = None) -> Target:
    """Target of kernels that a script calls: first what ``--target`` says, then the environment.

    Args:
        platform: what the kernel's decorator names.

    Raises:
        ArgumentFault: no such target.
    """
    fallback = "trn1" if dialect is Dialect.LEGACY else "trn2"
    named = os.environ.get(TARGET_VARIABLE)
    name = DEFAULTS.target or named or platform or fallback
    try:
        return get_target(name)
    except ValueError as error:
        where = f"{TARGET_VARIABLE}: " if name == named else ""
        raise ArgumentFault(f"{where}{error}") from None


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

    def core(self, index: int) -> int:
        """Which core a program runs on."""
        return index % self.cores if self.in_turn else index // self.each

    def __mul__(self, other: int) -> ProgramAxis:
        return ProgramAxis(self.cores, self.each * int(other))

    def __rmul__(self, other: int) -> ProgramAxis:
        return ProgramAxis(self.cores, self.each * int(other), in_turn=True)


class Kernel:
    """A function decorated with ``nki.jit``.

    Attributes:
        function: what was decorated.
        platform: target that the decorator names (``platform_target=``), if it does.
        grid: launch grid; empty for one program.
        launch: runs the kernel where no other one is running.
    """

    launch: Callable[[Kernel, tuple[Any, ...], dict[str, Any]], Any]

    def __init__(
        self,
        function: Callable[..., Any],
        dialect: Dialect,
        platform: str | None = None,
        grid: tuple[Any, ...] = (),
    ) -> None:
        self.function = function
        self.dialect = dialect
        self.platform = platform
        self.grid = grid
        functools.update_wrapper(self, function)
        # A kernel is no function: pytest must not collect one whose name starts with test.
        del self.__wrapped__  # type: ignore[attr-defined]

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.function)

    def __getitem__(self, grid: Any) -> Kernel:
        """The same kernel with a launch grid."""
        axes = grid if isinstance(grid, tuple) else (grid,)
        return Kernel(self.function, self.dialect, self.platform, axes)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None and not isinstance(self.function, classmethod | staticmethod):
            return self
        function = self.function.__get__(instance, owner)
        return Kernel(function, self.dialect, self.platform, self.grid)

    def with_schedule(self, schedule: Any) -> Kernel:
        """The same kernel; its order of instructions is the timeline's own choice."""
        for pair in schedule:
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise KernelRejected(
                    "with_schedule takes pairs (instruction, the instructions it waits for), "
                    f"got {pair!r}"
                )
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if sessions.current() is not None:
            if self.grid:
                raise KernelRejected(
                    "a kernel inside a kernel cannot have a launch grid; call it without [...]",
                    "R021",
                )
            return self.function(*args, **kwargs)
        try:
            return Kernel.launch(self, args, kwargs)
        except IndexOutside as error:
            if self.dialect is Dialect.CURRENT:
                raise
            # What the legacy simulator raises, and its callers expect.
            raise IndexError(
                f"index {error.position} is out of bounds for axis 0 with size {error.size}"
            ) from error

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
        structure: ``single``, ``tuple`` (any structure of several) or ``none``.
        returned: what the kernel returned.
        fixed: the call's arguments without the values of tensors.
    """

    tensors: list[Tensor]
    structure: str
    session: Session
    outputs: list[Array] = field(factory=list)
    returned: Any = None
    fixed: Any = None

    def as_returned(self, convert: Callable[[Array], Any] = lambda array: array) -> Any:
        """Outputs in the form in which the kernel returned them.

        Args:
            convert: makes the caller's kind of array from a NumPy one.
        """
        arrays = iter(
            convert(from_carrier(a, t.element).reshape(t.shape))
            for a, t in zip(self.outputs, self.tensors, strict=True)
        )
        return transform(
            self.returned, lambda leaf, _: next(arrays) if isinstance(leaf, Tensor) else leaf
        )


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

    Raises:
        FullTraceNeeded: the trace cannot be abridged.
    """
    if session.abridged and not session.valued and not session.following:
        session.abridging = Abridging(session)
    names = _parameter_names(kernel.function, len(args))
    places: list[Any] = []
    named: dict[str, Any] = {}
    sizes, spread = _grid(kernel.grid or grid, kernel.dialect)
    session.grid = sizes
    before = sessions.enter(session)
    tracing = session.tracing
    indices = list(itertools.product(*[range(n) for n in sizes]))
    cores = [_core(index, spread) for index in indices]
    of_interest = list(dict.fromkeys(cores))[session.core]
    session.launch = _launch(len(indices), len(set(cores)))
    programs = [
        Program(number, index, core, traced=tracing and core == of_interest)
        for number, (index, core) in enumerate(zip(indices, cores, strict=True))
    ]
    if order is not None:
        programs = [programs[number] for number in order]
    session.cores = Cores(session, programs, lambda: kernel.function(*places, **named))
    try:
        places += [_place(session, value, name) for name, value in zip(names, args, strict=True)]
        named |= {name: _place(session, value, name) for name, value in kwargs.items()}
        with np.errstate(all="ignore"), uncollected(not session.full):
            session.cores.run()
    finally:
        sessions.enter(before)
        session.tracing = tracing
        if session.abridging is not None and session.abridging.misled:
            # The kernel may have caught it, and gone on in any way.
            raise FullTraceNeeded
    result = session.cores.results[0]
    parameters = {**dict(zip(names, places, strict=True)), **named}
    check_ending(kernel.function, session, parameters, result)
    # Scripts of NKI 0.1 are given tiles on chip as well, as its own simulator does.
    anywhere = kernel.dialect is Dialect.LEGACY and not tracing
    tensors, structure = _outputs(result, session.inputs, anywhere)
    outcome = Outcome(tensors, structure, session, returned=result)
    _mark_external(session, tensors)
    if session.full:
        outcome.outputs = outputs_of(outcome)
    return outcome


def _core(program: tuple[int, ...], spread: tuple[ProgramAxis | None, ...]) -> tuple[int, ...]:
    """Which core this program runs on."""
    return tuple(a.core(i) for i, a in zip(program, spread, strict=True) if a is not None)


def _launch(programs: int, cores: int) -> str:
    return f"{programs} program{'s' * (programs > 1)} on {cores} core{'s' * (cores > 1)}"


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
            # A published sample of NKI 0.1 is launched with a grid of 0, and compares its output.
            count = 1 if axis == 0 and dialect is Dialect.LEGACY else int(axis)
            sizes.append(count)
            spread.append(ProgramAxis(count) if dialect is Dialect.CURRENT else None)
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
    return transform(value, lambda leaf, label: _place_leaf(session, leaf, label), name)


def _place_leaf(session: Session, value: Any, name: str) -> Any:
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
    return (leaf for leaf in leaves(arguments) if isinstance(leaf, TensorInput))


def outputs_of(outcome: Outcome) -> list[Array]:
    """Carriers of a run's outputs, as they are now.

    Raises:
        KernelRejected: elements that hold nothing were stored to one, and not overwritten.
    """
    for tensor in outcome.tensors:
        memory = tensor.settle()
        line = memory.remains() if memory.left else None
        if line is not None:
            raise KernelRejected(
                f"{memory.name or 'an output'} ends with elements that were never written "
                f"({memory.origin}); store what was computed only, or overwrite the rest",
                "R099",
                line,
            )
    return [_contents(t) for t in outcome.tensors]


def _outputs(result: Any, inputs: list[Tensor], anywhere: bool) -> tuple[list[Tensor], str]:
    if result is None:
        return [p for p in inputs if p.settle().writes], "none"
    found: list[Tensor] = []
    for part in leaves(result):
        if isinstance(part, BlockTensor):
            raise KernelRejected("outputs must be in HBM (buffer=nl.shared_hbm)", "R040")
        if not isinstance(part, Tensor):
            continue
        if part.buffer is not Buffer.HBM and not anywhere:
            raise KernelRejected(
                f"outputs must be in HBM (buffer=nl.shared_hbm), this one is {part}", "R040"
            )
        found.append(part)
    return found, "single" if isinstance(result, Tensor) else "tuple"


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
