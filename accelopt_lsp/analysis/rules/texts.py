"""Rules that the text alone decides: imports, decorators, loops of the hardware, scopes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from accelopt_lsp.analysis.kernels import KernelSource
from accelopt_lsp.analysis.reached import Reached, definitions, reached_functions
from accelopt_lsp.analysis.rules.base import FileContext, TableRule, Tier
from accelopt_lsp.analysis.tree import dotted, module_of, nodes_by_kind, nodes_of, span_of, walk
from accelopt_lsp.nki.apis import find_api
from accelopt_lsp.nki.diagnostics import Diagnostic, Fix, Severity
from accelopt_lsp.nki.dialects import Dialect, Role

_ISSUING = (Role.INSTRUCTION, Role.COMPUTE, Role.CREATION)
_IMPURE = ("time.", "random.", "np.random.", "datetime.", "os.environ", "uuid.")


class TextRule(TableRule):
    """Base of rules of the syntax tier."""

    tier = Tier.SYNTAX

    def at(
        self,
        context: FileContext,
        node: ast.AST,
        message: str,
        severity: Severity | None = None,
        fix: Fix | None = None,
    ) -> Diagnostic:
        severity = severity or self.severity_at(context.nki_version)
        return Diagnostic(self.code, severity, message, span_of(context.document, node), fix)


def _reached(context: FileContext, dialect: Dialect) -> Iterator[Reached]:
    for reached in reached_functions(context.document, context.kernels):
        if reached.kernel.dialect is dialect:
            yield reached


def _canonical(kernel: KernelSource, node: ast.AST) -> str:
    name = dotted(node)
    return "" if name is None else kernel.aliases.canonical(name) or ""


def _makes_tensor(kernel: KernelSource, node: ast.AST) -> bool:
    """Whether an expression is a call that makes a tensor."""
    if not isinstance(node, ast.Call):
        return False
    api = find_api(_canonical(kernel, node.func))
    return api is not None and api.role in _ISSUING


class OutsideKernel(TextRule):
    code = "R022"

    def check_file(self, context: FileContext) -> Iterator[Diagnostic]:
        if not context.kernels:
            return
        kernel = context.kernels[0]
        stack: list[ast.AST] = list(module_of(context.document).body)
        while stack:
            node = stack.pop()
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
                continue
            if isinstance(node, ast.Call) and _makes_tensor(kernel, node):
                name = _canonical(kernel, node.func)
                text = f"{name} is called outside a kernel; call it in a function under nki.jit"
                yield self.at(context, node.func, text)
            stack.extend(ast.iter_child_nodes(node))


class WhileWithoutEntry(TextRule):
    code = "R036"

    def check_file(self, context: FileContext) -> Iterator[Diagnostic]:
        for reached in _reached(context, Dialect.LEGACY):
            for node in nodes_of(reached.node, ast.While):
                if not isinstance(node.test, ast.Constant):
                    text = (
                        f"`while {ast.unparse(node.test)}` tests before the first pass, which the "
                        "legacy compiler does not support; loop over a known number of iterations"
                    )
                    yield self.at(context, node.test, text)


class RangeIsSequential(TextRule):
    code = "R054"

    def check_file(self, context: FileContext) -> Iterator[Diagnostic]:
        for reached in _reached(context, Dialect.LEGACY):
            for node in nodes_of(reached.node, ast.For):
                if not isinstance(node.iter, ast.Call):
                    continue
                if isinstance(node.iter.func, ast.Name) and node.iter.func.id == "range":
                    text = (
                        "range is compiled as nl.sequential_range; take nl.affine_range where "
                        "iterations are independent"
                    )
                    yield self.at(context, node.iter.func, text)


class OutOfScope(TextRule):
    code = "R019"

    def check_file(self, context: FileContext) -> Iterator[Diagnostic]:
        for reached in _reached(context, Dialect.LEGACY):
            for loop in walk(reached.node):
                if isinstance(loop, ast.For):
                    yield from self._after(context, reached, loop)

    def _after(self, context: FileContext, reached: Reached, loop: ast.For) -> Iterator[Diagnostic]:
        function = reached.node
        end = loop.end_lineno or loop.lineno
        made: dict[str, int] = {}
        for node in walk(loop):
            if isinstance(node, ast.Assign) and _makes_tensor(reached.kernel, node.value):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        made[target.id] = node.lineno
        if not made:
            return
        parameters = {a.arg for a in (*function.args.args, *function.args.kwonlyargs)}
        names = [n for n in walk(function) if isinstance(n, ast.Name) and n.id in made]
        stores = [n for n in names if isinstance(n.ctx, ast.Store)]
        for node in sorted(names, key=lambda n: (n.lineno, n.col_offset)):
            if not isinstance(node.ctx, ast.Load) or node.lineno <= end or node.id in parameters:
                continue
            if node.id not in made:
                continue
            # Set before the loop, or again after it: it is no tensor of the loop's own.
            own = [s for s in stores if s.id == node.id]
            if all(loop.lineno <= s.lineno <= end for s in own):
                text = (
                    f"{node.id} is created in the loop of line {loop.lineno} (line "
                    f"{made[node.id]}) and used outside; create it before the loop"
                )
                yield self.at(context, node, text)
                made.pop(node.id)


class TwoDialects(TextRule):
    code = "R077"

    def check_file(self, context: FileContext) -> Iterator[Diagnostic]:
        seen: set[str] = set()
        for reached in _reached(context, Dialect.CURRENT):
            aliases = reached.kernel.aliases
            for node in nodes_of(reached.node, ast.Name):
                if node.id in seen:
                    continue
                if aliases.dialect_of(node.id) is Dialect.LEGACY:
                    seen.add(node.id)
                    text = (
                        f"{node.id} comes from neuronxcc.nki, in a kernel of nki; import it from "
                        "nki"
                    )
                    severity = self.severity_at(context.version_of(reached.kernel))
                    yield self.at(context, node, text, severity)


def _registers(reached: Reached) -> set[str]:
    """Names that hold registers wherever they are set."""
    found: set[str] = set()
    others: set[str] = set()
    for node in nodes_of(reached.node, ast.Assign):
        value = node.value
        made = (
            isinstance(value, ast.Call)
            and _canonical(reached.kernel, value.func) == "nisa.register_alloc"
        )
        for target in node.targets:
            if isinstance(target, ast.Name):
                (found if made else others).add(target.id)
    return found - others


class RegisterInControlFlow(TextRule):
    code = "R012"

    def check_file(self, context: FileContext) -> Iterator[Diagnostic]:
        for reached in _reached(context, Dialect.CURRENT):
            registers = _registers(reached)
            if not registers:
                continue
            tests: list[ast.If | ast.IfExp] = [
                *nodes_of(reached.node, ast.If),
                *nodes_of(reached.node, ast.IfExp),
            ]
            for node in tests:
                for test in _operands(node.test):
                    if isinstance(test, ast.Name) and test.id in registers:
                        text = (
                            f"{test.id} is a register, whose value only the device knows; `if` "
                            "cannot depend on it: take nl.while_loop, or instructions that select"
                        )
                        yield self.at(context, test, text)


def _operands(test: ast.expr) -> Iterator[ast.expr]:
    """What a condition consists of; comparisons with None ask for something else."""
    if isinstance(test, ast.BoolOp):
        for value in test.values:
            yield from _operands(value)
    elif isinstance(test, ast.UnaryOp):
        yield from _operands(test.operand)
    elif isinstance(test, ast.Compare):
        sides = [test.left, *test.comparators]
        if not any(isinstance(s, ast.Constant) and s.value is None for s in sides):
            yield from sides
    else:
        yield test


class HardwareLoops(TextRule):
    code = "R084"

    def check_file(self, context: FileContext) -> Iterator[Diagnostic]:
        for reached in _reached(context, Dialect.CURRENT):
            functions = {n.name: n for n in nodes_of(reached.node, ast.FunctionDef)} | dict(
                definitions(context.document)
            )
            kernel = reached.kernel
            registers = _registers(reached)
            for operation in nodes_of(reached.node, ast.BinOp) if registers else ():
                yield from self._arithmetic(context, operation, registers)
            for block in nodes_of(reached.node, ast.With):
                yield from self._reordered(context, kernel, block)
            for node in nodes_of(reached.node, ast.Call):
                name = _canonical(kernel, node.func)
                if name in ("nl.fori_loop", "nl.while_loop"):
                    yield from self._loop(context, name, node, functions)

    def _loop(
        self, context: FileContext, name: str, node: ast.Call, functions: Mapping[str, ast.AST]
    ) -> Iterator[Diagnostic]:
        api = find_api(name)
        signature = None if api is None else api.signature(Dialect.CURRENT)
        order = () if signature is None else signature.parameters
        given = dict(zip(order, node.args, strict=False))
        given |= {k.arg: k.value for k in node.keywords if k.arg is not None}
        step, body = given.get("step"), given.get("body_fun")
        number = _number(step)
        if step is not None and number is not None and (number < 1 or number != int(number)):
            text = f"the step of nl.fori_loop is a positive whole number, got {number:g}"
            yield self.at(context, step, text)
        function = functions.get(body.id) if isinstance(body, ast.Name) else body
        if body is None or not isinstance(function, ast.FunctionDef):
            return
        returns = _returns_value(function)
        if name == "nl.fori_loop" and returns:
            text = f"{function.name}, a body of nl.fori_loop, returns a value; it may not"
            yield self.at(context, body, text)
        elif name == "nl.while_loop" and not returns:
            text = (
                f"{function.name}, a body of nl.while_loop, returns nothing; it returns the "
                "register that decides on the next iteration"
            )
            yield self.at(context, body, text)
        elif name == "nl.fori_loop" and function.args.args:
            yield from self._variable(context, function)

    def _variable(self, context: FileContext, function: ast.FunctionDef) -> Iterator[Diagnostic]:
        names = {function.args.args[0].arg}
        for node in walk(function):
            if isinstance(node, ast.BinOp):
                yield from self._arithmetic(context, node, names)

    def _arithmetic(
        self, context: FileContext, node: ast.BinOp, registers: set[str]
    ) -> Iterator[Diagnostic]:
        for side in (node.left, node.right):
            if isinstance(side, ast.Name) and side.id in registers:
                text = (
                    f"Python cannot compute with {side.id}, a register: its value exists on the "
                    "device only; store it to a [1, 1] tile, compute there, and load it again"
                )
                yield self.at(context, node, text)
                return

    def _reordered(
        self, context: FileContext, kernel: KernelSource, node: ast.With
    ) -> Iterator[Diagnostic]:
        managers = [i.context_expr for i in node.items if isinstance(i.context_expr, ast.Call)]
        if not any(_canonical(kernel, c.func) == "nl.no_reorder" for c in managers):
            return
        for inner in walk(node):
            if isinstance(inner, ast.Call):
                name = _canonical(kernel, inner.func)
                if name in ("nl.fori_loop", "nl.while_loop"):
                    yield self.at(context, inner.func, f"{name} cannot sit inside nl.no_reorder")


def _number(node: ast.AST | None) -> float | None:
    sign = 1.0
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        sign, node = -1.0, node.operand
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return sign * node.value
    return None


def _returns_value(function: ast.FunctionDef) -> bool:
    stack: list[ast.AST] = list(function.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Return) and node.value is not None:
            if not (isinstance(node.value, ast.Constant) and node.value.value is None):
                return True
        if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            stack.extend(ast.iter_child_nodes(node))
    return False


class GridInsideKernel(TextRule):
    code = "R021"

    def check_file(self, context: FileContext) -> Iterator[Diagnostic]:
        if not context.kernels:
            return
        known = definitions(context.document)
        kernels = {k.name for k in context.kernels}
        for reached in _reached(context, Dialect.LEGACY):
            for node in nodes_of(reached.node, ast.Call):
                called = node.func
                if not isinstance(called, ast.Subscript) or not isinstance(called.value, ast.Name):
                    continue
                name = called.value.id
                if name in kernels and isinstance(known.get(name), ast.FunctionDef):
                    text = (
                        f"{name} is called with a launch grid inside a kernel; call it without: "
                        f"{name}(...)"
                    )
                    yield self.at(context, called.slice, text)


class Purity(TextRule):
    code = "R093"

    def check_file(self, context: FileContext) -> Iterator[Diagnostic]:
        for dialect in Dialect:
            for reached in _reached(context, dialect):
                found = nodes_by_kind(reached.node)
                for node in (*found.get(ast.Global, ()), *found.get(ast.Call, ())):
                    yield from self._node(context, reached, node)

    def _node(self, context: FileContext, reached: Reached, node: ast.AST) -> Iterator[Diagnostic]:
        if isinstance(node, ast.Global):
            names = ", ".join(node.names)
            text = (
                f"the kernel changes {names} outside of it; compiled kernels are kept by their "
                "arguments, so it runs once: return it, or take it as an argument"
            )
            yield self.at(context, node, text)
        elif isinstance(node, ast.Call):
            name = _canonical(reached.kernel, node.func)
            if name.startswith(_IMPURE):
                text = (
                    f"{name} gives another value each time, but is asked once, when the kernel is "
                    "compiled; take its value as an argument"
                )
                yield self.at(context, node.func, text)
