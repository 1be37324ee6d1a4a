"""Which NKI name a local name stands for, under any import alias.

Canonical names: ``nki.X``, ``nl.X`` (nki.language), ``nisa.X`` (nki.isa), ``nt.X``
(nki.typing), ``ncc.X`` (nki.compiler), ``np.X`` (NumPy). Any other import keeps its path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import field, frozen
from tree_sitter import Node

from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.reference.paths import canonical_path, path_dialect


@frozen(slots=True)
class Aliases:
    """Local names of one file.

    Attributes:
        table: local name to canonical name (``nl`` to ``nl``, ``par_dim`` to ``nl.par_dim``,
            ``jit`` to ``nki.jit``); the first binding of a name counts.
        origins: local name to the dialect of the import that it comes from.
        stars: canonical modules imported with ``*``.
    """

    table: Mapping[str, str] = field(factory=dict)
    origins: Mapping[str, Dialect] = field(factory=dict)
    stars: tuple[str, ...] = ()

    def canonical(self, dotted: str) -> str | None:
        """Canonical form of a dotted local name, or None if it is no import of this file."""
        head, _, rest = dotted.partition(".")
        base = self.table.get(head)
        if base is None:
            if not rest and "nl" in self.stars:
                from accelopt_lsp.nki.apis import find_api

                return f"nl.{head}" if find_api(f"nl.{head}") else None
            return None
        return canonical_path(f"{base}.{rest}" if rest else base)

    def dialect_of(self, dotted: str) -> Dialect | None:
        return self.origins.get(dotted.partition(".")[0])


def find_aliases(document: Document) -> Aliases:
    """Imports anywhere in a file, and module-level renamings such as ``nl = nki.language``."""
    found: Aliases | None = document.cache.get("aliases")
    if found is None:
        found = document.cache["aliases"] = _find_aliases(document)
    return found


def _find_aliases(document: Document) -> Aliases:
    table: dict[str, str] = {}
    origins: dict[str, Dialect] = {}
    stars: list[str] = []
    for node in document.statements:
        if node.type not in ("import_statement", "import_from_statement"):
            continue
        for local, path in _bindings(document, node):
            if local == "*":
                stars.append(canonical_path(path))
                continue
            if local in table:
                continue
            table[local] = canonical_path(path)
            dialect = path_dialect(path)
            if dialect is not None:
                origins[local] = dialect
    aliases = Aliases(table, origins, tuple(stars))
    for node in _module_assignments(document):
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None or left.type != "identifier":
            continue
        name = dotted_name(document, right)
        if name is None:
            continue
        canonical = aliases.canonical(name)
        local = document.node_text(left)
        if canonical is not None and local not in table:
            table[local] = canonical
            dialect = aliases.dialect_of(name)
            if dialect is not None:
                origins[local] = dialect
    return aliases


def _module_assignments(document: Document) -> Iterator[Node]:
    for statement in document.root.children:
        if statement.type == "expression_statement":
            yield from (n for n in statement.named_children if n.type == "assignment")


def _bindings(document: Document, node: Node) -> Iterator[tuple[str, str]]:
    """(local name, absolute path) pairs of one import statement."""
    if node.type == "import_statement":
        for name in node.children_by_field_name("name"):
            path, alias = _import_name(document, name)
            if alias is not None:
                yield alias, path
            else:
                head = path.partition(".")[0]
                yield head, head
                if path_dialect(path) is not None and head != path:
                    yield path, path
        return
    module_node = node.child_by_field_name("module_name")
    if module_node is None:
        return
    module = document.node_text(module_node)
    if any(child.type == "wildcard_import" for child in node.children):
        yield "*", module
    for name in node.children_by_field_name("name"):
        path, alias = _import_name(document, name)
        yield alias or path, f"{module}.{path}"


def _import_name(document: Document, node: Node) -> tuple[str, str | None]:
    if node.type == "aliased_import":
        name, alias = node.child_by_field_name("name"), node.child_by_field_name("alias")
        path = document.node_text(name) if name is not None else ""
        return path, document.node_text(alias) if alias is not None else None
    return document.node_text(node), None


def dotted_name(document: Document, node: Node) -> str | None:
    """``a.b.c`` as text, or None for any other expression."""
    parts: list[str] = []
    current: Node | None = node
    while current is not None and current.type == "attribute":
        attribute = current.child_by_field_name("attribute")
        if attribute is None:
            return None
        parts.append(document.node_text(attribute))
        current = current.child_by_field_name("object")
    if current is None or current.type != "identifier":
        return None
    parts.append(document.node_text(current))
    return ".".join(reversed(parts))


def detect_dialect(document: Document, aliases: Aliases | None = None) -> Dialect | None:
    """The dialect of a file by its imports: the first NKI import decides; None without one."""
    found = aliases if aliases is not None else find_aliases(document)
    if found.origins:
        return next(iter(found.origins.values()))
    for star in found.stars:
        if star.partition(".")[0] in ("nl", "nisa", "nki"):
            text = document.text
            return Dialect.LEGACY if "neuronxcc.nki" in text else Dialect.CURRENT
    return None
