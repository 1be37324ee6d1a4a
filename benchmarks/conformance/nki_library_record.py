"""What a case of nki-library's tests ran: kernels, the reference they were compared with.

A case that passes says little by itself: it may expect a failure, or compare nothing. So the plugin
notes for each case which functions with a decorator of NKI ran to their end, which files of
references (``*_torch.py``) were called from outside such files, and whether outputs were compared.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest
from attrs import define, field

from accelopt_lsp.profiler.simulator import kernels

LIBRARY = "nkilib."


@define
class Record:
    """One case.

    Attributes:
        kernels: decorated functions of the library that returned.
        launched: functions that were launched from outside, decorated or not.
        references: modules of references that were called.
        compared: number of comparisons of outputs.
        depth: calls of references that are running.
    """

    kernels: set[str] = field(factory=set)
    launched: set[str] = field(factory=set)
    references: set[str] = field(factory=set)
    compared: int = 0
    depth: int = 0


CURRENT = Record()
PLAIN: set[Any] = set()
"""Functions without a decorator that tests launch as kernels."""


def label(function: Any) -> str:
    """``core/cumsum/cumsum.py::cumsum``, or the name alone outside the library."""
    module, name = function.__module__, function.__qualname__
    if LIBRARY not in module or module.startswith("test."):
        return str(name)
    return f"{module.rpartition(LIBRARY)[2].replace('.', '/')}.py::{name}"


def launched(function: Any, cores: int, target: str) -> None:
    """A kernel returned that a test launched."""
    CURRENT.launched.add(f"{label(function)} {target} {cores}")


def watch_kernels() -> None:
    """Note which decorated functions return, also inside other kernels."""
    call = kernels.Kernel.__call__

    def noting(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = call(self, *args, **kwargs)
        name = label(self.function)
        if "::" in name and self.function not in PLAIN:
            CURRENT.kernels.add(name)
        return result

    kernels.Kernel.__call__ = noting


class References(MetaPathFinder):
    """Finds modules of references, and wraps what they define as soon as they are loaded.

    Whoever imports a reference, early or inside a test, by whatever name, gets the wrapped one.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        theirs = LIBRARY in fullname and not fullname.startswith("test.")
        if not theirs or not fullname.endswith("_torch"):
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_wrap(module: ModuleType) -> None:
                execute(module)
                wrap_references(module)

            spec.loader.exec_module = execute_and_wrap
        return spec


def watch_references() -> None:
    """Note which modules of references are called; those loaded from now on."""
    sys.meta_path.insert(0, References())


def wrap_references(module: ModuleType) -> None:
    """Wrap a module's own functions, also those that its classes and its objects hold.

    The module goes by the place of its file: packages that moved are imported by two names.
    """
    file = Path(str(module.__file__)).with_suffix("")
    parts = file.parts
    last = len(parts) - 1 - parts[::-1].index(LIBRARY.strip("."))
    name = ".".join(parts[last + 1 :])
    for key, value in list(vars(module).items()):
        if isinstance(value, FunctionType):
            if value.__module__ == module.__name__:
                setattr(module, key, _noting(value, name))
            continue
        if isinstance(value, ModuleType) or not hasattr(value, "__dict__"):
            continue
        for attribute, held in list(vars(value).items()):
            special = attribute.startswith("__") and attribute != "__call__"
            own = isinstance(held, FunctionType) and held.__module__ == module.__name__
            if own and not special:
                setattr(value, attribute, _noting(held, name))


def _noting(function: Callable[..., Any], module: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def noting(*args: Any, **kwargs: Any) -> Any:
        if CURRENT.depth == 0:
            CURRENT.references.add(module)
        CURRENT.depth += 1
        try:
            return function(*args, **kwargs)
        finally:
            CURRENT.depth -= 1

    return noting


def watch_comparisons(validators: ModuleType) -> None:
    """Note that outputs were compared."""
    compare = validators.OutputValidator._compare_outputs

    def noting(*args: Any, **kwargs: Any) -> Any:
        CURRENT.compared += 1
        return compare(*args, **kwargs)

    validators.OutputValidator._compare_outputs = noting


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: Any) -> Iterator[None]:
    """Record one case; the report's plugin writes it down."""
    CURRENT.__init__()  # type: ignore[misc]
    yield
    ran = {
        "kernels": sorted(CURRENT.kernels),
        "launched": sorted(CURRENT.launched),
        "references": sorted(CURRENT.references),
        "compared": CURRENT.compared,
    }
    item.user_properties.append(("ran", ran))
