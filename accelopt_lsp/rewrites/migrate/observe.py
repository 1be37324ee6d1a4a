"""What analysis knows about every expression of a legacy kernel."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from attrs import define, field

from accelopt_lsp.analysis.affine import Undecided
from accelopt_lsp.analysis.kernels import KernelSource
from accelopt_lsp.analysis.machine import Machine
from accelopt_lsp.analysis.runner import run_kernel
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.tensors import select, select_block
from accelopt_lsp.analysis.values import Blocks, Grid, ParDim, Unknown, View
from accelopt_lsp.nki.arguments import KernelArguments
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.rewrites.base import NotApplicable


@define(slots=True, eq=False)
class Observation:
    """Values of expressions by node, in the order in which they came about."""

    machine: Machine
    values: dict[int, list[Any]] = field(factory=dict)

    def value(self, node: ast.AST) -> Any:
        """The first known value of an expression; Unknown if there is none."""
        found = self.values.get(id(node), ())
        for value in found:
            if not isinstance(value, Unknown):
                return value
        return found[0] if found else Unknown("this line was not reached")

    def all(self, node: ast.AST) -> list[Any]:
        """Every known value that an expression had."""
        return [v for v in self.values.get(id(node), ()) if not isinstance(v, Unknown)]

    def view(self, node: ast.AST) -> View | None:
        """The tensor that an expression is; None if it is none.

        Raises:
            NotApplicable: it differs from visit to visit.
        """
        views = [v for v in self.values.get(id(node), ()) if isinstance(v, View)]
        if not views:
            return None
        first = views[0]
        for other in views[1:]:
            same = (first.shape, first.dtype, first.buffer)
            if (other.shape, other.dtype, other.buffer) != same:
                line = getattr(node, "lineno", 0)
                raise NotApplicable(
                    f"line {line}: a tensor has several shapes or types here; "
                    "give each its own line"
                )
        return first

    def place(self, node: ast.Subscript) -> View | None:
        """The part of a tensor that is assigned to."""
        found = self.view(node)
        if found is not None:
            return found
        owner = self.value(node.value)
        if not isinstance(owner, View | Blocks) and isinstance(node.value, ast.Subscript):
            inner = self.value(node.value)
            owner = inner
        parts = tuple(self.parts(node.slice))
        try:
            if isinstance(owner, View):
                return select(owner, parts)
            if isinstance(owner, Blocks):
                chosen = select_block(owner, parts)
                return chosen if isinstance(chosen, View) else None
        except Undecided:
            return None
        return None

    def parts(self, index: ast.expr) -> Iterator[Any]:
        """Values of a subscript's elements; a grid counts as its axes."""
        for node in index.elts if isinstance(index, ast.Tuple) else [index]:
            value = self.value(node)
            if isinstance(value, ParDim):
                value = value.size
            if isinstance(value, Grid):
                yield from value.axes
            elif isinstance(value, tuple) and not isinstance(index, ast.Tuple):
                yield from value
            else:
                yield value


def observe(
    document: Document, kernel: KernelSource, arguments: KernelArguments, target: Target
) -> Observation:
    """Run the kernel abstractly and keep what its expressions are.

    Raises:
        NotApplicable: the kernel cannot be interpreted.
    """
    values: dict[int, list[Any]] = {}

    def note(node: ast.expr, value: Any) -> None:
        known = values.setdefault(id(node), [])
        if len(known) < 64:
            known.append(value)

    machine = run_kernel(document, kernel, arguments, target, observer=note)
    if machine is None:
        raise NotApplicable(f"{kernel.qualname} does not parse")
    machine.close()
    return Observation(machine, values)
