"""Where a file names tensors whose memory analysis knows."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from tree_sitter import Node

from accelopt_lsp.analysis.results import KernelAnalysis
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.outline import BufferUse

Places = Mapping[str, list[tuple[int, Buffer]]]
"""By name: lines from which on it is in a memory, in order."""


def buffer_uses(document: Document, kernels: Iterable[KernelAnalysis]) -> tuple[BufferUse, ...]:
    """Uses of the tensors of all kernels, in the order of the text.

    A tensor that a helper of the file makes is found in that helper.
    """
    functions = [n for n in document.statements if n.type == "function_definition"]
    known: dict[int, dict[str, list[tuple[int, Buffer]]]] = {}
    for kernel in kernels:
        if kernel.workload is None:
            continue
        for tensor in kernel.workload.tensors:
            _note(known, functions, kernel.source.line, tensor.name, Buffer.HBM)
        for allocation in kernel.workload.allocations:
            if allocation.name:
                line = allocation.line
                _note(known, functions, line, allocation.name, allocation.buffer)
        for view in kernel.views:
            _note(known, functions, view.line, view.name, view.buffer)
    found: set[BufferUse] = set()
    for number, places in known.items():
        found.update(_uses(document, functions[number], places))
    return tuple(sorted(found, key=lambda use: (use.line, use.column)))


def _note(
    known: dict[int, dict[str, list[tuple[int, Buffer]]]],
    functions: list[Node],
    line: int,
    name: str,
    buffer: Buffer,
) -> None:
    """A tensor of the innermost function around a line."""
    row = line - 1
    around = [
        number
        for number, node in enumerate(functions)
        if node.start_point.row <= row <= node.end_point.row
    ]
    if around and name.isidentifier():
        places = known.setdefault(around[-1], defaultdict(list))
        if (line, buffer) not in places[name]:
            places[name].append((line, buffer))


def _uses(document: Document, function: Node, places: Places) -> Iterator[BufferUse]:
    text = "|".join(sorted((re.escape(name) for name in places), key=len, reverse=True))
    pattern = re.compile(rf"\b(?:{text})\b".encode())
    order = {name: sorted(set(found)) for name, found in places.items()}
    for match in pattern.finditer(document.data, function.start_byte, function.end_byte):
        node = document.root.named_descendant_for_byte_range(*match.span())
        if node is None or node.type != "identifier" or not _is_variable(node):
            continue
        name = document.node_text(node)
        line = document.line_of(node)
        found = order.get(name)
        if not found:
            continue
        at = max(bisect_right(found, line, key=lambda place: place[0]) - 1, 0)
        yield BufferUse(
            line,
            document.position_at(node.start_byte).column,
            name,
            found[at][1],
            declared=_is_assigned(node) or _is_parameter(node),
        )


def _is_variable(node: Node) -> bool:
    """Whether an identifier is a variable, not an attribute, a keyword or a function's name."""
    parent = node.parent
    if parent is None:
        return False
    for kind, field in (("attribute", "attribute"), ("keyword_argument", "name")):
        if parent.type == kind and parent.child_by_field_name(field) == node:
            return False
    return not (parent.type == "function_definition" and parent.child_by_field_name("name") == node)


def _is_assigned(node: Node) -> bool:
    parent = node.parent
    return (
        parent is not None
        and parent.type == "assignment"
        and parent.child_by_field_name("left") == node
    )


def _is_parameter(node: Node) -> bool:
    parent = node.parent
    return parent is not None and parent.type in (
        "parameters",
        "typed_parameter",
        "default_parameter",
        "typed_default_parameter",
    )
