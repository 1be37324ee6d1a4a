"""What an abstract run writes down, its budget, and how it stops."""

from __future__ import annotations

import ast
from typing import Any

from attrs import define, frozen

from accelopt_lsp.analysis.affine import Var
from accelopt_lsp.analysis.modules import Origin
from accelopt_lsp.analysis.values import Storage, View
from accelopt_lsp.nki.diagnostics import Fix, Severity
from accelopt_lsp.nki.lowering import Lowered

MAX_STEPS = 220_000
EXTRA_STEPS = 15_000
MAX_GRANTS = 3


class OutOfSteps(Exception):  # noqa: N818 - a control signal, no error
    """The budget is used up."""


class KernelRaises(Exception):  # noqa: N818 - a control signal, no error
    """The kernel itself would raise here with these arguments."""


@frozen(slots=True, eq=False)
class Record:
    """One call that issues instructions, in one context.

    Attributes:
        line: source line.
        node: the call.
        lowered: what it issues each time.
        times: how often, over the open loops.
        loops: open loops, outermost first.
        views: tensors by slot.
        nodes: syntax of the arguments by slot, for diagnostics.
        accumulates: the destination is also read (products added up in PSUM).
        cuts: what a mask leaves of the result.
        origin: where the call stands, if in another file; then ``line`` and ``node`` are of
            the analyzed file's call that led there.
        call: the call itself, in whichever file it stands.
        doubtful: it stands behind an exit that nobody can decide.
    """

    line: int
    node: ast.AST
    lowered: Lowered
    times: int
    loops: tuple[Var, ...]
    views: dict[str, View]
    nodes: dict[str, ast.AST]
    accumulates: bool = False
    cuts: tuple[tuple[int, int, int], ...] = ()
    origin: Origin | None = None
    call: ast.AST | None = None
    doubtful: bool = False


@frozen(slots=True, eq=False)
class Access:
    """A read or write of a tensor: for lifetimes."""

    storage: Storage
    sequence: int
    loops: tuple[Var, ...]
    block: tuple[Any, ...]
    written: bool
    line: int


@frozen(slots=True, eq=False)
class LoopVisit:
    """One entry of a loop (or a part of one): its own trips and those over all open loops."""

    line: int
    end_line: int
    variable: str
    trips: int
    total: int
    entries: int


@frozen(slots=True, eq=False)
class Finding:
    """Something a rule may report: code, place and message; ``origin`` as for records."""

    code: str
    message: str
    node: ast.AST
    severity: Severity | None = None
    role: str | None = None
    origin: Origin | None = None
    fix: Fix | None = None


@define(slots=True)
class Budget:
    """Steps left; a part of the analysis that gives up gets a few more to finish coarsely."""

    steps: int = 0
    limit: int = MAX_STEPS
    grants: int = 0

    def grant(self) -> bool:
        if self.grants >= MAX_GRANTS:
            return False
        self.grants += 1
        self.limit = self.steps + min(EXTRA_STEPS, self.limit)
        return True
