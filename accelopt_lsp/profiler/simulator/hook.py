"""Import hook: ``neuronxcc.nki`` and ``nki`` are the simulator, ahead of any installed SDK."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from accelopt_lsp.nki.apis import find_api
from accelopt_lsp.nki.dialects import Dialect, unavailable
from accelopt_lsp.profiler.simulator.errors import (
    NameMissing,
    SandboxViolation,
    UnsupportedByKernel,
)

ROOTS = ("nki", "neuronxcc")
_SHORT = {"language": "nl", "isa": "nisa", "typing": "nt", "compiler": "ncc"}


class StandIn(ModuleType):
    """A module of NKI; names it lacks are reported as unknown to the simulator."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        module = self.__name__
        short = _SHORT.get(module.rpartition(".")[2], module)
        known = find_api(f"{short}.{name}")
        dialect = Dialect.CURRENT if module.partition(".")[0] == "nki" else Dialect.LEGACY
        if known is not None and known.signature(dialect) is None:
            raise NameMissing(unavailable(known, dialect, None), "R104")
        raise UnsupportedByKernel(f"accelopt's simulator does not know {short}.{name}")


class StandInFinder(MetaPathFinder, Loader):
    """Finds the stand-ins by name.

    Attributes:
        closed: package that cannot be imported for now; empty for none.
    """

    def __init__(self) -> None:
        from accelopt_lsp.profiler.simulator import language_current, language_legacy

        self.modules = {**language_legacy.modules(), **language_current.modules()}
        self.closed = ""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        root = fullname.partition(".")[0]
        if self.closed and root == self.closed:
            raise SandboxViolation(f"kernel code may not import {fullname}")
        if root not in ROOTS:
            return None
        if fullname not in self.modules:
            parent, _, name = fullname.rpartition(".")
            if parent in self.modules and name in self.modules[parent]:
                return None
            raise UnsupportedImport(
                f"accelopt's simulator does not know the module {fullname}", name=fullname
            )
        return importlib.util.spec_from_loader(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__.update(self.modules[module.__name__])
        for name in self.modules:
            parent, _, child = name.rpartition(".")
            if parent == module.__name__:
                setattr(module, child, importlib.import_module(name))


class UnsupportedImport(ModuleNotFoundError):
    """A module of NKI that the simulator lacks."""


_installed: StandInFinder | None = None


def install() -> StandInFinder:
    """Serve the stand-ins from now on; modules of an SDK that are loaded already are replaced."""
    global _installed
    if _installed is None:
        _installed = StandInFinder()
    if _installed not in sys.meta_path:
        sys.meta_path.insert(0, _installed)
        for name in [n for n in sys.modules if n.partition(".")[0] in ROOTS]:
            del sys.modules[name]
    return _installed


def uninstall() -> None:
    """Stop serving them (tests)."""
    if _installed is not None and _installed in sys.meta_path:
        sys.meta_path.remove(_installed)
    for name in [n for n in sys.modules if n.partition(".")[0] in ROOTS]:
        del sys.modules[name]
