"""Which names of a text hold tensors, as far as their assignments show."""

from __future__ import annotations

import re
from functools import lru_cache

from accelopt_lsp.nki.dialects import Role
from accelopt_lsp.nki.reference.names import TENSOR, NameKind, children, find_name
from accelopt_lsp.nki.writing.imports import Imports
from accelopt_lsp.nki.writing.scan import last_match

_ASSIGNMENT = re.compile(
    r"^[ \t]*([^\W\d]\w*)[ \t]*(?::[^=\n]+)?=[ \t]*([^\W\d][\w.]*)[ \t]*([(\[]?)", re.MULTILINE
)
_DEFINITION = re.compile(r"^[ \t]*def[ \t]+\w+[ \t]*\(([^)]*)\)?", re.MULTILINE)
_DECORATOR = re.compile(r"@([\w.]+)(?:\([^)]*\))?\s*\Z")
_CHAIN = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*)(.*)\Z", re.DOTALL)
_NO_TENSOR = frozenset(
    "nl.arange nl.par_dim nl.ds nl.program_id nl.num_programs nl.program_ndim nl.finfo nl.nc "
    "nl.spmd_dim nl.gemm_grid nl.gemm_stationary_grid nl.device_print nl.store".split()
)
VIEWS = frozenset(
    name.last
    for name in children(TENSOR)
    if name.kind is NameKind.METHOD and not name.last.startswith(("is_", "get_"))
)
"""Methods of tensors that give a tensor."""


@lru_cache(maxsize=4)
def tensor_names(code: str, imports: Imports) -> frozenset[str]:
    """Names to which the text of one function assigns tensors, and parameters of kernels.

    Args:
        code: the text, strings and comments blank, up to the place in question.
    """
    definition = last_match(_DEFINITION, code, 0, len(code))
    found: set[str] = set()
    start = 0
    if definition is not None:
        start = definition.start()
        decorator = _DECORATOR.search(code[max(0, start - 400) : start])
        path = imports.canonical(decorator[1]) if decorator is not None else None
        if path is not None and path.startswith("nki."):
            found.update(_parameters(definition[1]))
    for match in _ASSIGNMENT.finditer(code, start):
        name, source, bracket = match.groups()
        if bracket == "(" and gives_tensor(source, imports, found):
            found.add(name)
        elif bracket != "(" and source in found:
            found.add(name)
    return frozenset(found)


def _parameters(text: str) -> set[str]:
    """Parameters without a default, which are tensors in most kernels."""
    names = set()
    for part in text.split(","):
        name = part.partition(":")[0].strip()
        if "=" not in part and name.isidentifier() and name != "self":
            names.add(name)
    return names


def gives_tensor(callee: str, imports: Imports, tensors: set[str] | frozenset[str]) -> bool:
    """Whether a call of that dotted name gives a tensor."""
    path = imports.canonical(callee)
    if path is None:
        owner, _, method = callee.rpartition(".")
        return method in VIEWS and owner in tensors
    name = find_name(path)
    if name is None or name.api is None or path in _NO_TENSOR:
        return False
    if name.api.role in (Role.CREATION, Role.COMPUTE):
        return True
    return name.api.role is Role.INSTRUCTION and imports.dialect == "legacy"


def is_tensor(expression: str, code: str, imports: Imports) -> bool:
    """Whether an expression such as ``tile[0:64].reshape(...)`` is a tensor, blanks left out."""
    chain = _CHAIN.match(expression)
    if chain is None:
        return False
    head, rest = chain.groups()
    tensors = tensor_names(code, imports)
    name, _, method = head.partition(".")
    if rest.startswith("("):
        return _views(_without_bracket(rest)) and gives_tensor(head, imports, tensors)
    return name in tensors and not method and _views(rest)


def _without_bracket(text: str) -> str:
    """What follows the bracket that a text begins with."""
    depth = 0
    for at, char in enumerate(text):
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth == 0:
                return text[at + 1 :]
    return ""


def _views(trailers: str) -> bool:
    """Whether subscripts and calls of view methods are all that follows."""
    while trailers:
        if trailers.startswith("."):
            method = re.match(r"\.(\w+)(?=\()", trailers)
            if method is None or method[1] not in VIEWS:
                return False
            trailers = trailers[method.end() :]
        elif trailers[0] not in "([":
            return False
        trailers = _without_bracket(trailers)
    return True
