"""Calls of the legacy dialect by parameter, and the current calls that replace them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from attrs import field, frozen

from accelopt_lsp.analysis.references import OPERATOR_NAMES
from accelopt_lsp.analysis.rules.migration.scan import canonical_name
from accelopt_lsp.analysis.values import ListValue, Ref, View
from accelopt_lsp.nki.apis import find_api
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.rewrites.migrate.operands import Cuts, Operand

if TYPE_CHECKING:
    from accelopt_lsp.rewrites.migrate.writer import Writer

Handler = Callable[["Writer", Operand, Operand, "LegacyCall", Cuts, bool], None]
"""Writes a call into a tile: (writer, its part under the mask, the tile, call, cuts, overwrite)."""
HANDLERS: dict[str, Handler] = {}


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Register what writes these calls into a tile."""

    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = handler
        return handler

    return register


_OPERATORS = frozenset({"op", "op0", "op1", "reduce_op", "comp_op0", "comp_op1"})
DROPPED = frozenset({"mask", "dtype", "name", "lazy_initialization"})


@frozen(slots=True, eq=False)
class LegacyCall:
    """A call with what it gives for each parameter, in the order of the text."""

    name: str
    node: ast.Call
    given: dict[str, ast.expr] = field(factory=dict)

    @property
    def short(self) -> str:
        return self.name.partition(".")[2]

    def get(self, *names: str) -> ast.expr | None:
        for name in names:
            found = self.given.get(name)
            if found is not None:
                return found
        return None


def read_call(w: Writer, node: ast.AST) -> LegacyCall | None:
    """A call of NKI; None for anything else.

    Raises:
        NotApplicable: its arguments do not fit.
    """
    if not isinstance(node, ast.Call):
        return None
    name = canonical_name(node.func, w.aliases)
    if name is None or not name.startswith(("nl.", "nisa.")):
        return None
    api = find_api(name)
    signature = api.signature(Dialect.LEGACY) if api is not None else None
    if signature is None:
        raise w.refusal(node, f"{name} is not known in the legacy dialect")
    given: dict[str, ast.expr] = {}
    for number, argument in enumerate(node.args):
        if isinstance(argument, ast.Starred) or number >= len(signature.parameters):
            return LegacyCall(name, node, {str(n): a for n, a in enumerate(node.args)})
        given[signature.parameters[number]] = argument
    for keyword in node.keywords:
        if keyword.arg is None:
            raise w.refusal(node, f"{name}(**...)")
        given[keyword.arg] = keyword.value
    return LegacyCall(name, node, given)


def argument_text(w: Writer, parameter: str, node: ast.expr, cuts: Cuts) -> str:
    """One argument of a current call."""
    value = w.obs.value(node)
    if isinstance(value, View):
        from accelopt_lsp.nki.masking import PARTITIONS_ONLY

        own = cuts.partitions_only() if parameter in PARTITIONS_ONLY else cuts
        return w.operand(node, own).text
    if isinstance(node, ast.List) and not any(w.is_tensor(e) for e in node.elts):
        if parameter in ("axis", "axes"):
            return axis_text(w, node)
    if isinstance(value, ListValue | tuple) and parameter == "axis":
        return axis_text(w, node)
    if parameter in _OPERATORS and isinstance(value, Ref):
        return operator_text(w, value)
    return w.text(node)


def operator_text(w: Writer, value: Ref) -> str:
    """An operator by the name that it has in ``nl``."""
    return f"{w.nl}.{OPERATOR_NAMES.get(value.last, value.last)}"


def axis_text(w: Writer, node: ast.expr) -> str:
    """``[1]`` as ``1``, ``[1, 2]`` as ``(1, 2)``."""
    if isinstance(node, ast.List | ast.Tuple):
        if len(node.elts) == 1:
            return w.text(node.elts[0])
        return "(" + ", ".join(w.text(e) for e in node.elts) + ")"
    return w.text(node)


def keyword_text(w: Writer, call: LegacyCall, cuts: Cuts, skip: frozenset[str]) -> list[str]:
    """Arguments by keyword, without what the current dialect does not take."""
    api = find_api(call.name)
    signature = api.signature(Dialect.CURRENT) if api is not None else None
    if signature is None:
        raise w.refusal(call.node, f"{call.name} has no counterpart in the current dialect")
    parts: list[str] = []
    for parameter, node in call.given.items():
        if parameter in skip or parameter in DROPPED:
            continue
        value = w.obs.value(node)
        if parameter == "engine" and isinstance(value, Ref):
            if value.last in ("unknown_engine", "unknown"):
                continue
        if parameter not in signature.parameters:
            if isinstance(node, ast.Constant) and node.value is None:
                continue
            raise w.refusal(node, f"{call.name} takes no {parameter}= in the current dialect")
        parts.append(f"{parameter}={argument_text(w, parameter, node, cuts)}")
    return parts
