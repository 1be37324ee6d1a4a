"""Finds kernels in a file: functions that NKI compiles, under any import alias."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attrs import field, frozen
from tree_sitter import Node

from accelopt_lsp.analysis.names import Aliases, detect_dialect, dotted_name, find_aliases
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.diagnostics import Span
from accelopt_lsp.nki.dialects import Dialect

__all__ = [
    "CallSite",
    "KernelSource",
    "Parameter",
    "call_sites",
    "detect_dialect",
    "find_kernels",
    "kernel_at_line",
    "kernel_named",
]

ENTRY_POINTS = frozenset(
    {
        "nki.jit",
        "nki.baremetal",
        "nki.benchmark",
        "nki.profile",
        "nki.simulate_kernel",
        "nki.simulate",
        "torch_neuronx.nki_jit",
        "torch_neuronx.xla_impl.ops.nki_jit",
    }
)
"""What turns a function into a kernel, as decorator or as call."""

_ENTRY_NAMES = tuple(sorted({path.rpartition(".")[2] for path in ENTRY_POINTS}))


@frozen(slots=True)
class Parameter:
    """One parameter of a kernel.

    Attributes:
        name: without stars.
        default, annotation: source text, or None.
        kind: ``positional``, ``keyword`` (after a star), ``args`` or ``kwargs``.
        span: where it is declared.
    """

    name: str
    default: str | None
    annotation: str | None
    kind: str
    span: Span


@frozen(slots=True, eq=False)
class KernelSource:
    """A kernel as it stands in a file.

    Attributes:
        name: of the function.
        qualname: with enclosing classes and functions, joined by dots.
        span: decorators included.
        name_span: of the name.
        line, end_line: of ``def`` and of the last line.
        node: tree-sitter's function definition; None after pickling.
        dialect: how it is written.
        decorator: text of the decorator, or of the call that makes it a kernel.
        parameters: in order.
        aliases: local names of the file.
    """

    name: str
    qualname: str
    span: Span
    name_span: Span
    line: int
    end_line: int
    node: Node | None = field(repr=False)
    dialect: Dialect
    decorator: str
    parameters: tuple[Parameter, ...]
    aliases: Aliases = field(repr=False)

    @property
    def first_line(self) -> int:
        """Line of the first decorator, or of ``def``."""
        return self.span.start.line

    def parameter(self, name: str) -> Parameter | None:
        return next((p for p in self.parameters if p.name == name), None)

    def __getstate__(self) -> dict[str, Any]:
        state = {name: getattr(self, name) for name in self.__slots__ if name != "__weakref__"}
        state["node"] = None
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)


@frozen(slots=True, eq=False)
class CallSite:
    """A call of a kernel in its own file: ``kernel(a, b)`` or ``kernel[grid](a, b)``."""

    line: int
    node: Node
    grid: tuple[Node, ...]
    positional: tuple[Node, ...]
    keywords: Mapping[str, Node]


def find_kernels(document: Document) -> tuple[KernelSource, ...]:
    """All kernels of a file, in the order of the text. Never raises."""
    found: tuple[KernelSource, ...] | None = document.cache.get("kernels")
    if found is None:
        found = document.cache["kernels"] = _find_kernels(document)
    return found


def _find_kernels(document: Document) -> tuple[KernelSource, ...]:
    aliases = find_aliases(document)
    default = detect_dialect(document, aliases)
    wrapped = _wrapped_names(document, aliases)
    kernels = []
    for node in document.statements:
        if node.type != "function_definition":
            continue
        name = node.child_by_field_name("name")
        if name is None:
            continue
        text = document.node_text(name)
        found = _decorator(document, aliases, node)
        if found is None and text in wrapped and _is_module_level(node):
            found = wrapped[text]
        if found is None:
            continue
        decorator, dialect = found
        kernels.append(
            _kernel(document, node, name, decorator, dialect or default or Dialect.CURRENT, aliases)
        )
    return tuple(kernels)


def function_as_kernel(document: Document, qualname: str) -> KernelSource | None:
    """Any function of a file as a kernel, whether or not something in the file makes it one."""
    known = kernel_named(find_kernels(document), qualname)
    if known is not None and known.qualname == qualname:
        return known
    aliases = find_aliases(document)
    dialect = detect_dialect(document, aliases) or Dialect.CURRENT
    for node in document.statements:
        name = node.child_by_field_name("name")
        if node.type != "function_definition" or name is None:
            continue
        found = _kernel(document, node, name, "", dialect, aliases)
        if found.qualname == qualname:
            return found
    return None


def kernel_named(kernels: tuple[KernelSource, ...], name: str | None) -> KernelSource | None:
    """The kernel of that qualified or plain name; with None, the only (or first) kernel."""
    if name is None:
        return kernels[0] if kernels else None
    for kernel in kernels:
        if kernel.qualname == name:
            return kernel
    return next((k for k in kernels if k.name == name), None)


def kernel_at_line(kernels: tuple[KernelSource, ...], line: int) -> KernelSource | None:
    """The innermost kernel that covers a line."""
    covering = [k for k in kernels if k.first_line <= line <= k.end_line]
    return max(covering, key=lambda k: k.line, default=None)


def _kernel(
    document: Document,
    node: Node,
    name: Node,
    decorator: str,
    dialect: Dialect,
    aliases: Aliases,
) -> KernelSource:
    outer = node.parent if node.parent and node.parent.type == "decorated_definition" else node
    end = document.position_at(node.end_byte)
    return KernelSource(
        name=document.node_text(name),
        qualname=".".join((*_scopes(document, node), document.node_text(name))),
        span=document.span(outer),
        name_span=document.span(name),
        line=document.line_of(node),
        end_line=end.line - 1 if end.column == 1 and end.line > 1 else end.line,
        node=node,
        dialect=dialect,
        decorator=decorator,
        parameters=tuple(_parameters(document, node)),
        aliases=aliases,
    )


def _scopes(document: Document, node: Node) -> list[str]:
    names: list[str] = []
    current = node.parent
    while current is not None:
        if current.type in ("class_definition", "function_definition"):
            name = current.child_by_field_name("name")
            if name is not None:
                names.append(document.node_text(name))
        current = current.parent
    return names[::-1]


def _is_module_level(node: Node) -> bool:
    current = node.parent
    while current is not None:
        if current.type in ("class_definition", "function_definition"):
            return False
        current = current.parent
    return True


def _entry_point(
    document: Document, aliases: Aliases, node: Node
) -> tuple[str, Dialect | None] | None:
    """Whether an expression is ``nki.jit`` or ``nki.jit(...)``, also through ``partial``."""
    if node.type == "call":
        callee = node.child_by_field_name("function")
        if callee is None:
            return None
        name = dotted_name(document, callee)
        if name is not None and name.rpartition(".")[2] == "partial":
            arguments = node.child_by_field_name("arguments")
            first = arguments.named_children[0] if arguments and arguments.named_children else None
            return None if first is None else _entry_point(document, aliases, first)
        return _entry_point(document, aliases, callee)
    name = dotted_name(document, node)
    if name is None:
        return None
    canonical = aliases.canonical(name)
    if canonical not in ENTRY_POINTS:
        return None
    return name, aliases.dialect_of(name)


def _decorator(
    document: Document, aliases: Aliases, node: Node
) -> tuple[str, Dialect | None] | None:
    parent = node.parent
    if parent is None or parent.type != "decorated_definition":
        return None
    for child in parent.children:
        if child.type == "decorator" and child.named_children:
            found = _entry_point(document, aliases, child.named_children[0])
            if found is not None:
                return document.node_text(child).strip(), found[1]
    return None


def _wrapped_names(document: Document, aliases: Aliases) -> dict[str, tuple[str, Dialect | None]]:
    """Functions handed to an entry point: ``fast = nki.jit(kernel)``."""
    wrapped: dict[str, tuple[str, Dialect | None]] = {}
    names = {*_ENTRY_NAMES, *(n for n, path in aliases.table.items() if path in ENTRY_POINTS)}
    for call in _entry_calls(document, names):
        found = _entry_point(document, aliases, call)
        arguments = call.child_by_field_name("arguments")
        if found is None or arguments is None or not arguments.named_children:
            continue
        first = arguments.named_children[0]
        if first.type == "identifier":
            wrapped.setdefault(document.node_text(first), (document.node_text(call), found[1]))
    return wrapped


def _entry_calls(document: Document, names: Iterable[str]) -> Iterator[Node]:
    """Calls of entry points, and calls of what these give."""
    for _, call in document.calls_of(names):
        yield call
        outer = call.parent
        if outer is not None and outer.type == "call":
            yield outer
    for _, call in document.calls_of(("partial",)):
        outer = call.parent
        if outer is not None and outer.type == "call":
            yield outer


def _parameters(document: Document, node: Node) -> Iterator[Parameter]:
    listed = node.child_by_field_name("parameters")
    kind = "positional"
    for child in listed.named_children if listed is not None else ():
        if child.type in ("keyword_separator", "list_splat_pattern"):
            if child.type == "list_splat_pattern":
                yield _parameter(document, child, child, "args")
            kind = "keyword"
        elif child.type == "dictionary_splat_pattern":
            yield _parameter(document, child, child, "kwargs")
        elif child.type == "identifier":
            yield _parameter(document, child, child, kind)
        elif child.type == "typed_parameter":
            inner = child.named_children[0] if child.named_children else child
            kinds = {"list_splat_pattern": "args", "dictionary_splat_pattern": "kwargs"}
            found = kinds.get(inner.type, kind)
            yield _parameter(document, child, inner, found)
            if found == "args":
                kind = "keyword"
        elif child.type in ("default_parameter", "typed_default_parameter"):
            name = child.child_by_field_name("name")
            if name is not None:
                yield _parameter(document, child, name, kind)


def _parameter(document: Document, node: Node, name: Node, kind: str) -> Parameter:
    default = node.child_by_field_name("value")
    annotation = node.child_by_field_name("type")
    return Parameter(
        name=document.node_text(name).lstrip("*"),
        default=document.node_text(default) if default is not None else None,
        annotation=document.node_text(annotation) if annotation is not None else None,
        kind=kind,
        span=document.span(node),
    )


def call_sites(document: Document, kernel: KernelSource) -> tuple[CallSite, ...]:
    """Calls of a kernel in its own file, with their argument nodes."""
    sites = []
    for name, call in document.calls_of((kernel.name,)):
        callee = call.child_by_field_name("function")
        grid: tuple[Node, ...] = ()
        if callee is not None and callee.type == "subscript":
            grid = tuple(callee.children_by_field_name("subscript"))
            callee = callee.child_by_field_name("value")
        if callee != name:
            continue
        positional: list[Node] = []
        keywords: dict[str, Node] = {}
        arguments = call.child_by_field_name("arguments")
        for node in arguments.named_children if arguments is not None else ():
            if node.type == "keyword_argument":
                keyword, value = node.child_by_field_name("name"), node.child_by_field_name("value")
                if keyword is not None and value is not None:
                    keywords[document.node_text(keyword)] = value
            elif node.type != "comment":
                positional.append(node)
        sites.append(CallSite(document.line_of(call), call, grid, tuple(positional), keywords))
    return tuple(sites)
