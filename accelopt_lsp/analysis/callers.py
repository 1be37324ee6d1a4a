"""Calls of a kernel: in its own file, and in tests and scripts of its project.

Of other files only those are read that name the kernel and make arrays; how many is bounded.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from hashlib import sha256
from itertools import takewhile
from pathlib import Path

from attrs import frozen

from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.tree import dotted, module_of, walk
from accelopt_lsp.analysis.workspace import Workspace, digest_of
from accelopt_lsp.nki.reference.paths import canonical_path

MAX_FILES = 400
MAX_FOLDERS = 120
MAX_BYTES = 400_000
MAX_PARSED = 12
MAX_CALLERS = 3
_ARRAYS = ("numpy", "torch", "jax", "nt.tensor")
_SKIPPED = frozenset(
    "__pycache__ node_modules build dist venv env site-packages third_party docs".split()
)
_CALLS = "calls"
_RUNNERS = ("nki.simulate_kernel", "nki.baremetal", "nki.benchmark", "nki.profile", "nki.simulate")


@frozen(slots=True, eq=False)
class Caller:
    """A call of a kernel.

    Attributes:
        document: file of the call.
        path: of that file; None for the kernel's own.
        node: the call.
        args: positional arguments of the kernel.
        keywords: named ones.
        grid: launch grid as it is written, if there is one.
    """

    document: Document
    path: Path | None
    node: ast.Call
    args: tuple[ast.expr, ...]
    keywords: tuple[ast.keyword, ...]
    grid: ast.expr | None = None


def calls_in(document: Document, names: frozenset[str], path: Path | None = None) -> list[Caller]:
    """Calls of a kernel under any of its dotted names in a file, in the order of the text."""
    calls: list[ast.Call] | None = document.cache.get(_CALLS)
    if calls is None:
        # Each kernel of a file asks.
        nodes = walk(module_of(document))
        calls = document.cache[_CALLS] = [n for n in nodes if isinstance(n, ast.Call)]
    found = []
    for node in calls:
        caller = _as_call(document, path, node, names)
        if caller is not None:
            found.append(caller)
    return sorted(found, key=lambda c: (c.node.lineno, c.node.col_offset))


def _as_call(
    document: Document, path: Path | None, node: ast.Call, names: frozenset[str]
) -> Caller | None:
    """``kernel(x)``, ``kernel[grid](x)``, ``nki.simulate_kernel(kernel, x)``, ..."""
    callee: ast.expr = node.func
    args = node.args
    if isinstance(callee, ast.Call) and len(callee.args) == 1:
        # nki.baremetal(kernel)(x), nki.benchmark(iters=10)(kernel)(x)
        runner = callee.func.func if isinstance(callee.func, ast.Call) else callee.func
        if _runs(runner):
            callee = callee.args[0]
    elif _runs(callee) and args:
        callee, args = args[0], args[1:]
    grid: ast.expr | None = None
    if isinstance(callee, ast.Subscript):
        grid = callee.slice
        callee = callee.value
    if dotted(callee) not in names:
        return None
    if any(isinstance(a, ast.Starred) for a in args):
        return None
    return Caller(document, path, node, tuple(args), tuple(node.keywords), grid)


def _runs(node: ast.expr) -> bool:
    name = dotted(node)
    return name is not None and canonical_path(name).removeprefix("neuronxcc.") in _RUNNERS


def callers_elsewhere(workspace: Workspace, path: Path, kernel: str) -> Iterator[Caller]:
    """Calls of a kernel in other files of its project, the nearest files first. Never raises."""
    path = path.absolute()
    mentions = re.compile(rf"\b{re.escape(kernel)}\b")
    files = parsed = 0
    for file, text in _project_texts(workspace, path):
        if file == path or kernel not in text or not mentions.search(text):
            continue
        if not any(word in text for word in _ARRAYS):
            continue
        parsed += 1
        if parsed > MAX_PARSED:
            return
        document = Document.parse(text)
        names = _names_of(workspace, file, document, path, kernel)
        found = calls_in(document, names, file) if names else []
        if found:
            yield from found
            files += 1
            if files >= MAX_CALLERS:
                return


def _names_of(
    workspace: Workspace, file: Path, document: Document, path: Path, kernel: str
) -> frozenset[str]:
    """Names under which a file has the kernel, by its imports."""
    names: set[str] = set()
    for node in walk(module_of(document)):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                local = alias.asname or alias.name
                if alias.name in (kernel, "*"):
                    if _is(workspace, file, node.level, node.module or "", path):
                        names.add(kernel if alias.name == "*" else local)
                else:
                    below = f"{node.module}.{alias.name}" if node.module else alias.name
                    if _is(workspace, file, node.level, below, path):
                        names.add(f"{local}.{kernel}")
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if _is(workspace, file, 0, alias.name, path):
                    names.add(f"{alias.asname or alias.name}.{kernel}")
    return frozenset(names)


def _is(workspace: Workspace, file: Path, level: int, dotted: str, path: Path) -> bool:
    """Whether an import means the kernel's file, or a package that may pass it on."""
    last = dotted.rpartition(".")[2]
    if last not in (path.stem, path.parent.name):
        return False
    found = workspace.locate(file, level, dotted, {})
    return found is not None and (found == path or found == path.with_name("__init__.py"))


def project_digest(workspace: Workspace, root: Path) -> str:
    """Digest of all texts of a project in which calls are looked for."""
    digest = sha256()
    for file, text in _texts_of(workspace, root):
        digest.update(f"{file}\0{digest_of(text)}\0".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _texts_of(workspace: Workspace, root: Path) -> tuple[tuple[Path, str], ...]:
    known: tuple[tuple[Path, str], ...] | None = workspace.looked_up.get(("texts", root))
    if known is None:
        known = workspace.looked_up["texts", root] = tuple(_read_all(workspace, root))
    return known


def _project_texts(workspace: Workspace, path: Path) -> Iterator[tuple[Path, str]]:
    """Python files around a kernel with their texts, the nearest first."""
    root = workspace.project(path)
    known = _texts_of(workspace, root)
    own = path.parent.parts

    def distance(entry: tuple[Path, str]) -> tuple[int, str]:
        parts = entry[0].parent.parts
        shared = sum(
            1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(own, parts, strict=False))
        )
        return len(own) + len(parts) - 2 * shared, str(entry[0])

    yield from sorted(known, key=distance)


def _read_all(workspace: Workspace, root: Path) -> Iterator[tuple[Path, str]]:
    files = 0
    for folders, (folder, below, names) in enumerate(os.walk(root)):
        if folders >= MAX_FOLDERS:
            return
        below[:] = sorted(b for b in below if b not in _SKIPPED and not b.startswith("."))
        for name in sorted(names):
            if not name.endswith(".py"):
                continue
            files += 1
            if files > MAX_FILES:
                return
            file = Path(folder) / name
            text = workspace.text(file, MAX_BYTES)
            if text is not None:
                yield file, text
