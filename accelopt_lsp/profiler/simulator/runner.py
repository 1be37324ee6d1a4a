"""The kernel child: loads a kernel's file, runs the kernel, schedules its trace."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import attrs
import numpy as np

from accelopt_lsp.nki.arguments import SpecError, parse_spec
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.lowering import has_lowering
from accelopt_lsp.nki.targets import get_target
from accelopt_lsp.profiler.base import VALUES_DECIDE
from accelopt_lsp.profiler.simulator import hook, timeline
from accelopt_lsp.profiler.simulator.abridging_values import FullTraceNeeded
from accelopt_lsp.profiler.simulator.errors import (
    ArgumentFault,
    KernelNotFound,
    KernelRejected,
    SimulationError,
    ValuesNeeded,
)
from accelopt_lsp.profiler.simulator.garbage import uncollected
from accelopt_lsp.profiler.simulator.given import decoded, from_spec
from accelopt_lsp.profiler.simulator.kernels import (
    DEFAULTS,
    Kernel,
    Outcome,
    TensorInput,
    execute,
    outputs_of,
    tensor_inputs,
    unwrap,
)
from accelopt_lsp.profiler.simulator.library import OPERATOR_NAMES
from accelopt_lsp.profiler.simulator.protocol import Channel, KernelTask, Run, profile_to_dict
from accelopt_lsp.profiler.simulator.replay import Recording, replay
from accelopt_lsp.profiler.simulator.session import Session
from accelopt_lsp.profiler.simulator.signature import kernel_parameters
from accelopt_lsp.profiler.simulator.source import PACKAGE, Sources
from accelopt_lsp.profiler.simulator.structures import Construction
from accelopt_lsp.profiler.simulator.tensors import Tensor
from accelopt_lsp.profiler.simulator.timeline.policy import POLICIES
from accelopt_lsp.profiler.simulator.timeline.schedule import retarget, simulate_with
from accelopt_lsp.profiler.simulator.variants import (
    VariantError,
    only_costs,
    variant_profile,
    varied_policy,
    varied_target,
)
from accelopt_lsp.profiler.timeline_export import write_chrome_trace

SLOWEST = "the cores of the launch do different work: the profile is that of the slowest one"


class KernelRunner:
    """One job's kernel."""

    def __init__(self, task: KernelTask, channel: Channel) -> None:
        self.task = task
        self.channel = channel
        self.sources = Sources(task.path, {task.path: task.source})
        self.session: Session | None = None
        self._code: CodeType

    def run(self) -> None:
        """Run the kernel with all inputs.

        Raises:
            BaseException: whatever the kernel raises; :func:`failure_of` explains it.
        """
        task = self.task
        try:
            # Tables load now: nothing of the package can be imported while kernel code runs.
            get_target(task.target)
        except ValueError as error:
            raise ArgumentFault(str(error)) from None
        has_lowering("nl.exp")
        DEFAULTS.target = task.target
        self._code = compile(task.source, task.path, "exec", dont_inherit=True)
        with hidden_package():
            self.channel.send("progress", message="importing the file")
            module = load(task, self._code)
            kernel = find(module, task.function)
            first = self._first(kernel, module)
        recording = _recorded(first)
        for number, run in enumerate(r for r in task.runs if r.seed is not None):
            if number == 0 and first.session.full:
                self._send_outputs(first, run)
            elif recording is None or not self._replay(first, recording, run, kernel, module):
                with hidden_package():
                    outcome = self._execute(kernel, module, run, full=True, tracing=False)
                self._send_outputs(outcome, run)
            if number == 0 and task.profile:
                self._send_profile(first, kernel, module)
        if task.profile and not any(r.seed is not None for r in task.runs):
            self._send_profile(first, kernel, module)
        self._send_variants(first)

    def _first(self, kernel: Kernel, module: ModuleType) -> Outcome:
        """The traced run: of shapes only where that is enough, else with the first inputs."""
        run = self.task.runs[0] if self.task.runs else None
        try:
            return self._execute(kernel, module, run, full=False, tracing=True)
        except ValuesNeeded:
            pass
        if run is None or run.seed is None:
            # Inputs that came with their values may be enough; if not, this fails as well.
            return self._execute(kernel, module, run, full=False, tracing=True, following=True)
        first = self._execute(kernel, module, run, full=True, tracing=True)
        first.session.notes.setdefault(f"{VALUES_DECIDE}: the profile is that of seed {run.seed}")
        return first

    def _execute(
        self,
        kernel: Kernel,
        module: ModuleType,
        run: Run | None,
        *,
        full: bool,
        tracing: bool,
        following: bool = False,
        core: int = 0,
    ) -> Outcome:
        recorded = not full and any(r.seed is not None for r in self.task.runs)
        abridged = self.task.abridged and not (full or following or recorded)
        if abridged:
            try:
                return self._once(kernel, module, run, abridged=True, core=core)
            except (SimulationError, MemoryError):
                raise
            except (FullTraceNeeded, Exception):  # noqa: BLE001 - the kernel's own come again
                # Python's errors may come of loop variables that are no integers. The full run
                # begins with the state that the file does.
                module = load(self.task, self._code)
                kernel = find(module, self.task.function)
        return self._once(
            kernel,
            module,
            run,
            full=full,
            tracing=tracing,
            following=following,
            recorded=recorded,
            core=core,
        )

    def _once(
        self,
        kernel: Kernel,
        module: ModuleType,
        run: Run | None,
        *,
        full: bool = False,
        tracing: bool = True,
        following: bool = False,
        recorded: bool = False,
        abridged: bool = False,
        core: int = 0,
    ) -> Outcome:
        task = self.task
        label = f"running with seed {run.seed}" if run is not None and full else "tracing"
        self.channel.send("progress", message=label)
        session = Session(
            get_target(task.target),
            kernel.dialect,
            self.sources,
            full=full,
            instruction_limit=task.access.instructions,
            names=OPERATOR_NAMES,
            abridged=abridged,
        )
        session.nki_version = task.nki_version
        session.tracing = tracing
        session.core = core
        session.following = following
        if recorded:
            session.recording = []
        self.session = session
        args, kwargs = self._arguments(kernel, module, run)
        with uncollected(not full):
            outcome = execute(kernel, args, kwargs, session, task.grid)
            if not full:
                # A trace stays as long as this process does.
                gc.freeze()
        outcome.fixed = _without_tensors([*args, *kwargs.items()])
        return outcome

    def _arguments(
        self, kernel: Kernel, module: ModuleType, run: Run | None
    ) -> tuple[list[Any], dict[str, Any]]:
        if run is None:
            arguments = self._traced_arguments(module)
        else:
            scratch = Path(self.task.access.scratch)
            arguments = {n: decoded(v, module, scratch) for n, v in run.arguments.items()}
        return _call_form(kernel, arguments)

    def _replay(
        self,
        first: Outcome,
        recording: Recording,
        run: Run,
        kernel: Kernel,
        module: ModuleType,
    ) -> bool:
        """Compute the traced instructions with a run's inputs, if they are of the same form."""
        args, kwargs = self._arguments(kernel, module, run)
        if _without_tensors([*args, *kwargs.items()]) != first.fixed:
            return False
        self.channel.send("progress", message=f"running with seed {run.seed}")
        given = tensor_inputs([*args, *kwargs.values()])
        pairs = [
            (place, value.values)
            for place, value in zip(first.session.inputs, given, strict=True)
            if value.values is not None
        ]
        replay(first.session, recording, pairs)
        first.outputs = outputs_of(first)
        self._send_outputs(first, run)
        return True

    def _traced_arguments(self, module: ModuleType) -> dict[str, Any]:
        """Arguments for shapes only, straight from the SPECs."""
        task = self.task
        try:
            specs = {name: parse_spec(text) for name, text in task.specs.items()}
        except SpecError as error:
            raise ArgumentFault(str(error)) from None
        parameters = kernel_parameters(task.source, task.function)
        missing = [p.name for p in parameters if p.required and p.name not in specs]
        if missing:
            raise ArgumentFault(
                f"no value for {', '.join(missing)}; give one with --arg NAME=SPEC, a "
                "directive comment or a reference file"
            )
        return {
            p.name: from_spec(specs[p.name], module, Path(task.path).parent)
            for p in parameters
            if p.name in specs
        }

    def _send_outputs(self, outcome: Outcome, run: Run) -> None:
        files = []
        for number, (values, tensor) in enumerate(
            zip(outcome.outputs, outcome.tensors, strict=True)
        ):
            name = f"output-{run.seed}-{number}.npy"
            np.save(Path(self.task.access.scratch) / name, values.reshape(tensor.shape))
            files.append({"file": name, "dtype": tensor.element.name})
        self.channel.send(
            "outputs", seed=run.seed, outputs=files, single=outcome.structure == "single"
        )
        outcome.outputs.clear()

    def _tried(self, message: str, share: float) -> None:
        self.channel.send("progress", message=message)

    def _other_cores(self, first: Outcome, kernel: Kernel, module: ModuleType) -> Iterator[Outcome]:
        """The same launch, with each core traced that issues something else than the first one.

        Raises:
            KernelRejected: it does not do again what it did.
        """
        session = first.session
        assert session.cores is not None
        run = self.task.runs[0] if self.task.runs else None
        full, following = session.full, session.following
        for core, issued in session.cores.unlike().items():
            with hidden_package():
                if session.abridged:
                    yield self._execute(kernel, module, run, full=False, tracing=True, core=core)
                    continue
                again = self._once(kernel, module, run, full=full, following=following, core=core)
            assert again.session.cores is not None
            if again.session.cores.issued() != issued:
                raise KernelRejected(
                    "the kernel issues other instructions when it is launched again"
                )
            yield again

    def _send_profile(self, outcome: Outcome, kernel: Kernel, module: ModuleType) -> None:
        trace = outcome.session.trace
        self.channel.send("progress", message=f"scheduling {len(trace)} instructions")
        target = outcome.session.target
        schedule = timeline.simulate(trace, target)
        notes = list(outcome.session.notes)
        for other in self._other_cores(outcome, kernel, module):
            slower = timeline.simulate(other.session.trace, target)
            if slower.unknown or slower.latency_ns > schedule.latency_ns:
                trace, schedule = other.session.trace, slower
                if SLOWEST not in notes:
                    notes.append(SLOWEST)
        what_ifs = None
        if self.task.what_ifs and not schedule.unknown:
            what_ifs = timeline.what_ifs(schedule, self._tried)
        profile = timeline.profile_from(
            schedule,
            trace,
            kernel=self.task.function,
            target=target,
            what_ifs=what_ifs,
            notes=tuple(notes),
        )
        profile = attrs.evolve(
            profile,
            outputs=tuple(map(_spec_of, outcome.tensors)),
            launch=outcome.session.launch,
        )
        if self.task.timeline is not None:
            place = Path(self.task.access.scratch) / self.task.timeline
            write_chrome_trace(schedule, place, Path(self.task.path).name)
        self.channel.send("profile", profile=profile_to_dict(profile))

    def _send_variants(self, outcome: Outcome) -> None:
        """Schedule the trace once for each variant of the task.

        Raises:
            ArgumentFault: an override is none that the simulator accepts.
        """
        session = outcome.session
        trace = session.trace
        policy = POLICIES[trace.dialect]
        try:
            machines = [
                (varied_target(session.target, variant), varied_policy(policy, variant))
                for variant in self.task.variants
            ]
        except VariantError as error:
            raise ArgumentFault(str(error)) from None
        plain = simulate_with(trace, session.target, policy) if machines else None
        # A rule may give an instruction a cost of its own, which other constants do not change.
        quick = plain is not None and retarget(plain, plain.target).times == plain.times
        for number, (variant, (target, rules)) in enumerate(
            zip(self.task.variants, machines, strict=True)
        ):
            if plain is not None and quick and rules == policy and only_costs(target, variant):
                schedule = retarget(plain, target)
            else:
                schedule = simulate_with(trace, target, rules)
            answer = attrs.asdict(variant_profile(schedule))
            self.channel.send("variant", number=number, profile=answer)


def _spec_of(tensor: Tensor) -> str:
    return f"{tensor.element.short}[{','.join(map(str, tensor.shape))}]"


def _recorded(outcome: Outcome) -> Recording | None:
    operations = outcome.session.recording
    if operations is None:
        return None
    return Recording.of(operations, [*outcome.session.inputs, *outcome.tensors])


def _without_tensors(arguments: Any) -> Any:
    """What of a call's arguments decides about its trace: all but the tensors' values."""
    if isinstance(arguments, TensorInput):
        return arguments.shape, arguments.element.name
    if isinstance(arguments, tuple | list):
        return tuple(_without_tensors(v) for v in arguments)
    if isinstance(arguments, dict):
        return tuple((k, _without_tensors(v)) for k, v in arguments.items())
    if isinstance(arguments, Construction):
        return arguments.name, *map(_without_tensors, (arguments.args, arguments.fields))
    return arguments


@contextmanager
def hidden_package() -> Iterator[None]:
    """Keep kernel code from importing the simulator's own modules while it runs."""
    before = dict(sys.modules)
    finder = hook.install()
    for name in before:
        if name.partition(".")[0] == PACKAGE:
            del sys.modules[name]
    finder.closed = PACKAGE
    try:
        yield
    finally:
        finder.closed = ""
        # Also what kernel code may have deleted.
        sys.modules.update(before)


def load(task: KernelTask, code: CodeType) -> ModuleType:
    """Import the kernel's file under its own name, from the given text."""
    path = Path(task.path)
    package, folder = _package_of(path)
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    name = f"{package}.{path.stem}" if package else path.stem
    if name in sys.modules or path.stem in sys.builtin_module_names:
        name = f"{name}__kernel"
    module = ModuleType(name)
    module.__file__ = task.path
    module.__package__ = package
    if package:
        _import_package(package, folder)
    sys.modules[name] = module
    exec(code, module.__dict__)  # noqa: S102 - running the kernel's file is this child's job
    return module


def _import_package(package: str, folder: Path) -> None:
    """Import a package whose root lies in ``folder``, which itself may be out of reach."""
    root = package.partition(".")[0]
    if root not in sys.modules:
        place = folder / root
        spec = importlib.util.spec_from_file_location(
            root, place / "__init__.py", submodule_search_locations=[str(place)]
        )
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[root] = module
        spec.loader.exec_module(module)
    importlib.import_module(package)


def _package_of(path: Path) -> tuple[str, Path]:
    """Dotted package of a file, and the folder that makes it importable."""
    parts: list[str] = []
    folder = path.resolve().parent
    while (folder / "__init__.py").exists() and folder.name.isidentifier():
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts), folder


def find(module: ModuleType, function: str) -> Kernel:
    """The kernel of that qualified name.

    Raises:
        KernelNotFound: there is none, or it lives inside a function.
    """
    value: Any = module
    for part in function.split("."):
        if part == "<locals>":
            raise KernelNotFound(
                f"{function} is defined inside a function and cannot be called alone"
            )
        owner = value
        value = getattr(value, part, None)
        if value is None:
            raise KernelNotFound(f"there is no {function!r} in {module.__file__}")
        if isinstance(owner, type) and isinstance(value, Kernel):
            value = _method(owner, value)
    kernel = unwrap(value)
    if kernel is not None:
        return kernel
    if not callable(value):
        raise KernelNotFound(f"{function!r} is no function")
    return Kernel(value, _dialect_of(module))


def _method(owner: type, kernel: Kernel) -> Kernel:
    """A kernel that is a method, bound to an instance where it takes one."""
    names = list(getattr(kernel.function, "__code__", compile("", "", "exec")).co_varnames)
    if names[:1] != ["self"]:
        return kernel
    try:
        bound: Kernel = kernel.__get__(owner(), owner)
    except Exception as error:
        raise KernelNotFound(
            f"{owner.__name__} cannot be made without arguments: {error}"
        ) from error
    return bound


def _dialect_of(module: ModuleType) -> Dialect:
    for value in vars(module).values():
        if isinstance(value, hook.StandIn):
            legacy = value.__name__.partition(".")[0] == "neuronxcc"
            return Dialect.LEGACY if legacy else Dialect.CURRENT
    return Dialect.CURRENT


def _call_form(kernel: Kernel, arguments: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Positional arguments as far as they are complete, the rest by name."""
    code = getattr(kernel.function, "__code__", None)
    if code is None:
        return list(arguments.values()), {}
    names = list(code.co_varnames[: code.co_argcount])
    if hasattr(kernel.function, "__self__"):
        names = names[1:]
    args = []
    rest = dict(arguments)
    for name in names:
        if name not in rest:
            break
        args.append(rest.pop(name))
    return args, rest
