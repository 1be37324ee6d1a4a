"""Other files of a checkout: found by import, read through open buffers, parsed once.

Nothing is executed and nothing is installed: an import is a path to look for below the folders
that Python would search for a file of this checkout. What was read, and what was looked for and
is absent, is noted with digests, so that a cache can tell whether a result still holds.
"""

from __future__ import annotations

import ast
import os
import stat
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from accelopt_lsp.analysis.names import Aliases
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.tree import module_of
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.files import file_size
from accelopt_lsp.nki.python_source import parse_python
from accelopt_lsp.nki.reference.paths import canonical_path, path_dialect

Overlay = Callable[[Path], "str | None"]
"""Text of a file that is open in an editor; None where it is not."""

PRESENCE = "?"
"""Name that stands, below a folder, for whether the folder is there."""
ROOTS = "?roots"
"""Name that stands, below a folder, for where imports of its files are looked for."""
_MARKERS = ("pyproject.toml", "setup.py", "setup.cfg", ".git")
_EXTERNAL = frozenset(
    "numpy torch jax ml_dtypes scipy pytest torch_neuronx torch_xla neuronxcc nki transformers "
    "hypothesis matplotlib pandas tqdm einops triton".split()
)
"""Packages that no checkout brings along: not looked for."""
MAX_TEXTS = 1000
_PARSED_LIMIT = 600


@frozen(slots=True)
class Limits:
    """How much of a checkout one analysis may look at.

    Attributes:
        file_bytes: larger files are not read.
        modules: files that are read at most.
        ancestors: folders above a file that are searched.
    """

    file_bytes: int = 2_000_000
    modules: int = 400
    ancestors: int = 12


@frozen(slots=True, order=True)
class Dependency:
    """A file that a result rests on.

    Attributes:
        path: absolute.
        digest: SHA-256 of its text in UTF-8, in hexadecimal; None for a file that was looked
            for and is absent (or cannot be read).
    """

    path: str
    digest: str | None


def digest_of(text: str) -> str:
    """Digest of a text, as in :class:`Dependency`."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@frozen(slots=True, eq=False)
class Parsed:
    """A module's text, parsed.

    Attributes:
        tree: statements; broken ones are missing.
        aliases: imports of NKI and of other packages.
        bindings: top-level statements by the names that they bind or change, in order.
        stars: top-level ``from ... import *`` statements, in order.
        may_yield: whether some function may be a generator.
    """

    tree: ast.Module
    aliases: Aliases
    bindings: Mapping[str, tuple[int, ...]]
    stars: tuple[ast.ImportFrom, ...]
    may_yield: bool = True


@frozen(slots=True, eq=False)
class Source:
    """One file as it stands.

    Attributes:
        path: absolute.
        text: its contents.
        digest: of the text.
    """

    path: Path
    text: str
    digest: str

    @property
    def parsed(self) -> Parsed:
        """Its statements; parsed once per content in this process. Never raises."""
        found = _PARSED.get(self.digest)
        if found is None:
            found = parse_module(_tree_of(self.text), may_yield="yield" in self.text)
            _PARSED[self.digest] = found
            while len(_PARSED) > _PARSED_LIMIT:
                _PARSED.popitem(last=False)
        else:
            _PARSED.move_to_end(self.digest)
        return found


_PARSED: OrderedDict[str, Parsed] = OrderedDict()


def _tree_of(text: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return parse_python(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return module_of(Document.parse(text))


def parse_module(
    tree: ast.Module, aliases: Aliases | None = None, *, may_yield: bool = True
) -> Parsed:
    """What a module binds where."""
    bindings: dict[str, list[int]] = {}
    stars: list[ast.ImportFrom] = []
    functions = {
        s.name: s for s in tree.body if isinstance(s, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    for number, statement in enumerate(tree.body):
        names = [*_bound(statement, stars), *_changed_by_calls(statement, functions)]
        for name in dict.fromkeys(names):
            bindings.setdefault(name, []).append(number)
    return Parsed(
        tree,
        aliases if aliases is not None else aliases_of_tree(tree),
        {name: tuple(numbers) for name, numbers in bindings.items()},
        tuple(stars),
        may_yield,
    )


def _bound(node: ast.stmt, stars: list[ast.ImportFrom]) -> Iterator[str]:
    """Names that a top-level statement binds or changes in place."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0]
    elif isinstance(node, ast.ImportFrom):
        if any(alias.name == "*" for alias in node.names):
            stars.append(node)
        for alias in node.names:
            yield alias.asname or alias.name
    elif isinstance(node, ast.If | ast.For | ast.While | ast.With | ast.Try):
        if isinstance(node, ast.For):
            yield from _targets(node.target)
        blocks = [node.body, getattr(node, "orelse", []), getattr(node, "finalbody", [])]
        blocks += [handler.body for handler in getattr(node, "handlers", [])]
        for block in blocks:
            for inner in block:
                yield from _bound(inner, stars)
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _targets(target)
    elif isinstance(node, ast.AnnAssign | ast.AugAssign):
        yield from _targets(node.target)
    if isinstance(node, ast.Expr | ast.Assign | ast.AnnAssign | ast.AugAssign):
        yield from _changed(node)


def _targets(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Tuple | ast.List):
        for element in node.elts:
            yield from _targets(element)
    elif isinstance(node, ast.Starred | ast.Subscript | ast.Attribute):
        yield from _targets(node.value)


CHANGING = frozenset(
    "append extend insert pop popitem remove clear sort reverse update setdefault add "
    "discard".split()
)


def _changed(node: ast.stmt) -> Iterator[str]:
    """``TABLE.update(...)`` and the like change a name."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            if call.func.attr in CHANGING:
                yield from _targets(call.func.value)


def _changed_by_calls(node: ast.stmt, functions: Mapping[str, ast.stmt]) -> Iterator[str]:
    """What a top-level statement changes by calling the module's own functions.

    Decorators are such calls. A statement that is a call may change its arguments too.
    """
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        roots: list[ast.AST] = list(node.decorator_list)
        callees = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    else:
        roots = [node]
        callees = []
    for root in roots:
        for call in ast.walk(root):
            if isinstance(call, ast.Call):
                callees.append(call.func)
                if isinstance(node, ast.Expr):
                    for argument in call.args:
                        yield from _targets(argument)
    for callee in callees:
        function = functions.get(callee.id) if isinstance(callee, ast.Name) else None
        for inner in ast.walk(function) if function is not None else ():
            if isinstance(inner, ast.Global):
                yield from inner.names
            elif isinstance(inner, ast.Assign):
                for target in inner.targets:
                    if isinstance(target, ast.Subscript | ast.Attribute):
                        yield from _targets(target)
            elif isinstance(inner, ast.AugAssign) and not isinstance(inner.target, ast.Name):
                yield from _targets(inner.target)
            if isinstance(inner, ast.Expr | ast.Assign | ast.AnnAssign | ast.AugAssign):
                yield from _changed(inner)


def aliases_of_tree(tree: ast.Module) -> Aliases:
    """What :func:`find_aliases` finds, from CPython's tree: for files that are only imported."""
    table: dict[str, str] = {}
    origins: dict[str, Dialect] = {}
    stars: list[str] = []
    for node in _statements(tree.body):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        for local, path in _imported(node):
            if local == "*":
                stars.append(canonical_path(path))
            elif local not in table:
                table[local] = canonical_path(path)
                dialect = path_dialect(path)
                if dialect is not None:
                    origins[local] = dialect
    aliases = Aliases(table, origins, tuple(stars))
    for statement in tree.body:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target = statement.targets[0]
        if not isinstance(target, ast.Name) or target.id in table:
            continue
        if isinstance(statement.value, ast.Name | ast.Attribute):
            name = ast.unparse(statement.value)
            canonical = aliases.canonical(name) if name.replace(".", "").isidentifier() else None
            if canonical is not None:
                table[target.id] = canonical
                dialect = aliases.dialect_of(name)
                if dialect is not None:
                    origins[target.id] = dialect
    return aliases


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """(local name, path) pairs of one import statement."""
    if isinstance(node, ast.ImportFrom):
        module = "." * node.level + (node.module or "")
        for alias in node.names:
            if alias.name == "*":
                yield "*", module
            else:
                yield alias.asname or alias.name, f"{module}.{alias.name}"
        return
    for alias in node.names:
        if alias.asname is not None:
            yield alias.asname, alias.name
        else:
            head = alias.name.partition(".")[0]
            yield head, head
            if path_dialect(alias.name) is not None and head != alias.name:
                yield alias.name, alias.name


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements in the order of the text."""
    for node in body:
        yield node
        for name in ("body", "orelse", "handlers", "finalbody"):
            inner = getattr(node, name, None)
            if isinstance(inner, list):
                yield from _statements(inner)


@define(slots=True, eq=False)
class Workspace:
    """The files that analyses may look at, with what is known of them.

    One workspace serves many analyses. What it knows of the disk it keeps until
    :meth:`refresh`; text of open buffers comes from ``overlay`` and wins.

    Attributes:
        overlay: open buffers.
        limits: how much is read.
        evaluated: evaluated modules by (path, target, dialect), kept while nothing that they
            rest on changes.
        looked_up: what else was found out about files, until the next :meth:`refresh`.
        revision: counts the times at which files were found to have changed.
    """

    overlay: Overlay | None = None
    limits: Limits = Limits()
    evaluated: dict[Any, Any] = field(factory=dict)
    looked_up: dict[Any, Any] = field(factory=dict)
    revision: int = 0
    _sources: dict[Path, Source | None] = field(factory=dict)
    _stamps: dict[Path, Stamp | None] = field(factory=dict)
    _texts: dict[Path, tuple[Stamp | None, str | None]] = field(factory=dict)
    _roots: dict[Path, tuple[Path, ...]] = field(factory=dict)

    def refresh(self) -> None:
        """Look again at every file that is known, and forget what changed."""
        self.looked_up.clear()
        self._roots.clear()
        changed: set[str] = set()
        for path, source in list(self._sources.items()):
            stamp = _stamp(path)
            text = self.overlay(path) if self.overlay is not None else None
            same = stamp == self._stamps.get(path) if text is None else False
            if text is not None and source is not None and text == source.text:
                same = True
            if not same:
                del self._sources[path]
                self._stamps.pop(path, None)
                now = self.source(path)
                if (now.digest if now else None) != (source.digest if source else None):
                    changed.add(str(path))
                    if source is not None:
                        _PARSED.pop(source.digest, None)  # hardly comes back
        if changed:
            self.revision += 1
            for key, module in list(self.evaluated.items()):
                if (
                    any(d.path in changed for d in module.dependencies())
                    or str(module.path) in changed
                ):
                    del self.evaluated[key]

    def source(self, path: Path) -> Source | None:
        """A file's text, or None if it is absent, too large or no text. Never raises."""
        if path in self._sources:
            return self._sources[path]
        text = self.overlay(path) if self.overlay is not None else None
        if text is None:
            self._stamps[path] = _stamp(path)
            known = sum(
                s is not None and s.path.name not in (PRESENCE, ROOTS)
                for s in self._sources.values()
            )
            if self._stamps[path] is not None and known < self.limits.modules:
                text = read_text(path, self.limits.file_bytes)
        found = None if text is None else Source(path, text, digest_of(text))
        self._sources[path] = found
        return found

    def text(self, path: Path, limit: int) -> str | None:
        """A file's text as it is now: of the open buffer, else of the disk.

        Other than :meth:`source`, it does not count as one of the modules that are known.

        Args:
            limit: bytes; a larger file is not read.
        """
        text = self.overlay(path) if self.overlay is not None else None
        if text is not None:
            return text
        stamp = _stamp(path)
        known = self._texts.get(path)
        if known is None or known[0] != stamp:
            if len(self._texts) >= MAX_TEXTS:
                self._texts.clear()
            known = self._texts[path] = stamp, read_text(path, limit)
        return known[1]

    def project(self, path: Path) -> Path:
        """The project's folder by its ``pyproject.toml`` and the like, else the file's own."""
        for ancestor in path.parents[: self.limits.ancestors]:
            if any((ancestor / marker).exists() for marker in _MARKERS):
                return ancestor
        return path.parent

    def locate(
        self, importer: Path, level: int, dotted: str, probed: dict[str, str | None]
    ) -> Path | None:
        """The file of a module, as seen from another one.

        Args:
            importer: absolute path of the file that imports.
            level: dots of a relative import; 0 is an absolute one.
            dotted: path after the dots; empty for ``from . import x``.
            probed: takes what was looked for: path to digest, None for what is absent.

        Returns:
            A file, or a folder without ``__init__.py`` (a namespace package); None if there
            is no such module in the checkout.
        """
        parts = [p for p in dotted.split(".") if p]
        if level:
            base = importer.parent
            for _ in range(level - 1):
                base = base.parent
            return self._below(base, parts, probed)
        if not parts or parts[0] in _EXTERNAL or parts[0] in sys.stdlib_module_names:
            return None
        if path_dialect(dotted) is not None:
            return None
        self._exists(importer.parent / ROOTS, probed)
        for root in self.roots(importer):
            found = self._below(root, parts, probed)
            if found is not None:
                return found
        return None

    def _below(self, base: Path, parts: list[str], probed: dict[str, str | None]) -> Path | None:
        place = base
        for number, part in enumerate(parts):
            last = number == len(parts) - 1
            folder = place / part
            file = place / f"{part}.py"
            if last:
                if self._exists(folder / "__init__.py", probed):
                    return folder / "__init__.py"
                if self._exists(file, probed):
                    return file
            if not self._exists(folder / PRESENCE, probed):
                return None
            place = folder
        init = place / "__init__.py"
        return init if self._exists(init, probed) else place

    def _exists(self, path: Path, probed: dict[str, str | None]) -> bool:
        source = self.source(path)
        probed[str(path)] = source.digest if source is not None else None
        return source is not None

    def roots(self, importer: Path) -> tuple[Path, ...]:
        """Folders in which absolute imports of a file are looked for, the likeliest first.

        The folder around its outermost package, its own folder, and the folders above it up
        to the project's (by ``pyproject.toml`` and the like), each also with ``src``.
        """
        folder = importer.parent
        found = self._roots.get(folder)
        if found is None:
            found = self._roots[folder] = _roots_of(folder, self.limits.ancestors)
        return found


def _roots_of(folder: Path, ancestors_read: int = Limits().ancestors) -> tuple[Path, ...]:
    package = folder
    steps = 0
    while (package / "__init__.py").is_file() and steps < ancestors_read:
        package, steps = package.parent, steps + 1
    ancestors: list[Path] = []
    project: Path | None = None
    for ancestor in (folder, *folder.parents)[:ancestors_read]:
        ancestors.append(ancestor)
        if any((ancestor / marker).exists() for marker in _MARKERS):
            project = ancestor
            break
    # A package inside a package may itself be what is installed.
    inside = [a for a in (folder, *folder.parents)[:ancestors_read] if package in a.parents]
    listed = [package, folder, *inside]
    if project is not None:
        listed += [*ancestors, *(a / "src" for a in ancestors if (a / "src").is_dir())]
    return tuple(dict.fromkeys(listed))


Stamp = tuple[int, ...]
"""What of a file's status tells versions apart."""


def _stamp(path: Path) -> Stamp | None:
    if path.name == ROOTS:
        return (hash(_roots_of(path.parent)),)
    try:
        status = os.stat(path.parent if path.name == PRESENCE else path)
    except (OSError, ValueError):
        return None
    if path.name == PRESENCE:
        return (1,) if stat.S_ISDIR(status.st_mode) else None
    # Copies and checkouts may keep the time of the last change, but not that of the inode.
    return status.st_mtime_ns, status.st_size, status.st_ctime_ns, status.st_ino


def read_text(path: Path, limit: int) -> str | None:
    """A file's text; None if it is absent, has more bytes than ``limit`` or is no text.

    For :data:`PRESENCE` in a folder that is there it is empty; for :data:`ROOTS` it is the list.
    """
    if path.name == PRESENCE:
        return "" if path.parent.is_dir() else None
    if path.name == ROOTS:
        return "\n".join(map(str, _roots_of(path.parent)))
    try:
        if file_size(path) > limit:
            return None
        return path.read_text("utf-8")
    except (OSError, ValueError):
        return None
