"""A kernel as a list of steps in loops, with every tensor, read and write that is understood.

Each statement is visited once; loop variables stay symbols. What is not understood is marked
``opaque``, and rewrites keep away from it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from attrs import define, field, frozen

from accelopt_lsp.nki.apis import find_api
from accelopt_lsp.nki.dialects import BindError
from accelopt_lsp.rewrites.affine import Affine, Symbol
from accelopt_lsp.rewrites.base import NotApplicable, RewriteContext
from accelopt_lsp.rewrites.bindings import bind_module_constants, bind_parameters
from accelopt_lsp.rewrites.evaluate import Evaluator
from accelopt_lsp.rewrites.values import (
    Items,
    Literal,
    Loop,
    Tensor,
    TileList,
    Value,
    View,
    integer,
)

_WRITTEN_PARAMETERS = ("dst", "reduce_res")
_RANGES = {
    "nl.affine_range": "affine_range",
    "nl.sequential_range": "sequential_range",
    "nl.static_range": "static_range",
    "range": "range",
}


@frozen(slots=True, eq=False)
class Access:
    """One use of a tensor in a step: the expression and what part it names."""

    node: ast.expr
    view: View


@define(slots=True, eq=False)
class Step:
    """One simple statement.

    Attributes:
        index: position in program order.
        node: the statement.
        block: the statement list that holds it.
        loops: loops around it, outermost first.
        guarded: it stands in an ``if``.
        call, api: the main API call, if the statement is one.
        arguments: parameters of that call by name, as nodes.
        target: what an assignment assigns to.
        reads, writes: tensor accesses.
        opaque: has effects that are not understood.
    """

    index: int
    node: ast.stmt
    block: list[ast.stmt]
    loops: tuple[Loop, ...]
    guarded: bool
    call: ast.Call | None = None
    api: str | None = None
    arguments: dict[str, ast.expr] = field(factory=dict)
    target: ast.expr | None = None
    reads: list[Access] = field(factory=list)
    writes: list[Access] = field(factory=list)
    opaque: bool = False

    def reads_of(self, tensor: Tensor) -> list[Access]:
        return [a for a in self.reads if a.view.tensor is tensor]

    def writes_of(self, tensor: Tensor) -> list[Access]:
        return [a for a in self.writes if a.view.tensor is tensor]

    def argument(self, name: str) -> ast.expr | None:
        return self.arguments.get(name)


@define(slots=False, eq=False)
class KernelModel:
    """Steps, loops and tensors of one kernel."""

    context: RewriteContext
    evaluator: Evaluator
    steps: list[Step] = field(factory=list)
    loops: list[Loop] = field(factory=list)
    bindings: dict[str, list[ast.AST]] = field(factory=dict)

    def value(self, node: ast.AST | None) -> Value:
        """What an expression stood for where it is written."""
        return None if node is None else self.evaluator.values.get(id(node))

    def view(self, node: ast.AST | None) -> View | None:
        found = self.value(node)
        return found if isinstance(found, View) else None

    def integer(self, node: ast.AST | None) -> int | None:
        return integer(self.value(node))

    def steps_in(self, node: ast.AST) -> list[Step]:
        """Steps inside a statement, in program order."""
        inside = {id(n) for n in ast.walk(node) if isinstance(n, ast.stmt)}
        return [s for s in self.steps if id(s.node) in inside]

    def step_of(self, node: ast.stmt) -> Step | None:
        return next((s for s in self.steps if s.node is node), None)

    def uses(self, tensor: Tensor) -> tuple[list[Step], list[Step]]:
        """Steps that read and steps that write a tensor."""
        return (
            [s for s in self.steps if s.reads_of(tensor)],
            [s for s in self.steps if s.writes_of(tensor)],
        )

    def creator(self, tensor: Tensor) -> Step | None:
        return None if tensor.step is None else self.steps[tensor.step]

    def bound_once(self, name: str) -> bool:
        """Whether exactly one statement of the kernel binds that name."""
        return len(self.bindings.get(name, ())) == 1


def build_model(context: RewriteContext) -> KernelModel:
    """Walk a kernel."""
    evaluator = Evaluator(context.kernel.aliases, context.dialect, context.target)
    model = KernelModel(context, evaluator)
    bind_module_constants(context, evaluator)
    bind_parameters(context, evaluator)
    _collect_bindings(context.function, model)
    _Walker(model).block(context.function.body, guarded=False)
    return model


def _collect_bindings(function: ast.FunctionDef, model: KernelModel) -> None:
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            model.bindings.setdefault(node.id, []).append(node)


class _Walker:
    """Visits statements in program order."""

    def __init__(self, model: KernelModel) -> None:
        self.model = model
        self.evaluator = model.evaluator

    def block(self, body: list[ast.stmt], *, guarded: bool) -> None:
        for node in body:
            self.statement(node, body, guarded=guarded)

    def statement(self, node: ast.stmt, body: list[ast.stmt], *, guarded: bool) -> None:
        if isinstance(node, ast.For):
            self.loop(node, body, guarded=guarded)
        elif isinstance(node, ast.If):
            self.branch(node)
        elif isinstance(node, ast.With):
            self.block(node.body, guarded=guarded)
        elif isinstance(node, ast.Import | ast.ImportFrom | ast.Pass | ast.Assert | ast.Global):
            return
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return
        else:
            self.simple(node, body, guarded=guarded)

    def loop(self, node: ast.For, body: list[ast.stmt], *, guarded: bool) -> None:
        env = self.evaluator.env
        accumulated = _accumulated_names(node.body)
        for name in _assigned_names(node.body):
            kept = isinstance(env.get(name), View) and name in accumulated
            if name in env and not kept:
                env[name] = None
        loop = self._range(node)
        if loop is None:
            for name in _assigned_names([node]):
                env[name] = None
            step = self._step(node, body, guarded)
            step.opaque = True
            before = len(self.model.steps)
            self.block(node.body, guarded=True)
            for inner in self.model.steps[before:]:
                inner.opaque = True
            return
        self.model.loops.append(loop)
        env[loop.variable] = loop.start.plus(Affine.of(loop.symbol).times(loop.step))
        outer = self.evaluator.loops
        self.evaluator.loops = (*outer, loop)
        self.block(node.body, guarded=guarded)
        self.evaluator.loops = outer
        if node.orelse:
            self.block(node.orelse, guarded=True)

    def _range(self, node: ast.For) -> Loop | None:
        if not isinstance(node.iter, ast.Call) or not isinstance(node.target, ast.Name):
            return None
        api = self.evaluator.api(node.iter.func)
        kind = _RANGES.get(api or "")
        values = [self.evaluator.value(a) for a in node.iter.args]
        if kind is None or node.iter.keywords or not 1 <= len(values) <= 3:
            return None
        if not all(isinstance(v, Affine) for v in values):
            if len(values) != 1:
                return None
            symbol = Symbol(node.target.id, "loop")
            return Loop(node, node.target.id, symbol, None, Affine(), 1, kind)
        affine = [v for v in values if isinstance(v, Affine)]
        start = affine[0] if len(affine) > 1 else Affine()
        stop = affine[1] if len(affine) > 1 else affine[0]
        step = affine[2].value if len(affine) > 2 else 1
        if not step:
            return None
        distance = stop.minus(start).value
        trips = None if distance is None else max(0, -(-distance // step))
        symbol = Symbol(node.target.id, "loop", trips)
        return Loop(node, node.target.id, symbol, trips, start, step, kind)

    def branch(self, node: ast.If) -> None:
        test = self.evaluator.value(node.test)
        if isinstance(test, Literal) and isinstance(test.value, bool):
            self.block(node.body if test.value else node.orelse, guarded=True)
            return
        env = self.evaluator.env
        before = dict(env)
        self.block(node.body, guarded=True)
        first = dict(env)
        env.clear()
        env.update(before)
        self.block(node.orelse, guarded=True)
        for name in {*first, *env}:
            if first.get(name) != env.get(name):
                env[name] = None

    def _step(self, node: ast.stmt, body: list[ast.stmt], guarded: bool) -> Step:
        step = Step(len(self.model.steps), node, body, self.evaluator.loops, guarded)
        self.model.steps.append(step)
        self.evaluator.step = step.index
        return step

    def simple(self, node: ast.stmt, body: list[ast.stmt], *, guarded: bool) -> None:
        step = self._step(node, body, guarded)
        if isinstance(node, ast.Assign):
            value = self.evaluator.value(node.value)
            self._main_call(step, node.value)
            self._reads(step, node.value)
            step.opaque |= len(node.targets) != 1
            step.target = node.targets[0]
            for target in node.targets:
                self.assign(step, target, value, node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self.assign(step, node.target, self.evaluator.value(node.value), node.value)
            self._reads(step, node.value)
        elif isinstance(node, ast.AugAssign):
            self._augmented(step, node)
        elif isinstance(node, ast.Expr):
            self.evaluator.value(node.value)
            if not self._append(step, node.value):
                self._main_call(step, node.value)
                self._reads(step, node.value)
                step.opaque |= step.api is None
        elif isinstance(node, ast.Return):
            if node.value is not None:
                self.evaluator.value(node.value)
                self._reads(step, node.value)
        else:
            step.opaque = True
            for name in _assigned_names([node]):
                self.evaluator.env[name] = None
            for child in ast.walk(node):
                if isinstance(child, ast.expr) and id(child) not in self.evaluator.values:
                    self.evaluator.value(child)

    def _augmented(self, step: Step, node: ast.AugAssign) -> None:
        value = self.evaluator.value(node.value)
        self._main_call(step, node.value)
        self._reads(step, node.value)
        step.target = node.target
        current = self.evaluator.value(node.target)
        if isinstance(current, View):
            step.writes.append(Access(node.target, current))
            step.reads.append(Access(node.target, current))
        elif isinstance(node.target, ast.Name):
            self.evaluator.env[node.target.id] = None
            step.opaque |= isinstance(value, View)
        else:
            step.opaque = True

    def assign(self, step: Step, target: ast.expr, value: Value, node: ast.expr) -> None:
        if isinstance(target, ast.Name):
            if (
                isinstance(value, View)
                and value.tensor.step == step.index
                and not value.tensor.name
            ):
                object.__setattr__(value.tensor, "name", target.id)
            if isinstance(value, TileList) and isinstance(node, ast.List):
                value.name = target.id
            self.evaluator.env[target.id] = value
            self.evaluator.values[id(target)] = value
            if isinstance(value, View) and value.tensor.step == step.index:
                step.writes.append(Access(target, value))
        elif isinstance(target, ast.Tuple | ast.List):
            items = value.items if isinstance(value, Items) else None
            for position, element in enumerate(target.elts):
                known = items is not None and len(items) == len(target.elts)
                self.assign(step, element, items[position] if known and items else None, node)
        else:
            written = self.evaluator.value(target)
            if isinstance(written, View):
                step.writes.append(Access(target, written))
            else:
                step.opaque = True

    def _append(self, step: Step, node: ast.expr) -> bool:
        """``tiles.append(tile)``."""
        if not (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "append"
            and len(node.args) == 1
        ):
            return False
        found = self.evaluator.value(node.func.value)
        if not isinstance(found, TileList):
            return False
        element = self.evaluator.values.get(id(node.args[0]))
        inner = step.loops[len(found.loops) :]
        usable = isinstance(element, View | TileList) and len(inner) <= 1
        if found.element is not None or not usable or step.guarded:
            found.broken = True
        else:
            found.element = element  # type: ignore[assignment]
            found.filler = inner[0] if inner else None
        if isinstance(element, View):
            step.reads.append(Access(node.args[0], element))
        return True

    def _main_call(self, step: Step, node: ast.expr) -> None:
        if not isinstance(node, ast.Call):
            return
        api = self.evaluator.api(node.func)
        if api is None:
            return
        step.call, step.api = node, api
        entry = find_api(api)
        if entry is None:
            step.opaque = api.partition(".")[0] in ("nl", "nisa", "nki")
            return
        nodes = {k.arg: k.value for k in node.keywords if k.arg is not None}
        try:
            bound = entry.bind(self.model.context.dialect, tuple(node.args), dict(nodes))
        except BindError:
            step.opaque = True
            return
        given = {id(n) for n in (*node.args, *nodes.values())}
        step.arguments = {k: v for k, v in bound.items() if id(v) in given}

    def _hands_out_tensors(self, node: ast.AST) -> bool:
        """Whether an unknown function gets a tensor, with which it may do anything."""
        for call in ast.walk(node):
            if not isinstance(call, ast.Call) or self.evaluator.api(call.func) is not None:
                continue
            function = call.func
            if isinstance(function, ast.Attribute) and isinstance(
                self.model.value(function.value), View | TileList
            ):
                continue
            given = [*call.args, *(k.value for k in call.keywords)]
            if any(
                isinstance(self.model.value(n), View | TileList) for a in given for n in ast.walk(a)
            ):
                return True
        return False

    def _reads(self, step: Step, node: ast.expr) -> None:
        step.opaque |= self._hands_out_tensors(node)
        written: set[int] = set()
        if step.api == "nl.store":
            written = {id(step.arguments.get("dst"))}
        elif step.api is not None and step.api.startswith("nisa."):
            written = {id(step.arguments.get(n)) for n in _WRITTEN_PARAMETERS}
        for found in self._tensor_nodes(node):
            view = self.model.view(found)
            assert view is not None
            access = Access(found, view)
            (step.writes if id(found) in written else step.reads).append(access)

    def _tensor_nodes(self, node: ast.AST) -> Iterator[ast.expr]:
        """Largest expressions that name existing tensors."""
        if isinstance(node, ast.Name | ast.Subscript) and self.model.view(node) is not None:
            yield node
            if isinstance(node, ast.Subscript):
                yield from self._tensor_nodes(node.slice)
            return
        if isinstance(node, ast.Attribute) and node.attr in ("shape", "dtype", "ndim", "itemsize"):
            return
        for child in ast.iter_child_nodes(node):
            yield from self._tensor_nodes(child)


def _assigned_names(body: Sequence[ast.stmt]) -> set[str]:
    found: set[str] = set()
    for node in body:
        for child in ast.walk(node):
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                found.add(child.id)
    return found


def _accumulated_names(body: Sequence[ast.stmt]) -> set[str]:
    """Names that are only ever changed in place (``t += x``)."""
    added: set[str] = set()
    bound: set[str] = set()
    for node in body:
        for child in ast.walk(node):
            if isinstance(child, ast.AugAssign) and isinstance(child.target, ast.Name):
                added.add(child.target.id)
            elif isinstance(child, ast.Assign):
                bound |= _assigned_names([child])
            elif isinstance(child, ast.For) and isinstance(child.target, ast.Name):
                bound.add(child.target.id)
    return added - bound


def is_none(node: ast.AST | None) -> bool:
    """Whether an argument is left out or is ``None``."""
    return node is None or (isinstance(node, ast.Constant) and node.value is None)


def require(condition: bool, reason: str) -> None:
    """Raises :class:`NotApplicable` with that reason unless the condition holds."""
    if not condition:
        raise NotApplicable(reason)


__all__ = [
    "Access",
    "KernelModel",
    "Step",
    "build_model",
    "is_none",
    "require",
]
