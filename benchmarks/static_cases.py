"""What ``static_counts.py`` compares: kernels of others' checkouts, with arguments for each.

A case is named by collection, file and function. Its arguments are SPECs, as for ``--arg``: both
static analysis and the simulator get the very same text.
"""

from __future__ import annotations

import enum
import json
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from attrs import asdict, field, frozen

CONFORMANCE = Path(__file__).parent / "conformance"
LIBRARY = "src/nkilib_src"


@frozen(slots=True)
class Case:
    """One kernel to compare.

    Attributes:
        collection: ``nkibench``, ``samples``, ``sdk``, ``sdk-legacy``, ``sdk-tests``,
            ``sdk-legacy-tests`` or ``nki-library``.
        file: of the kernel.
        function: name in the file.
        label: tells several cases of one kernel apart.
        source: where its arguments come from: a reference file, the index of a case in a table.
        checkout: folder that the collection was found in.
    """

    collection: str
    file: str
    function: str
    source: str = ""
    label: str = ""
    checkout: str = ""

    @property
    def name(self) -> str:
        """For people."""
        place = Path(self.file)
        if place.is_relative_to(self.checkout):
            place = place.relative_to(self.checkout)
        name = place.as_posix().removeprefix(f"{LIBRARY}/nkilib/")
        name += f"::{self.function}" if self.function else ""
        return f"{name} ({self.label})" if self.label else name

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@frozen(slots=True)
class Call:
    """How a case's kernel is called.

    Attributes:
        arguments: SPEC by parameter.
        grid: launch grid; empty for none.
        target: name of the target, or None for the dialect's.
        module: the kernel's file as a module.
    """

    arguments: dict[str, str]
    module: ModuleType
    grid: tuple[int, ...] = ()
    target: str | None = None
    function: Any = field(default=None)


def find_cases(
    nkibench: Path | None,
    samples: Path | None,
    sdk: Path | None,
    sdk_legacy: Path | None,
    library: Path | None,
) -> Iterator[Case]:
    """All cases of the checkouts that are given."""
    if nkibench is not None:
        root = nkibench / "NKIBench"
        problems = json.loads((root / "summary.json").read_text("utf-8"))
        for name, problem in sorted(problems.items()):
            for part in problem["cases"].values():
                for entry in part["impls"]:
                    kernel, reference = str(root / entry["kernel"]), str(root / entry["task"])
                    yield Case("nkibench", kernel, "kernel", reference, name, str(nkibench))
    for collection, checkout in (("samples", samples), ("sdk", sdk), ("sdk-legacy", sdk_legacy)):
        if checkout is None:
            continue
        root, table = _examples(collection, checkout)
        for number, (file, function, _) in enumerate(table):
            path = root / file
            if path.is_file():
                yield Case(collection, str(path), function, str(number), "", str(checkout))
    for collection, checkout in (("sdk-tests", sdk), ("sdk-legacy-tests", sdk_legacy)):
        for folder in ("nki/test", "general/nki/test") if checkout is not None else ():
            for path in sorted((checkout / folder).glob("test_nki_*.py")):
                yield Case(collection, str(path), "", "", "", str(checkout))
    if library is not None:
        yield from _library_cases(library)


def _examples(
    collection: str, checkout: Path
) -> tuple[Path, tuple[tuple[str, str, Callable[[Any], None]], ...]]:
    """Root of an example collection, and its (file, kernel, check)."""
    sys.path.insert(0, str(CONFORMANCE))
    import sdk_examples

    if collection == "samples":
        import samples

        return checkout, samples.CASES
    legacy = checkout / "general" / "nki" / "examples"
    if collection == "sdk-legacy":
        return legacy, sdk_examples.CASES
    return checkout / "nki" / "examples", sdk_examples.HEAD


def _library_cases(checkout: Path) -> Iterator[Case]:
    table = tomllib.loads((CONFORMANCE / "nki_library_arguments.toml").read_text("utf-8"))["case"]
    for number, case in enumerate(table):
        file, _, function = case["kernel"].partition("::")
        path = checkout / LIBRARY / "nkilib" / file
        label = case.get("label", "")
        if path.is_file():
            yield Case("nki-library", str(path), function, str(number), label, str(checkout))


class Captured(BaseException):
    """Raised in the place of a launch: what the kernel was called with is all that is wanted."""


def calls_of(case: Case, change: Callable[[Any], Any], scratch: Path) -> list[Call]:
    """Load a case's file, and find out what its kernel is called with; a test may call several.

    Args:
        change: changes the tree of each file before it is compiled.
        scratch: folder for tensors whose values steer the kernel.
    """
    if case.collection == "nkibench":
        return [_benchmark_call(case)]
    if case.collection == "nki-library":
        return [_library_call(case, scratch)]
    if case.collection.endswith("-tests"):
        return _test_calls(case)
    return [_example_call(case, change)]


def _load(path: Path, name: str) -> ModuleType:
    module, run = _prepared(path, name)
    run()
    return module


def _prepared(path: Path, name: str) -> tuple[ModuleType, Callable[[], None]]:
    """A module of a file, and what runs it."""
    import importlib.util

    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module, loader = importlib.util.module_from_spec(spec), spec.loader
    sys.modules[name] = module
    return module, lambda: loader.exec_module(module)


def _benchmark_call(case: Case) -> Call:
    import inspect

    reference = _load(Path(case.source), "case_reference")
    inputs = reference.transform_to_nki_inputs(reference.get_inputs())
    module = _load(Path(case.file), "case_kernel")
    names = list(inspect.signature(module.kernel.function).parameters)
    return Call({n: spec_text(v) for n, v in zip(names, inputs, strict=False)}, module)


def _example_call(case: Case, change: Callable[[Any], Any]) -> Call:
    _, table = _examples(case.collection, Path(case.checkout))
    import sdk_examples

    from accelopt_lsp.profiler.simulator.kernels import Kernel

    calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
    _stand_in("torch")

    def capture(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        calls.append((kernel, args, kwargs))
        raise Captured

    module = sdk_examples.load(Path(case.file), change)
    Kernel.launch = staticmethod(capture)  # type: ignore[method-assign]
    try:
        table[int(case.source)][2](getattr(module, case.function))
    except Captured:
        pass
    ((kernel, args, kwargs),) = calls
    return _captured(kernel, args, kwargs, module)


def _captured(
    kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any], module: ModuleType
) -> Call:
    """A launch as a call by SPECs. Programs on other cores are counted as well."""
    import inspect

    from accelopt_lsp.profiler.simulator.kernels import Kernel

    bound = inspect.signature(kernel.function).bind(*args, **kwargs)
    grid = tuple(getattr(axis, "count", axis) for axis in kernel.grid)
    arguments = {name: spec_text(value) for name, value in bound.arguments.items()}
    kernel = Kernel(kernel.function, kernel.dialect, kernel.platform, grid)
    return Call(arguments, module, grid, function=kernel)


def _test_calls(case: Case) -> list[Call]:
    """Run the unit tests of a file, and note down which kernels they launch with what."""
    import unittest

    from accelopt_lsp.profiler.simulator.kernels import Kernel

    launch = Kernel.launch
    calls: dict[Any, Call] = {}

    def capture(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = launch(kernel, args, kwargs)
        # Noted down after it has run: what a test wants to see rejected has no trace.
        call = _captured(kernel, args, kwargs, module)
        calls.setdefault((kernel.function, repr(call.arguments), call.grid), call)
        return result

    Kernel.launch = staticmethod(capture)  # type: ignore[method-assign]
    module, run = _prepared(Path(case.file), "case_tests")
    run()
    unittest.defaultTestLoader.loadTestsFromModule(module).run(unittest.TestResult())
    Kernel.launch = launch  # type: ignore[method-assign]
    return list(calls.values())


class StandIn(ModuleType):
    """A package that is not installed, which a kernel's file imports for its own test."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def _stand_in(name: str) -> None:
    import importlib.util

    if name not in sys.modules and importlib.util.find_spec(name) is None:
        for part in (name, f"{name}.nn", f"{name}.nn.functional"):
            sys.modules[part] = StandIn(part)
            sys.modules[part].__path__ = []
            parent, _, last = part.rpartition(".")
            if parent:
                setattr(sys.modules[parent], last, sys.modules[part])


def _library_call(case: Case, scratch: Path) -> Call:
    import importlib

    _stand_in("torch")
    sys.path.insert(0, str(Path(case.checkout) / LIBRARY))
    table = tomllib.loads((CONFORMANCE / "nki_library_arguments.toml").read_text("utf-8"))
    entry = table["case"][int(case.source)]
    path = Path(case.file).relative_to(Path(case.checkout) / LIBRARY).with_suffix("")
    module = importlib.import_module(".".join(path.parts))
    arguments = {
        name: table_spec(value, scratch) for name, value in entry.get("arguments", {}).items()
    }
    for name in entry.get("views", ()):
        arguments[name] = f"nkilib.core.utils.tensor_view.TensorView({arguments[name]})"
    grid = (entry["cores"],) if "cores" in entry else ()
    return Call(arguments, module, grid, entry.get("target"))


def table_spec(value: Any, scratch: Path) -> str:
    """An entry of ``nki_library_arguments.toml`` as a SPEC."""
    if isinstance(value, list):
        return f"[{', '.join(table_spec(v, scratch) for v in value)}]"
    if isinstance(value, dict) and "call" in value:
        given = (f"{k}={table_spec(v, scratch)}" for k, v in value.get("with", {}).items())
        return f"{_dotted(value['call'])}({', '.join(given)})"
    if isinstance(value, dict) and "tensor" in value:
        return _tensor_file(value, scratch)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {table_spec(v, scratch)}" for k, v in value.items()) + "}"
    if not isinstance(value, str):
        return repr(value)
    return _dotted(value) if value.startswith("=") else value


def _dotted(name: str) -> str:
    """``=core.qkv:Config`` as a dotted name."""
    module, _, rest = name[1:].partition(":")
    root = module if module.partition(".")[0] == "nki" else f"nkilib.{module}"
    return f"{root}.{rest}" if rest else root


def _tensor_file(value: dict[str, Any], scratch: Path) -> str:
    """A tensor whose values steer the kernel, in a file of its own."""
    import nki_library_traces
    import numpy as np

    from accelopt_lsp.profiler.simulator.elements import from_carrier

    if isinstance(value.get("fill"), int | float):
        return f"{value['tensor']}~N({value['fill']},0)"
    tensor = nki_library_traces.value_of(value)
    if np.dtype(from_carrier(tensor.values, tensor.element).dtype).kind == "V":
        # A type of its own, which .npy files cannot name: its values steer nothing.
        return spec_text(tensor)
    file = scratch / f"{len(list(scratch.iterdir()))}.npy"
    np.save(file, from_carrier(tensor.values, tensor.element))
    return f"@{file}"


def spec_text(value: Any) -> str:
    """A live argument of a kernel's call as a SPEC."""
    from accelopt_lsp.profiler.simulator.launch import convert_input

    return _spec_text(convert_input(value))


def _spec_text(value: Any) -> str:
    from accelopt_lsp.nki.arguments import TensorSpec
    from accelopt_lsp.profiler.simulator.elements import as_dtype
    from accelopt_lsp.profiler.simulator.kernels import TensorInput

    if isinstance(value, TensorInput):
        return str(TensorSpec(value.shape, value.element))
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return repr(value.item())
    if isinstance(value, enum.Enum):
        return f"{type(value).__module__}.{type(value).__qualname__}.{value.name}"
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        given = (f"{k}={_spec_text(v)}" for k, v in value._asdict().items())
        return f"{type(value).__module__}.{type(value).__qualname__}({', '.join(given)})"
    if isinstance(value, tuple):
        return "(" + "".join(f"{_spec_text(v)}, " for v in value) + ")"
    if isinstance(value, list):
        return f"[{', '.join(map(_spec_text, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {_spec_text(v)}" for k, v in value.items()) + "}"
    if is_dataclass(value) and not isinstance(value, type):
        given = (f"{f.name}={_spec_text(getattr(value, f.name))}" for f in fields(value))
        return f"{type(value).__module__}.{type(value).__qualname__}({', '.join(given)})"
    element = as_dtype(value)
    if element is not None:
        return f"nl.{element.name}"
    raise ValueError(f"{value!r} is not known as an argument")
