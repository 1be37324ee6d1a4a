"""Every decorated kernel of nki-library traced once: shapes only, arguments from a file of ours.

``nki_library_arguments.toml`` says with what each kernel is called. Values are SPECs, as for
``--arg`` (``bf16[128,512]``), numbers, lists, and:

- ``"=core.utils.common_types:ActFnType.SiLU"``: an object of a module of nkilib (or of NKI,
  where the module is ``nki`` or below it);
- ``{call = "=core.qkv:Config", with = {...}}``: what a class or function gives;
- ``{tensor = "i32[8]", values = [...]}``: a tensor whose values steer the kernel;
  ``count = true`` fills it with 0, 1, 2, ..., ``fill = n`` with one number.

Kernels that take tiles on chip cannot be called from outside; they count when another one runs
them on its way.
"""

from __future__ import annotations

import ast
import importlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from table import Row

PACKAGE = "src/nkilib_src/nkilib"
DATA = Path(__file__).with_name("nki_library_arguments.toml")
TESTED = ", called by its tests"


def run(checkout: Path, options: Namespace) -> list[Row]:
    """One row a decorated kernel, and one for each further way to call it."""
    options.verbose = True
    data = tomllib.loads(DATA.read_text("utf-8"))
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "nki-library"
        for folder in ("src", "test"):
            shutil.copytree(checkout / folder, copy / folder)
        importlib.import_module("nki_library").repair(copy)
        called = [case["kernel"] for case in data["case"] if exists(copy, case["kernel"])]
        kernels = dict.fromkeys([*decorated(copy), *wrapped(copy), *called])
        names = tested(copy)
        results = {
            n: trace(copy, n, options)
            for n, case in enumerate(data["case"])
            if options.only in f"{case['kernel']} {case.get('label', '')}"
        }
    rows = []
    for kernel in kernels:
        if options.only in kernel:
            rows += rows_of(kernel, data, results, kernel.partition("::")[2] in names)
    known = {case["kernel"] for case in data["case"]}
    rows += [
        Row(kernel.partition("::")[0], kernel, "fail", "the library has no such kernel")
        for kernel in sorted(known - set(kernels))
    ]
    return rows


def rows_of(
    kernel: str, data: dict[str, Any], results: dict[int, dict[str, Any]], called: bool
) -> list[Row]:
    """What came of one kernel."""
    file, _, name = kernel.partition("::")
    suffix = TESTED if called else ""
    rows = []
    for number, result in results.items():
        case = data["case"][number]
        if case["kernel"] != kernel:
            continue
        label = f"{name} {case.get('label', '')}".strip()
        why = result["why"] or f"{result['instructions']} instructions{suffix}"
        outcome = "fail" if result["why"] else "pass"
        rows.append(Row(file, label, outcome, why, result["seconds"]))
    if rows:
        return rows
    for number, result in results.items():
        if kernel in result["reached"] and not result["why"]:
            return [Row(file, name, "pass", f"as a part of {data['case'][number]['kernel']}")]
    reason = data.get("without", {}).get(kernel)
    outcome = "explained" if reason else "fail"
    return [Row(file, name, outcome, f"{reason or 'nothing calls it'}{suffix}")]


def decorated(checkout: Path) -> Iterator[str]:
    """``FILE::FUNCTION`` of all functions under ``nki.jit``, however it is spelled."""
    package = checkout / PACKAGE
    for file in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and any(map(_is_jit, node.decorator_list)):
                yield f"{file.relative_to(package)}::{node.name}"


def exists(checkout: Path, kernel: str) -> bool:
    """Whether the library has such a function."""
    file, _, name = kernel.partition("::")
    path = checkout / PACKAGE / file
    return path.is_file() and any(
        isinstance(node, ast.FunctionDef) and node.name == name
        for node in ast.parse(path.read_text("utf-8")).body
    )


def _is_jit(node: ast.expr) -> bool:
    function = node.func if isinstance(node, ast.Call) else node
    return ast.unparse(function) in ("nki.jit", "jit")


def wrapped(checkout: Path) -> Iterator[str]:
    """Functions of the library that its tests make a kernel of.

    They give them to ``nki.jit``, or to their harness, which does.
    """
    package = checkout / PACKAGE
    for file in sorted((checkout / "test/integration").rglob("*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        origins = {
            (alias.asname or alias.name): (_below(node.module), alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and _below(node.module)
            for alias in node.names
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            given = [k.value for k in node.keywords if k.arg in ("kernel_entry", "kernel_func")]
            given += node.args[:1] if _is_jit(node.func) else []
            for value in (v for expression in given for v in ast.walk(expression)):
                if isinstance(value, ast.Name) and value.id in origins:
                    module, name = origins[value.id]
                    place = module.replace(".", "/") + ".py"
                    if (package / place).is_file():
                        yield f"{place}::{name}"


def _below(module: str | None) -> str:
    """Dotted name below the library's package."""
    return (module or "").partition("nkilib.")[2]


def tested(checkout: Path) -> set[str]:
    """Names that the library's tests use of modules that they import from it."""
    names: set[str] = set()
    for file in (checkout / "test").rglob("*.py"):
        nodes = list(ast.walk(ast.parse(file.read_text("utf-8"))))
        imported = {
            alias.asname or alias.name
            for node in nodes
            if isinstance(node, ast.ImportFrom) and _below(node.module)
            for alias in node.names
        } | {
            alias.asname
            for node in nodes
            if isinstance(node, ast.Import)
            for alias in node.names
            if alias.asname and _below(alias.name)
        }
        names |= imported
        names |= {
            node.attr
            for node in nodes
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in imported
        }
    return names


def trace(checkout: Path, number: int, options: Namespace) -> dict[str, Any]:
    """One case in a process of its own: instructions, decorated kernels on the way, or why not."""
    start = time.perf_counter()
    command = [options.python, str(Path(__file__)), str(checkout), str(number)]
    result = {"instructions": 0, "reached": [], "why": ""}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=options.seconds, check=False
        )
        lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines() or [""]
        if done.returncode == 0:
            result |= json.loads(lines[-1])
        else:
            result["why"] = f"the process ended with {done.returncode}: {lines[-1]}"
    except subprocess.TimeoutExpired:
        result["why"] = f"longer than {options.seconds} s"
    return result | {"seconds": round(time.perf_counter() - start, 1)}


def child(checkout: Path, number: int) -> dict[str, Any]:
    """Trace one case in this process."""
    from accelopt_lsp.profiler.simulator import hook

    hook.install()
    sys.path.insert(0, str(checkout / PACKAGE).rpartition("/")[0])
    case = tomllib.loads(DATA.read_text("utf-8"))["case"][number]
    reached: set[str] = set()
    try:
        session = _execute(case, reached)
    except Exception as error:  # noqa: BLE001 - whatever a kernel raises belongs into the table
        return {"why": f"{_place(error, checkout)}{type(error).__name__}: {error}"}
    return {"instructions": len(session.trace), "reached": sorted(reached)}


def _execute(case: dict[str, Any], reached: set[str]) -> Any:
    from accelopt_lsp.nki.dialects import Dialect
    from accelopt_lsp.nki.targets import get_target
    from accelopt_lsp.profiler.base import Limits
    from accelopt_lsp.profiler.simulator import kernels, timeline
    from accelopt_lsp.profiler.simulator.library import OPERATOR_NAMES
    from accelopt_lsp.profiler.simulator.session import Session
    from accelopt_lsp.profiler.simulator.source import Sources

    file, _, name = case["kernel"].partition("::")
    module = importlib.import_module("nkilib." + file.removesuffix(".py").replace("/", "."))
    function = getattr(module, name)
    kernel = kernels.unwrap(function) or kernels.Kernel(function, Dialect.CURRENT)
    call = kernels.Kernel.__call__

    def note(inner: Any, *args: Any, **kwargs: Any) -> Any:
        place = inner.function.__module__.partition("nkilib.")[2].replace(".", "/")
        reached.add(f"{place}.py::{inner.function.__name__}")
        return call(inner, *args, **kwargs)

    kernels.Kernel.__call__ = note  # type: ignore[method-assign]
    if "views" in case:
        kernel = kernels.Kernel(_with_views(kernel, case["views"]), kernel.dialect)
    arguments = {key: value_of(value) for key, value in case.get("arguments", {}).items()}
    target = get_target(case.get("target", "trn2"))
    session = Session(
        target,
        kernel.dialect,
        Sources(str(module.__file__), {}),
        full=False,
        instruction_limit=Limits().instructions,
        names=OPERATOR_NAMES,
    )
    session.tracing = True
    given = kernels.tensor_inputs(list(arguments.values()))
    session.following = any(t.values is not None for t in given)
    grid = (case["cores"],) if "cores" in case else ()
    kernels.execute(kernel, [], arguments, session, grid)
    timeline.simulate(session.trace, target)
    return session


def _with_views(kernel: Any, names: list[str]) -> Any:
    """The kernel with some of its tensors wrapped in the library's views of tensors."""
    view = importlib.import_module("nkilib.core.utils.tensor_view").TensorView

    def wrapper(**arguments: Any) -> Any:
        return kernel(**{k: view(v) if k in names else v for k, v in arguments.items()})

    return wrapper


def value_of(value: Any) -> Any:
    """An argument from what the data file says."""
    from accelopt_lsp.nki.arguments import TensorSpec, parse_spec
    from accelopt_lsp.profiler.simulator.kernels import TensorInput

    if isinstance(value, list):
        return [value_of(v) for v in value]
    if isinstance(value, dict) and "call" in value:
        fields = {key: value_of(v) for key, v in value.get("with", {}).items()}
        return value_of(value["call"])(**fields)
    if isinstance(value, dict) and "tensor" in value:
        return _filled(value)
    if isinstance(value, dict):
        return {key: value_of(v) for key, v in value.items()}
    if not isinstance(value, str):
        return value
    if value.startswith("="):
        module, _, names = value[1:].partition(":")
        root = module if module.partition(".")[0] == "nki" else f"nkilib.{module}"
        found = importlib.import_module(root)
        for name in filter(None, names.split(".")):
            found = getattr(found, name)
        return found
    spec = parse_spec(value)
    if isinstance(spec, TensorSpec):
        return TensorInput(spec.shape, spec.dtype)
    return spec.value


def _filled(value: dict[str, Any]) -> Any:
    import numpy as np

    from accelopt_lsp.nki.arguments import TensorSpec, parse_spec
    from accelopt_lsp.profiler.simulator.elements import to_carrier
    from accelopt_lsp.profiler.simulator.kernels import TensorInput

    spec = parse_spec(value["tensor"])
    assert isinstance(spec, TensorSpec)
    size = int(np.prod(spec.shape))
    if value.get("count"):
        values = np.arange(size)
    elif "fill" in value:
        values = np.full(size, value["fill"])
    else:
        values = np.asarray(value["values"])
    return TensorInput(spec.shape, spec.dtype, to_carrier(values.reshape(spec.shape), spec.dtype))


def _place(error: BaseException, checkout: Path) -> str:
    """Innermost line of the library on the way to an exception."""
    found, step = "", error.__traceback__
    while step is not None:
        file = Path(step.tb_frame.f_code.co_filename)
        if file.is_relative_to(checkout):
            found = f"{file.name}:{step.tb_lineno}: "
        step = step.tb_next
    return found


if __name__ == "__main__":
    print(json.dumps(child(Path(sys.argv[1]), int(sys.argv[2]))))
