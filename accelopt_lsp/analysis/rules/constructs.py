"""Python that simulates and that the NKI compiler refuses, or does not promise to take.

Sources: NKI language guide (values, containers, control flow, classes, caching) and migration
guide (language restrictions of 0.3, what 0.2 has not). What these pages forbid is a warning, and an
error from the version on that forbids it; what they merely do not list is a hint. Kernels of the
legacy dialect are not meant: they had another compiler.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from attrs import evolve, frozen

from accelopt_lsp.analysis.kernels import KernelSource
from accelopt_lsp.analysis.reached import Reached, definitions, reached_functions
from accelopt_lsp.analysis.rules.base import FileContext, TableRule, Tier
from accelopt_lsp.analysis.tree import FunctionNode, dotted, nodes_by_kind, span_of
from accelopt_lsp.nki.diagnostics import Diagnostic
from accelopt_lsp.nki.dialects import Dialect

_KEY = "constructs"
_MANAGERS = ("nl.no_reorder", "no_reorder")
_BASES = ("NKIObject", "Enum", "IntEnum", "StrEnum", "NamedTuple", "object")
_REFUSED_BUILTINS = frozenset("eval exec compile open input globals locals vars __import__".split())


@frozen(slots=True, eq=False)
class Finding:
    """One construct: its rule, place and message, and the kernel that reaches it."""

    code: str
    node: ast.AST
    message: str
    kernel: KernelSource | None = None


@frozen(slots=True, eq=False)
class Scene:
    """What a look at a node may need."""

    context: FileContext
    reached: Reached
    classes: dict[str, FunctionNode | ast.ClassDef]
    kernels: frozenset[str]

    @property
    def kernel(self) -> KernelSource:
        return self.reached.kernel


Look = Callable[[ast.AST, Scene], Iterator[Finding]]
_LOOKS: dict[type[ast.AST], list[Look]] = {}


def _looks(*kinds: type[ast.AST]) -> Callable[[Look], Look]:
    def register(look: Look) -> Look:
        for kind in kinds:
            _LOOKS.setdefault(kind, []).append(look)
        return look

    return register


def constructs_of(context: FileContext) -> list[Finding]:
    """All constructs in what the kernels of a file reach."""
    cache = context.document.cache
    known: list[Finding] | None = cache.get(_KEY)
    if known is None:
        known = cache[_KEY] = list(_find(context))
    return known


def _find(context: FileContext) -> Iterator[Finding]:
    if not any(kernel.dialect is Dialect.CURRENT for kernel in context.kernels):
        return
    classes = definitions(context.document)
    kernels = frozenset(kernel.name for kernel in context.kernels)
    for reached in reached_functions(context.document, context.kernels):
        if reached.kernel.dialect is not Dialect.CURRENT:
            continue
        scene = Scene(context, reached, classes, kernels)
        for finding in _look_at(scene):
            yield evolve(finding, kernel=reached.kernel)


def _look_at(scene: Scene) -> Iterator[Finding]:
    yield from _signature(scene)
    found = nodes_by_kind(scene.reached.node)
    for kind, looks in _LOOKS.items():
        for node in found.get(kind, ()):
            for look in looks:
                yield from look(node, scene)


class Construct(TableRule):
    """Base of the rules on constructs."""

    tier = Tier.SYNTAX

    def check_file(self, context: FileContext) -> Iterator[Diagnostic]:
        for finding in constructs_of(context):
            if finding.code == self.code:
                span = span_of(context.document, finding.node)
                severity = self.severity
                if self.certain_from is not None and finding.kernel is not None:
                    severity = self.severity_at(context.version_of(finding.kernel))
                yield Diagnostic(self.code, severity, finding.message, span)


class Identity(Construct):
    code = "C001"


@_looks(ast.Compare)
def _identity(node: ast.AST, scene: Scene) -> Iterator[Finding]:
    assert isinstance(node, ast.Compare)
    left = node.left
    for op, right in zip(node.ops, node.comparators, strict=True):
        none = any(isinstance(n, ast.Constant) and n.value is None for n in (left, right))
        if none and isinstance(op, ast.Is | ast.IsNot):
            text, equal = ("is", "==") if isinstance(op, ast.Is) else ("is not", "!=")
            message = f"NKI 0.3 calls `{text}` unsupported; `{equal} None` asks the same"
            yield Finding("C001", node, message)
        left = right


class Variadic(Construct):
    code = "C012"


class AsynchronousOrGenerator(Construct):
    code = "C006"


def _signature(scene: Scene) -> Iterator[Finding]:
    node = scene.reached.node
    arguments = node.args
    if isinstance(node, ast.AsyncFunctionDef):
        yield Finding("C006", node, f"{node.name} is a coroutine, which NKI does not have")
    if not scene.reached.own:
        return
    for argument in (arguments.vararg, arguments.kwarg):
        if argument is not None:
            yield Finding(
                "C012",
                argument,
                f"{argument.arg} takes any number of arguments; compiled kernels are kept by "
                "named ones: name each of them",
            )


class DictionaryKey(Construct):
    code = "C002"


@_looks(ast.Dict)
def _dictionary(node: ast.AST, scene: Scene) -> Iterator[Finding]:
    assert isinstance(node, ast.Dict)
    for key in node.keys:
        if isinstance(key, ast.Constant) and not isinstance(key.value, str):
            yield Finding(
                "C002",
                key,
                f"the key {key.value!r} is no string; dictionaries of NKI have string keys only: "
                f"{str(key.value)!r}",
            )


class ForeignClass(Construct):
    code = "C003"


@_looks(ast.Call)
def _class(node: ast.AST, scene: Scene) -> Iterator[Finding]:
    assert isinstance(node, ast.Call)
    if not isinstance(node.func, ast.Name):
        return
    made = scene.classes.get(node.func.id)
    if not isinstance(made, ast.ClassDef):
        return
    bases = [(dotted(base) or "").rpartition(".")[2] for base in made.bases]
    # A base that is a class of the file is judged where it is used itself.
    foreign = [b for b in bases if b not in _BASES and b not in scene.classes]
    if not bases or foreign:
        yield Finding(
            "C003",
            node.func,
            f"{made.name} inherits from {', '.join(foreign) or 'nothing'}; classes that a kernel "
            "uses inherit from nl.NKIObject and nothing else (or are enumerations)",
        )


class DecoratedSubKernel(Construct):
    code = "C004"


@_looks(ast.Call)
def _sub_kernel(node: ast.AST, scene: Scene) -> Iterator[Finding]:
    assert isinstance(node, ast.Call)
    if not isinstance(node.func, ast.Name):
        return
    called = scene.classes.get(node.func.id)
    if not isinstance(called, ast.FunctionDef) or called.name not in scene.kernels:
        return
    if called is not scene.reached.node and called.decorator_list:
        yield Finding(
            "C004",
            node.func,
            f"{called.name} is decorated with nki.jit and called by a kernel; leave it undecorated "
            "and write nki.jit(...) where it is launched",
        )


class ExceptionHandling(Construct):
    code = "C005"


@_looks(ast.Try)
def _try(node: ast.AST, scene: Scene) -> Iterator[Finding]:
    yield Finding("C005", node, "try is not part of NKI's language; test with `if` and `assert`")


@_looks(ast.Yield, ast.YieldFrom)
def _yield(node: ast.AST, scene: Scene) -> Iterator[Finding]:
    yield Finding(
        "C006", node, "generators are not part of NKI's language; append to a list and return it"
    )


@_looks(ast.Await, ast.AsyncFor, ast.AsyncWith)
def _await(node: ast.AST, scene: Scene) -> Iterator[Finding]:
    yield Finding("C006", node, "async and await are not part of NKI's language")


class ContextManager(Construct):
    code = "C007"


@_looks(ast.With)
def _with(node: ast.AST, scene: Scene) -> Iterator[Finding]:
    assert isinstance(node, ast.With)
    for item in node.items:
        call = item.context_expr
        name = dotted(call.func if isinstance(call, ast.Call) else call) or ""
        canonical = scene.kernel.aliases.canonical(name) or name
        if canonical not in _MANAGERS and canonical.partition(".")[0] not in ("nl", "nisa", "nki"):
            yield Finding(
                "C007", call, "`with` is for nl.no_reorder in NKI's language, nothing else"
            )


class Sets(Construct):
    code = "C008"


@_looks(ast.Set, ast.SetComp)
def _set(node: ast.AST, scene: Scene) -> Iterator[Finding]:
    yield Finding("C008", node, "NKI has tuples, lists and dictionaries, no sets; take a tuple")


@_looks(ast.Call)
def _builtin(node: ast.AST, scene: Scene) -> Iterator[Finding]:
    assert isinstance(node, ast.Call)
    if not isinstance(node.func, ast.Name):
        return
    name = node.func.id
    if name in ("set", "frozenset"):
        yield Finding("C008", node.func, f"NKI has no {name}; take a tuple or a list")
    elif name in _REFUSED_BUILTINS:
        yield Finding("C011", node.func, f"{name}() is Python's own, NKI's language lacks it")


class Recursion(Construct):
    code = "C009"


@_looks(ast.Call)
def _recursion(node: ast.AST, scene: Scene) -> Iterator[Finding]:
    assert isinstance(node, ast.Call)
    own = scene.reached.node
    if isinstance(node.func, ast.Name) and node.func.id == own.name:
        if scene.classes.get(own.name) is own:
            yield Finding(
                "C009",
                node.func,
                f"{own.name} calls itself; all calls are inlined when a kernel is compiled: "
                "write a loop",
            )


class OuterNames(Construct):
    code = "C010"


@_looks(ast.Nonlocal)
def _nonlocal(node: ast.AST, scene: Scene) -> Iterator[Finding]:
    assert isinstance(node, ast.Nonlocal)
    yield Finding(
        "C010",
        node,
        f"nonlocal {', '.join(node.names)}: NKI's language does not list it; return the value, or "
        "keep it in a list",
    )


class HostBuiltin(Construct):
    code = "C011"


class Lambda(Construct):
    code = "C013"


@_looks(ast.Lambda)
def _lambda(node: ast.AST, scene: Scene) -> Iterator[Finding]:
    yield Finding("C013", node, "NKI's language does not list lambda; write a small function")


class OtherValues(Construct):
    code = "C014"


@_looks(ast.Constant)
def _constant(node: ast.AST, scene: Scene) -> Iterator[Finding]:
    assert isinstance(node, ast.Constant)
    value = node.value
    if isinstance(value, bytes | complex):
        kind = type(value).__name__
        yield Finding("C014", node, f"{value!r} is a {kind} value, which NKI does not have")
    elif isinstance(value, int) and not -(2**31) <= value < 2**32:
        yield Finding("C014", node, f"{value} does not fit NKI's integers of 32 bits")


class OtherStatements(Construct):
    code = "C015"


@_looks(ast.Match, ast.NamedExpr, ast.For, ast.While, ast.Delete)
def _statement(node: ast.AST, scene: Scene) -> Iterator[Finding]:
    if isinstance(node, ast.For | ast.While):
        if node.orelse:
            text = "NKI's language does not list `else` of a loop; set a flag in the loop"
            yield Finding("C015", node.orelse[0], text)
        return
    kinds = {
        ast.Match: "match; write `if` and `elif`",
        ast.NamedExpr: "`:=`; assign before",
        ast.Delete: "del; leave the name alone",
    }
    yield Finding("C015", node, f"NKI's language does not list {kinds[type(node)]}")
