"""Runs the interpreter over one kernel."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

from accelopt_lsp.analysis import (  # noqa: F401 - they register what they handle
    calls,
    comparisons,
    expressions,
    loops,
    matching,
    statements,
    while_loops,
)
from accelopt_lsp.analysis.affine import NeedSplit, Undecided
from accelopt_lsp.analysis.arrays import array_header
from accelopt_lsp.analysis.calls import call_function
from accelopt_lsp.analysis.doubt import set_apart
from accelopt_lsp.analysis.expressions import make_function
from accelopt_lsp.analysis.kernels import KernelSource
from accelopt_lsp.analysis.machine import MAX_STEPS, KernelRaises, Machine, OutOfSteps, free_name
from accelopt_lsp.analysis.modules import Home
from accelopt_lsp.analysis.names import Aliases, find_aliases
from accelopt_lsp.analysis.references import attribute_of, resolve
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.tree import function_node, module_of
from accelopt_lsp.analysis.values import (
    Function,
    Iteration,
    ListValue,
    ModuleValue,
    Ref,
    Unknown,
    Value,
    View,
)
from accelopt_lsp.analysis.workspace import Workspace, parse_module
from accelopt_lsp.nki.arguments import (
    ArgumentSpec,
    DictSpec,
    FileSpec,
    KernelArguments,
    ListSpec,
    LiteralSpec,
    NameSpec,
    ObjectSpec,
    TensorSpec,
    TupleSpec,
)
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.reference.paths import canonical_path
from accelopt_lsp.nki.targets import Target, get_target


def new_machine(
    document: Document,
    *,
    dialect: Dialect = Dialect.CURRENT,
    target: Target | None = None,
    aliases: Aliases | None = None,
    grid: tuple[int, ...] = (),
    path: Path | None = None,
    workspace: Workspace | None = None,
) -> Machine:
    """A machine over a file's globals, which are evaluated as they are asked for.

    Args:
        document: the file.
        dialect, target: what calls are counted for.
        aliases: its imports, if they are known already.
        grid: launch grid.
        path: where the file is; without it no other file is looked at.
        workspace: the files around it.
    """
    target = target or get_target("trn2")
    workspace = workspace or Workspace()
    homes: dict[Any, Home] = document.cache.setdefault(_HOMES, {})
    key = (path, target.name, dialect, id(workspace), workspace.revision)
    home = homes.get(key)
    if home is None or home.workspace is not workspace:
        names = aliases if aliases is not None else find_aliases(document)
        parsed = document.cache.get(_PARSED)
        if parsed is None:
            parsed = document.cache[_PARSED] = parse_module(
                module_of(document), names, may_yield="yield" in document.text
            )
        if len(homes) >= MAX_HOMES:
            homes.clear()
        home = homes[key] = Home(parsed, None if path is None else path.absolute(), workspace)
    return Machine(document, home, dialect, target, grid)


MAX_HOMES = 8
_HOMES = "modules"
_PARSED = "parsed module"


def run_kernel(
    document: Document,
    kernel: KernelSource,
    arguments: KernelArguments,
    target: Target,
    *,
    path: Path | None = None,
    workspace: Workspace | None = None,
    observer: Callable[[ast.expr, Value], None] | None = None,
    steps: int = MAX_STEPS,
) -> Machine | None:
    """One abstract run; None if the kernel's syntax is broken. Never raises.

    The caller closes the machine once it has read what it needs. ``observer`` is told the value of
    every expression of the kernel, each time it is visited.
    """
    node = function_node(document, kernel)
    if node is None:
        return None
    machine = new_machine(
        document,
        dialect=kernel.dialect,
        target=target,
        aliases=kernel.aliases,
        grid=arguments.grid,
        path=path,
        workspace=workspace,
    )
    function = _kernel_function(machine, kernel, node)
    machine.in_kernel = True
    machine.budget.limit = steps
    machine.observer = observer
    machine.line = kernel.line
    try:
        values = _argument_values(machine, kernel, arguments)
        _run_programs(machine, function, values, kernel, 0)
    except KernelRaises:
        pass
    except OutOfSteps:
        machine.unknown("the kernel is too large to analyze within the time limit", kernel.line)
    except RecursionError:
        machine.unknown("the kernel nests too deeply to analyze", kernel.line)
    except (NeedSplit, Undecided) as why:
        machine.unknown(f"the kernel could not be analyzed: {why}", kernel.line)
    set_apart(machine)
    return machine


def _argument_values(
    machine: Machine, kernel: KernelSource, arguments: KernelArguments
) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for parameter in kernel.parameters:
        if parameter.kind == "kwargs":
            continue
        given = arguments.values.get(parameter.name)
        if given is not None:
            values[parameter.name] = argument_value(machine, parameter.name, given)
        elif parameter.default is None and parameter.kind != "args":
            number = parameter.annotation in ("int", "float")
            values[parameter.name] = Unknown(f"argument {parameter.name} is not known", number)
    return values


def _kernel_function(
    machine: Machine, kernel: KernelSource, node: ast.FunctionDef | ast.AsyncFunctionDef
) -> Function:
    """The kernel as a function; a method's ``self`` and closed-over names stay unknown."""
    function = make_function(machine, kernel.name, node)
    function.scope = machine.module
    return function


def argument_value(machine: Machine, name: str, spec: ArgumentSpec) -> Value:
    """What a SPEC is for the interpreter."""
    if isinstance(spec, TensorSpec):
        storage = machine.new_storage(
            spec.shape or (1,), spec.dtype, Buffer.HBM, name=name, kind="input"
        )
        return View.whole(storage)
    if isinstance(spec, LiteralSpec):
        return spec.value
    if isinstance(spec, TupleSpec):
        return tuple(argument_value(machine, name, s) for s in spec.items)
    if isinstance(spec, ListSpec):
        return ListValue([argument_value(machine, name, s) for s in spec.items])
    if isinstance(spec, DictSpec):
        return machine.new_dict({k.value: argument_value(machine, name, s) for k, s in spec.items})
    if isinstance(spec, NameSpec):
        return _named(machine, spec.name)
    if isinstance(spec, ObjectSpec):
        args = [argument_value(machine, f"{name}[{i}]", s) for i, s in enumerate(spec.args)]
        fields = {k: argument_value(machine, f"{name}.{k}", s) for k, s in spec.fields}
        place = ast.Pass(lineno=machine.line, col_offset=0)
        return calls.call_value(machine, place, _named(machine, spec.name), args, fields, {})
    return _from_file(machine, name, spec)


def _from_file(machine: Machine, name: str, spec: FileSpec) -> Value:
    """A tensor whose shape and type are in the header of a file; its values stay unknown."""
    folder = machine.home.path.parent if machine.home.path is not None else Path()
    path = folder / spec.path
    # The file may change: such a digest fits no text, so that nothing is taken from a cache.
    machine.home.reads[str(path)] = "header"
    found = array_header(path)
    if isinstance(found, str):
        return Unknown(found)
    shape, dtype = found
    return argument_value(machine, name, TensorSpec(shape, dtype))


def _named(machine: Machine, name: str) -> Value:
    """A dotted name of a SPEC: something of the file, or of a module."""
    head, *rest = name.split(".")
    value = free_name(machine, head)
    if isinstance(value, Unknown | Ref):
        # An import that is known by its path alone may be a module of the checkout all the same.
        found, behind = _from_module(machine, name)
        if not isinstance(found, Unknown) or isinstance(value, Unknown):
            value, rest = found, behind
    for part in rest:
        value = attribute_of(machine, value, part)
    return value


def _from_module(machine: Machine, name: str) -> tuple[Value, list[str]]:
    """The module of the checkout that a dotted name begins with, and the rest of the name."""
    parts = name.split(".")
    for count in range(len(parts) - 1, 0, -1):
        module = machine.home.imported(machine, 0, ".".join(parts[:count]))
        if module is not None:
            return ModuleValue(module), parts[count:]
    return resolve(machine, canonical_path(name)), []


def _run_programs(
    machine: Machine,
    function: Function,
    values: dict[str, Value],
    kernel: KernelSource,
    axis: int,
) -> None:
    """The programs of a launch grid.

    Legacy programs run one after the other on one core; current ones run on cores of their own,
    of which the first is analyzed.
    """
    if axis == len(machine.grid):
        first = axis == 0 or all(index == 0 for index in machine.program)
        result = call_function(machine, function, [], values)
        machine.result = result
        if first or not machine.outputs:
            _note_outputs(machine, result)
        return
    # A grid of 0 is one program, as for the simulator: a published sample is launched so.
    count = max(machine.grid[axis], 1) if kernel.dialect is Dialect.LEGACY else 1
    target = ast.Name(f"program {axis}", ast.Store())

    def body() -> None:
        machine.program.append(machine.scope.find(target.id))
        try:
            _run_programs(machine, function, values, kernel, axis + 1)
        finally:
            machine.program.pop()

    over = Iteration(count, lambda index: index)
    place = ast.For(target, target, [], [], lineno=kernel.line, col_offset=0)
    loops.Loop(machine, place, target, over, body, visible=False).run()


def _note_outputs(machine: Machine, result: Value) -> None:
    items = result.items if isinstance(result, ListValue) else result
    for item in items if isinstance(items, tuple | list) else (items,):
        if isinstance(item, View) and item.on_chip and machine.result_node is not None:
            machine.find(
                "R040",
                f"outputs must be in HBM (buffer=nl.shared_hbm), this one is {item.describe()}",
                machine.result_node,
            )
        if isinstance(item, View) and item.buffer is Buffer.HBM:
            machine.outputs.append(item)


def evaluate(machine: Machine, node: ast.expr) -> Value:
    """Value of an expression outside any kernel; unknown where it cannot be known."""
    try:
        return machine.eval(node)
    except (NeedSplit, Undecided, OutOfSteps, KernelRaises, RecursionError) as why:
        return Unknown(str(why))
