"""What a case of nki-library's tests ran: kernels, the reference they were compared with.

A case that passes says little by itself: it may expect a failure, or compare nothing. So the plugin
notes for each case which functions with a decorator of NKI ran to their end, which files of
references (``*_torch.py``) were called from outside such files, and whether outputs were compared.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
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


def watch_references() -> None:
    """Note which modules of references are called, from wherever they were imported to."""
    wrappers: dict[int, Callable[..., Any]] = {}
    theirs = [m for n, m in sys.modules.items() if n.startswith(("test.", "nkilib"))]
    for module in theirs:
        for name, value in list(vars(module).items()):
            if not isinstance(value, FunctionType):
                continue
            source = value.__module__ or ""
            if LIBRARY in source and source.endswith("_torch"):
                wrapper = wrappers.setdefault(id(value), _noting(value))
                setattr(module, name, wrapper)


def _noting(function: Callable[..., Any]) -> Callable[..., Any]:
    module = function.__module__.rpartition(LIBRARY)[2]

    @functools.wraps(function)
    def noting(*args: Any, **kwargs: Any) -> Any:
        if CURRENT.depth == 0:
            CURRENT.references.add(module)
        CURRENT.depth += 1
        try:
            return function(*args, **kwargs)
        finally:
            CURRENT.depth -= 1

    noting.__module__ = "recorded"
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
