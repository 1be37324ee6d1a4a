"""Writes index expressions the way the kernel's author would: with the names at hand."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import cached_property

from attrs import define

from accelopt_lsp.rewrites.affine import Affine, Dim, Symbol
from accelopt_lsp.rewrites.base import NotApplicable, RewriteContext
from accelopt_lsp.rewrites.bindings import module_constants
from accelopt_lsp.rewrites.source import all_identifiers, fresh_name, names_in
from accelopt_lsp.rewrites.values import Loop, integer

_ATOMS = (ast.Name, ast.Constant, ast.Attribute, ast.Call, ast.Subscript)


@define(slots=False)
class Speller:
    """Spelling for one kernel and one edit.

    Attributes:
        context: the kernel.
        line: names bound before this line may be used.
        loops: loops around the edit; names bound in other loops may not be used.
    """

    context: RewriteContext
    line: int
    loops: tuple[Loop, ...] = ()

    @cached_property
    def taken(self) -> set[str]:
        """Identifiers that mean something inside the kernel; fresh names are added."""
        found = all_identifiers(self.context.function) | set(self.context.kernel.aliases.table)
        for node in self.context.tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
            else:
                found |= all_identifiers(node)
        return found

    def fresh(self, wanted: str) -> str:
        return fresh_name(wanted, self.taken)

    def prefix(self, module: str) -> str:
        """How this file names ``nl`` or ``nisa``.

        Raises:
            NotApplicable: it does not import it.
        """
        table = self.context.kernel.aliases.table
        for local, canonical in table.items():
            if canonical == module:
                return local
        full = {"nl": "language", "nisa": "isa"}[module]
        for local, canonical in table.items():
            if canonical == "nki":
                return f"{local}.{full}"
        raise NotApplicable(f"the file does not import {module}")

    @cached_property
    def visible(self) -> dict[str, int]:
        """Integer constants by name that the new code may use."""
        model = self.context.model
        found: dict[str, int] = {}
        for target, node in module_constants(self.context.tree):
            value = integer(model.value(node))
            if value is not None and target.id not in model.bindings:
                found[target.id] = value
        for name, nodes in model.bindings.items():
            value = integer(model.value(nodes[0]))
            if len(nodes) == 1 and value is not None and self.in_scope(name):
                found[name] = value
        for parameter in self.context.function.args.args:
            value = integer(model.evaluator.env.get(parameter.arg))
            if value is not None and parameter.arg not in model.bindings:
                found[parameter.arg] = value
        return found

    def in_scope(self, name: str) -> bool:
        """Whether a name has its one value at the place of the edit."""
        model = self.context.model
        nodes = model.bindings.get(name)
        if nodes is None:
            return True
        if any(loop.variable == name for loop in self.loops):
            return True
        if len(nodes) != 1 or nodes[0].lineno >= self.line:  # type: ignore[attr-defined]
            return False
        step = next((s for s in model.steps if any(n is nodes[0] for n in ast.walk(s.node))), None)
        if step is None or step.guarded:
            return False
        return self.loops[: len(step.loops)] == step.loops

    def all_in_scope(self, node: ast.AST, extra: Iterable[str] = ()) -> bool:
        """Whether an expression may be copied to the place of the edit."""
        allowed = set(extra)
        return all(name in allowed or self.in_scope(name) for name in names_in(node))

    def number(self, value: int, near: Iterable[ast.AST | None] = ()) -> str:
        """A name with that value that the author used in ``near``, else the number."""
        for node in near:
            if node is None:
                continue
            for child in ast.walk(node):
                if isinstance(child, ast.Name) and self.visible.get(child.id) == value:
                    return child.id
                if isinstance(child, ast.Attribute):
                    model = self.context.model
                    if integer(model.value(child)) == value and self.all_in_scope(child):
                        return self.context.source.of(child)
        return str(value)

    def affine(
        self, form: Affine, names: Mapping[Symbol, str], near: Iterable[ast.AST | None] = ()
    ) -> str:
        """``a * A + b * B + c``.

        Raises:
            NotApplicable: a symbol has no name here.
        """
        near = list(near)
        parts: list[str] = []
        for symbol, coefficient in form.terms.items():
            name = names.get(symbol)
            if name is None:
                raise NotApplicable(f"{symbol.name} is not known where the code would move to")
            if abs(coefficient) == 1:
                text = name
            else:
                text = f"{name} * {self.number(abs(coefficient), near)}"
            if coefficient < 0:
                parts.append(f"- {text}" if parts else f"-{text}")
            else:
                parts.append(f"+ {text}" if parts else text)
        if form.constant or not parts:
            text = self.number(abs(form.constant), near)
            if not parts:
                parts.append(text if form.constant >= 0 else f"-{text}")
            else:
                parts.append(f"+ {text}" if form.constant > 0 else f"- {text}")
        return " ".join(parts)

    def dimension(
        self, dim: Dim, names: Mapping[Symbol, str], near: Iterable[ast.AST | None] = ()
    ) -> str:
        """A slice, or a single index.

        Raises:
            NotApplicable: strided, or of unknown size.
        """
        near = list(near)
        if dim.point:
            return self.affine(dim.start, names, near)
        if dim.step != 1 or dim.extent is None:
            raise NotApplicable("a strided index cannot be rewritten")
        size = self.number(dim.extent, near)
        if dim.start == Affine():
            return self.slice("0", size, near, size)
        start = self.affine(dim.start, names, near)
        terms = dim.start.terms
        if dim.start.constant == 0 and len(terms) == 1:
            ((symbol, coefficient),) = terms.items()
            if coefficient == dim.extent and symbol in names:
                return self.slice(start, size, near, f"({names[symbol]} + 1) * {size}")
        return self.slice(start, size, near)

    def slice(
        self, start: str, size: str, near: Iterable[ast.AST | None] = (), stop: str | None = None
    ) -> str:
        """``size`` elements from ``start``, in the style of the expressions in ``near``."""
        written = [self.context.source.of(n) for n in near if n is not None]
        ds = f"{self.prefix('nl')}.ds("
        if start != "0" and any(ds in text for text in written):
            return f"{ds}{start}, {size})"
        colon = " : " if start != "0" and any(" : " in text for text in written) else ":"
        return f"{start}{colon}{stop or f'{start} + {size}'}"


def factor(text: str, node: ast.AST) -> str:
    """Text that may stand left of ``//`` or beside ``*``."""
    if isinstance(node, _ATOMS):
        return text
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv | ast.Mult):
        return text
    return f"({text})"


def wrap(indent: str, text: str, newline: str, limit: int = 100) -> str:
    """One statement as a line, or as several that break behind commas and align in brackets."""
    lines: list[str] = []
    stack: list[int] = []
    line = indent + text
    equals = _assignment(line)
    while len(line) > limit:
        best: tuple[int, int] | None = None
        open_columns = list(stack)
        columns: dict[int, int] = {}
        start = len(line) - len(line.lstrip())
        for position, char in enumerate(line[:limit]):
            if position < start or (not lines and position < equals):
                continue
            if char in "([{":
                open_columns.append(position + 1)
            elif char in ")]}" and open_columns:
                open_columns.pop()
            elif char == "," and open_columns and position > start:
                depth = len(open_columns)
                if best is None or depth <= best[0]:
                    best = (depth, position + 1)
                    columns[position + 1] = open_columns[-1]
        if best is None:
            break
        cut = best[1]
        stack = _open_brackets(line[:cut], stack)
        lines.append(line[:cut])
        line = " " * columns[cut] + line[cut:].lstrip()
    lines.append(line)
    return "".join(f"{part}{newline}" for part in lines)


def _assignment(line: str) -> int:
    """Where an assignment's target ends; 0 if the statement is none."""
    depth = 0
    for position, char in enumerate(line):
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "=" and depth == 0:
            return position
    return 0


def _open_brackets(text: str, stack: list[int]) -> list[int]:
    found = list(stack)
    for position, char in enumerate(text):
        if char in "([{":
            found.append(position + 1)
        elif char in ")]}" and found:
            found.pop()
    return found
