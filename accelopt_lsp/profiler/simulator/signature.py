"""Parameters of a kernel, read from its source without running it. Imports no NumPy."""

from __future__ import annotations

import ast
from typing import Any

from attrs import frozen

from accelopt_lsp.profiler.simulator.errors import KernelNotFound


@frozen(slots=True)
class Parameter:
    """A parameter of the kernel."""

    name: str
    required: bool


def kernel_parameters(source: str, function: str) -> tuple[Parameter, ...]:
    """Parameters of a kernel, read from its source without running it.

    Raises:
        SyntaxError: the source cannot be parsed.
        KernelNotFound: no such function.
    """
    node: Any = ast.parse(source)
    for part in function.split("."):
        if part == "<locals>":
            continue
        found = [
            n
            for n in ast.walk(node)
            if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and n.name == part
        ]
        if not found:
            raise KernelNotFound(f"there is no {function!r} in the file")
        node = found[-1]
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        raise KernelNotFound(f"{function!r} is a class, not a function")
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    optional = len(positional) - len(arguments.defaults)
    result = [Parameter(a.arg, i < optional) for i, a in enumerate(positional)]
    result += [
        Parameter(a.arg, default is None)
        for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    if "." in function and result and result[0].name in ("self", "cls"):
        result = result[1:]
    return tuple(result)
