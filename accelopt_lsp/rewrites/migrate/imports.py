"""Imports, decorators, annotations and calls outside kernels, in the current dialect."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelopt_lsp.analysis.names import Aliases
from accelopt_lsp.analysis.rules.migration.scan import Scan, canonical_name
from accelopt_lsp.nki.apis import find_api
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.reference.paths import canonical_path
from accelopt_lsp.rewrites.source import Edit, SourceText

_PACKAGE_NAMES = frozenset({"jit", "simulate", "language", "isa", "typing", "collectives"})
_GONE = "neuronxcc.nki.compiler"
_RUNNERS = frozenset({"nki.baremetal", "nki.benchmark", "nki.profile"})


def import_edits(
    source: SourceText, tree: ast.AST, needed: frozenset[str], aliases: Aliases
) -> Iterator[Edit]:
    """Imports of ``neuronxcc.nki`` as imports of ``nki``; those that nothing provides are gone.

    Args:
        needed: ``nl`` and ``nisa``, as far as the new text uses them.
    """
    known = set(aliases.table.values())
    missing = [n for n in sorted(needed) if n not in known]
    first = True
    at_top: set[str] = set()
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        lines = _rewritten(node)
        if lines is None:
            continue
        top = node.col_offset == 0
        lines = [line for line in lines if top or line not in at_top]
        lines = [line for line in lines if line != "import nki.typing as nt" or "nt" in used]
        if top:
            at_top.update(lines)
        if first and top and missing:
            names = {"nl": "import nki.language as nl", "nisa": "import nki.isa as nisa"}
            lines = sorted([*lines, *(names[n] for n in missing)], key=_order)
            first = False
        indent = source.indent_of(node)
        text = "".join(f"{indent}{line}{source.newline}" for line in lines)
        source.check_whole_lines(node)
        start, end = source.line_range(node.lineno, node.end_lineno or node.lineno)
        yield Edit(start, end, text)


def _order(line: str) -> tuple[int, str]:
    return (0 if line == "import nki" else 1, line)


def _rewritten(node: ast.Import | ast.ImportFrom) -> list[str] | None:
    """The lines of an import; None if it has nothing to do with the legacy dialect."""
    if isinstance(node, ast.Import):
        if not any(a.name.split(".")[0] == "neuronxcc" for a in node.names):
            return None
        lines = []
        for alias in node.names:
            if alias.name == _GONE or alias.name.startswith(f"{_GONE}."):
                continue
            path = alias.name.removeprefix("neuronxcc.")
            same = alias.asname is None or alias.asname == path
            lines.append(f"import {path}" if same else f"import {path} as {alias.asname}")
        return lines
    module = node.module or ""
    if node.level:
        return None
    if module.startswith("torch_neuronx") and any(a.name == "nki_jit" for a in node.names):
        return ["import nki"]
    if module != "neuronxcc" and not module.startswith("neuronxcc."):
        return None
    if module == "neuronxcc":
        return [
            "import nki" if a.asname in (None, "nki") else f"import nki as {a.asname}"
            for a in node.names
            if a.name == "nki"
        ]
    if module == _GONE or module.startswith(f"{_GONE}."):
        return []
    short = canonical_path(module)
    kept = [a for a in node.names if _exists(short, a.name)]
    if not kept:
        return []
    path = module.removeprefix("neuronxcc.")
    if path == "nki" and len(kept) == 1 and kept[0].name in ("language", "isa", "typing"):
        name = kept[0].asname or kept[0].name
        return [f"import nki.{kept[0].name} as {name}"]
    names = ", ".join(f"{a.name} as {a.asname}" if a.asname else a.name for a in kept)
    return [f"from {path} import {names}"]


def _exists(module: str, name: str) -> bool:
    """Whether the current dialect has what a legacy import names."""
    if module == "nki":
        return name in _PACKAGE_NAMES
    if module == "nt":
        return name == "tensor"
    if name == "*":
        return True
    api = find_api(f"{module}.{name}")
    return api is None or api.signature(Dialect.CURRENT) is not None


def decorator_edits(source: SourceText, scan: Scan, aliases: Aliases) -> Iterator[Edit]:
    """``@nki.jit`` on what is launched, nothing on what a kernel calls."""
    launched = {id(f) for f in scan.functions if _is_kernel(f, aliases)}
    called = _called_names(scan)
    nki = next((k for k, v in aliases.table.items() if v == "nki"), "nki")
    for function in scan.functions:
        for decorator in function.decorator_list:
            name = _decorator_name(decorator, aliases)
            if name is None:
                continue
            part = id(function) not in launched or (function.name in called)
            gone = name == "nki.trace" or name.startswith("ncc.")
            if gone or (part and name in ("nki.jit", *_RUNNERS)):
                line = decorator.lineno
                yield source.delete_lines(line, decorator.end_lineno or line)
            elif isinstance(decorator, ast.Call) or name != "nki.jit":
                yield source.replace(decorator, f"{nki}.jit")


def _called_names(scan: Scan) -> set[str]:
    names: set[str] = set()
    own = {f.name for f in scan.functions}
    for function in scan.functions:
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                if node.func.id in own and node.func.id != function.name:
                    names.add(node.func.id)
    return names


def _decorator_name(decorator: ast.expr, aliases: Aliases) -> str | None:
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = canonical_name(node, aliases)
    if name is None:
        return None
    if name.endswith("nki_jit"):
        return "nki.nki_jit"
    if name.startswith("ncc."):
        # Switches of the old compiler.
        return name
    return name if name in ("nki.jit", "nki.trace", *_RUNNERS) else None


def _is_kernel(function: ast.AST, aliases: Aliases) -> bool:
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    names = [_decorator_name(d, aliases) for d in function.decorator_list]
    return any(name is not None and not name.startswith("ncc.") for name in names)


def annotation_edits(source: SourceText, scan: Scan, aliases: Aliases) -> Iterator[Edit]:
    """``nt.mutable_tensor`` is gone: every tensor may be written."""
    for function in scan.functions:
        for argument in (*function.args.args, *function.args.kwonlyargs):
            note = argument.annotation
            if note is None:
                continue
            names = {canonical_name(n, aliases) for n in ast.walk(note)}
            if "nt.mutable_tensor" in names:
                start, _ = source.span(argument)
                _, end = source.span(note)
                yield Edit(start, end, argument.arg)


def host_edits(source: SourceText, tree: ast.Module, aliases: Aliases) -> Iterator[Edit]:
    """``nki.simulate_kernel(kernel, ...)`` is ``nki.simulate(kernel)(...)``."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        if canonical_name(node.func, aliases) != "nki.simulate_kernel":
            continue
        first = node.args[0]
        rest = [*node.args[1:], *node.keywords]
        nki = next((k for k, v in aliases.table.items() if v == "nki"), "nki")
        head = f"{nki}.simulate({source.of(first)})("
        start, end = source.span(node)
        if rest:
            at = min(source.span(n)[0] for n in rest)
            yield Edit(start, at, head)
        else:
            yield Edit(start, end, f"{head})")
