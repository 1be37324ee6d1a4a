"""Canonical names: ``nl.exp`` for ``nki.language.exp`` and ``neuronxcc.nki.language.exp``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from accelopt_lsp.nki.dialects import Dialect

MODULES: Mapping[str, str] = {
    "nki.language": "nl",
    "nki.isa": "nisa",
    "nki.typing": "nt",
    "nki.compiler": "ncc",
    "numpy": "np",
}
"""Modules whose names are canonical under a short one."""


@lru_cache(maxsize=10_000)
def canonical_path(path: str) -> str:
    """Canonical form of an absolute dotted path: ``neuronxcc.nki.isa.exp`` is ``nisa.exp``."""
    if path == "neuronxcc.nki" or path.startswith("neuronxcc.nki."):
        path = path.removeprefix("neuronxcc.")
    for module, short in MODULES.items():
        if path == module:
            return short
        if path.startswith(f"{module}."):
            return short + path[len(module) :]
    return path


def path_dialect(path: str) -> Dialect | None:
    """The dialect that an import of this path speaks, if it is NKI's at all."""
    if path == "neuronxcc" or path.startswith("neuronxcc."):
        return Dialect.LEGACY
    if path == "nki" or path.startswith("nki."):
        return Dialect.CURRENT
    if path.startswith("torch_neuronx") and path.endswith("nki_jit"):
        return Dialect.LEGACY
    return None


def full_path(name: str) -> str:
    """A canonical name within NKI's package: ``nki.isa.activation`` for ``nisa.activation``."""
    head, _, rest = name.partition(".")
    for module, short in MODULES.items():
        if head == short and module.startswith("nki."):
            return f"{module}.{rest}" if rest else module
    return name
