"""Quick fixes: small edits at the place that a finding names, in kernels of the current dialect.

A fix names its place by line and column (of CPython's tree: column in bytes, from 0).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from attrs import frozen

from accelopt_lsp.analysis.rules.migration.scan import canonical_name
from accelopt_lsp.nki.python_source import parse_python
from accelopt_lsp.rewrites.base import Description, NotApplicable, RewriteContext, Site
from accelopt_lsp.rewrites.source import Edit, SourceText


@frozen(slots=True, eq=False)
class Place:
    """What a repair works on.

    Attributes:
        context: the file.
        nodes: syntax that begins at the place, outermost first.
        parents: what each node of the file stands in.
        parameters: of the fix.
    """

    context: RewriteContext
    nodes: list[ast.AST]
    parents: dict[int, ast.AST]
    parameters: dict[str, Any]

    @property
    def source(self) -> SourceText:
        return self.context.source

    def name(self, node: ast.AST) -> str:
        return canonical_name(node, self.context.kernel.aliases) or ""

    def call(self, *names: str) -> ast.Call:
        """The call at the place, or around it, of one of these canonical names.

        Raises:
            NotApplicable: there is none.
        """
        for node in self.nodes:
            current: ast.AST | None = node
            while current is not None and not isinstance(current, ast.stmt):
                if isinstance(current, ast.Call) and self.name(current.func) in names:
                    return current
                current = self.parents.get(id(current))
        raise NotApplicable(f"no call of {' or '.join(names)} at this place")

    def of(self, kind: type[ast.AST]) -> Any:
        """The outermost node of a kind at the place.

        Raises:
            NotApplicable: there is none.
        """
        for node in self.nodes:
            if isinstance(node, kind):
                return node
        raise NotApplicable("the text has changed at this place")

    def keyword(self) -> ast.keyword:
        """The keyword argument whose value stands at the place."""
        for node in self.nodes:
            parent = self.parents.get(id(node))
            if isinstance(parent, ast.keyword):
                return parent
        raise NotApplicable("no keyword argument at this place")

    def statement(self) -> ast.stmt:
        current: ast.AST | None = self.nodes[0]
        while current is not None and not isinstance(current, ast.stmt):
            current = self.parents.get(id(current))
        assert isinstance(current, ast.stmt)
        return current

    def module(self, short: str) -> str:
        """Local name of ``nl`` or ``nisa``.

        Raises:
            NotApplicable: the file does not import it.
        """
        for local, canonical in self.context.kernel.aliases.table.items():
            if canonical == short:
                return local
        full = {"nl": "nki.language", "nisa": "nki.isa"}[short]
        raise NotApplicable(f"import {full} as {short} first")

    def fresh(self, wanted: str) -> str:
        """A name that the file does not have."""
        names = {n.id for n in ast.walk(self.context.tree) if isinstance(n, ast.Name)}
        names |= {n.name for n in ast.walk(self.context.tree) if isinstance(n, ast.FunctionDef)}
        name, number = wanted, 2
        while name in names:
            name, number = f"{wanted}_{number}", number + 1
        return name

    def above(self, statement: ast.stmt, lines: list[str]) -> Edit:
        """Lines of their own before a statement."""
        indent, newline = self.source.indent_of(statement), self.source.newline
        text = "".join(f"{indent}{line}{newline}" for line in lines)
        return self.source.insert_before_line(self.source.first_line(statement), text)

    def without(self, call: ast.Call, gone: ast.keyword) -> Edit:
        """A call without one of its keyword arguments."""
        rest: list[ast.AST] = [a for a in (*call.args, *call.keywords) if a is not gone]
        start, end = self.source.span(gone)
        later = [self.source.span(a)[0] for a in rest if self.source.span(a)[0] > start]
        if later:
            return Edit(start, min(later), "")
        before = [self.source.span(a)[1] for a in rest]
        if before:
            return Edit(max(before), end, "")
        return Edit(start, end, "")


Mend = Callable[[Place], Iterator[Edit]]
_MENDS: dict[str, tuple[str, Mend]] = {}


def mends(name: str, title: str) -> Callable[[Mend], Mend]:
    """Register a repair under the name that fixes use."""

    def register(mend: Mend) -> Mend:
        _MENDS[name] = (title, mend)
        return mend

    return register


@frozen(slots=True)
class Repair:
    """A quick fix as a rewrite; it has no sites of its own, findings name them."""

    name: str
    title: str
    tags: tuple[str, ...] = ("repair",)

    @property
    def description(self) -> Description:
        return Description(self.title, "", "", "")

    def find(self, context: RewriteContext) -> tuple[Site, ...]:
        return ()

    def apply(self, context: RewriteContext, site: Site) -> str:
        line, column = site.parameters.get("line"), site.parameters.get("column")
        parents: dict[int, ast.AST] = {}
        nodes: list[ast.AST] = []
        for node in ast.walk(context.tree):
            for child in ast.iter_child_nodes(node):
                parents[id(child)] = node
            if getattr(node, "lineno", None) == line:
                if column is None or getattr(node, "col_offset", None) == column:
                    nodes.append(node)
        if not nodes:
            raise NotApplicable("the text has changed at this place")
        place = Place(context, nodes, parents, dict(site.parameters))
        _, mend = _MENDS[self.name]
        text = context.source.apply(mend(place))
        try:
            parse_python(text)
        except SyntaxError as error:
            raise NotApplicable(f"the result would not parse: {error}") from None
        return text


def all_repairs() -> tuple[Repair, ...]:
    """Every repair that is registered, by name."""
    import_module("accelopt_lsp.rewrites.repairs_calls")
    import_module("accelopt_lsp.rewrites.repairs_forms")
    return tuple(Repair(name, title) for name, (title, _) in sorted(_MENDS.items()))
