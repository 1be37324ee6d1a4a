"""Calls that issue instructions: binding, lowering, and writing down what is issued.

Which instructions a call issues is decided in :mod:`accelopt_lsp.nki.lowering` alone.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from math import prod
from typing import Any

from attrs import evolve

from accelopt_lsp.analysis.affine import Affine, bounds
from accelopt_lsp.analysis.machine import Machine, Record
from accelopt_lsp.analysis.masks import (
    Cut,
    cut_view,
    cuts_of,
    shortened,
    split_mask,
    trimmed,
)
from accelopt_lsp.analysis.notices import (
    notice_arguments,
    notice_mask_of_statistics,
    notice_operands,
)
from accelopt_lsp.analysis.references import as_dtype, operator_name
from accelopt_lsp.analysis.registers import Register
from accelopt_lsp.analysis.values import (
    Blocks,
    HostArray,
    IndexArray,
    ListValue,
    Mask,
    ParDim,
    Ref,
    Unknown,
    Value,
    View,
    written_out,
)
from accelopt_lsp.nki.apis import find_api
from accelopt_lsp.nki.diagnostics import Severity
from accelopt_lsp.nki.dialects import Api, BindError
from accelopt_lsp.nki.dtypes import DType
from accelopt_lsp.nki.instructions import INSTRUCTIONS
from accelopt_lsp.nki.lowering import (
    RESULT,
    Lowered,
    LoweringError,
    has_lowering,
    lower,
    retarget,
)
from accelopt_lsp.nki.masking import FULL_WIDTH, OWN_AXES
from accelopt_lsp.nki.operands import Buffer, Condition, Engine, OperandType, Pattern

SOME_NUMBER = 1.5
"""Stands for a number whose value is not known; no lowering depends on values."""
_STANDS_FOR = {"min": -1e38, "max": 1e38, "on_false_value": -3.4028234663852886e38}
"""Numbers of these parameters are limited; one that is possible stands for any other."""
_SHAPES = frozenset({"pattern", "n", "num_elem_per_idx", "num_valid_indices", "shuffle_mask"})
"""Parameters whose numbers must agree with the shapes of tiles."""
_DEFECTS = (ValueError, TypeError, KeyError, ArithmeticError, AttributeError)
"""What lowering raises on arguments that no signature foresees."""
_IGNORED = frozenset({"mask", "name", "priority"})
_MODES = frozenset({"dge_mode", "oob_mode"})
"""Arguments that decide no count: taken where they are named, else left to the default."""


def call_api(
    m: Machine,
    node: ast.AST,
    name: str,
    args: list[Value],
    kwargs: dict[str, Value],
    argument_nodes: Mapping[str | int, ast.AST] | None = None,
) -> Value:
    """Issue what one call of an NKI function issues, and give its result."""
    api = find_api(name)
    if api is None or not has_lowering(name):
        return _unsupported(m, node, name)
    try:
        bound = api.bind(m.dialect, tuple(args), kwargs)
    except BindError as error:
        return _bind_error(m, node, error)
    nodes = _nodes_by_parameter(m, api, argument_nodes or {})
    notice_arguments(m, node, api, bound, nodes)
    views = {k: v for k, v in bound.items() if isinstance(v, View)}
    mask = bound.get("mask")
    try:
        values = {k: lowering_value(k, v) for k, v in bound.items()}
    except UnknownArgument as error:
        m.unknown(f"{name}: {error}")
        return Unknown(str(error))
    if not isinstance(mask, Mask) or None in mask.terms:
        _check_bounds(m, node, views, nodes, masked=mask is not None)
        lowered = _lower(m, node, name, values)
        if isinstance(lowered, Unknown):
            return lowered
        if lowered.view_of is not None:
            return _view_result(views, lowered)
        return _record(m, node, lowered, views, nodes)
    return _masked(m, node, name, mask, values, views, nodes)


def _lower(m: Machine, node: ast.AST, name: str, values: dict[str, Any]) -> Lowered | Unknown:
    try:
        return lower(m.dialect, name, values, m.target)
    except LoweringError as error:
        return _lowering_error(m, node, name, error)
    except _DEFECTS as error:
        m.unknown(f"{name}: {error}")
        return Unknown(f"{name}: {error}")


def _masked(
    m: Machine,
    node: ast.AST,
    name: str,
    mask: Mask,
    values: dict[str, Any],
    views: dict[str, View],
    nodes: dict[str, ast.AST],
) -> Value:
    """A call under its mask: what it works on is cut short, its result keeps its shape."""
    whole = _lower(m, node, name, values)
    if isinstance(whole, Unknown):
        return whole
    found = split_mask(mask)
    if found is None:
        if whole.result is None:
            return None
        given = whole.result
        return View.whole(m.new_storage(given.shape, given.dtype, given.buffer, kind="temporary"))
    rank, axes = found
    notice_mask_of_statistics(m, name, axes, nodes.get("mask", node))
    if name in FULL_WIDTH:
        return _record(m, node, whole, views, nodes)
    kept = trimmed(views, rank, axes)
    patterns = {k: shortened(v, rank, axes) for k, v in values.items()}
    lowered = _lower(m, node, name, {**patterns, **{k: v.operand() for k, v in kept.items()}})
    if isinstance(lowered, Unknown):
        return lowered
    if whole.result is None:
        return _record(m, node, lowered, kept, nodes)
    own = {a: b for a, b in axes.items() if a == 0} if name in OWN_AXES else axes
    cuts = cuts_of(rank, own, whole.result.shape)
    return _record(m, node, lowered, kept, nodes, whole.result, cuts)


class UnknownArgument(Exception):  # noqa: N818 - a control signal, no error
    """An argument that lowering needs is not known; the message is the reason."""


def _unsupported(m: Machine, node: ast.AST, name: str) -> Unknown:
    m.unsupported.append((m.line, name, m.times))
    m.unknown(f"{name} is not in the instruction table yet")
    return Unknown(f"the result of {name}")


def _bind_error(m: Machine, node: ast.AST, error: BindError) -> Unknown:
    text = str(error)
    sure = "missing" in text and "required" in text
    m.find("R101", text, node, Severity.ERROR if sure else Severity.WARNING)
    m.unknown(text)
    return Unknown(text)


def _lowering_error(m: Machine, node: ast.AST, name: str, error: LoweringError) -> Unknown:
    text = str(error)
    severity = Severity.ERROR if error.code in ("R024", "R027", "R068") else Severity.WARNING
    m.find(error.code, f"{name}: {text}" if not text.startswith(name) else text, node, severity)
    m.unknown(text)
    return Unknown(text)


def _nodes_by_parameter(
    m: Machine, api: Api, given: Mapping[str | int, ast.AST]
) -> dict[str, ast.AST]:
    signature = api.signature(m.dialect)
    if signature is None:
        return {}
    found: dict[str, ast.AST] = {}
    for key, node in given.items():
        if isinstance(key, str):
            found[key] = node
        elif key < len(signature.parameters):
            found[signature.parameters[key]] = node
    return found


def lowering_value(name: str, value: Value) -> Any:
    """An argument in the terms of :func:`lower`: hashable, tensors as descriptors.

    Raises:
        UnknownArgument: it is not known.
    """
    if name in _IGNORED:
        return None
    if name in _MODES:
        return value.last if isinstance(value, Ref) else None
    if isinstance(value, View):
        return value.operand()
    if isinstance(value, Unknown):
        if value.number and name not in _SHAPES:
            return _STANDS_FOR.get(name, SOME_NUMBER)
        if name == "dtype":
            raise UnknownArgument(f"data type: {value.reason}")
        raise UnknownArgument(f"{name}: {value.reason}")
    if isinstance(value, Register) and name not in _SHAPES:
        return SOME_NUMBER
    if isinstance(value, Blocks):
        raise UnknownArgument(f"{name} has block dimensions that are not indexed")
    if isinstance(value, Affine):
        return bounds(value)[0]
    if isinstance(value, ListValue):
        return tuple(lowering_value(name, v) for v in written_out(value.items))
    if isinstance(value, tuple):
        return tuple(lowering_value(name, v) for v in value)
    if isinstance(value, Ref):
        if name == "dtype":
            found = as_dtype(value)
            return found if found is not None else value.last
        return operator_name(value)
    if isinstance(value, ParDim):
        return value.size
    if name == "dtype" and isinstance(value, str):
        found = as_dtype(value)
        return found if found is not None else value
    if isinstance(value, IndexArray):
        return _pattern(value)
    if isinstance(value, Mask):
        if None in value.terms:
            raise UnknownArgument(f"{name} is a comparison that is not affine")
        return Condition(tuple([_pattern(term) for term in value.terms if term is not None]))
    if isinstance(value, HostArray):
        raise UnknownArgument(f"{name} is an index expression")
    if isinstance(value, bool | int | float | str | None | DType | Buffer | Engine):
        return value
    raise UnknownArgument(f"{name} is not analyzed")


def _pattern(index: IndexArray) -> Pattern:
    """An index expression as an operand; of loop variables in it one value stands for all."""
    return Pattern(index.shape, index.coefficients, bounds(index.base)[0])


def _check_bounds(
    m: Machine,
    node: ast.AST,
    views: Mapping[str, View],
    nodes: Mapping[str, ast.AST],
    *,
    masked: bool,
) -> None:
    """R028, only where no mask can save the access."""
    for name, view in views.items():
        if view.fault is not None and not masked:
            report_fault(m, nodes.get(name, node), view)


def report_fault(m: Machine, node: ast.AST, view: View) -> None:
    """R028 for a view that is sure to be out of bounds."""
    message = view.fault.describe(view.shape) if view.fault is not None else ""
    if message:
        m.find("R028", f"{message} of {view.storage.name or 'the tensor'}", node)


def _view_result(views: Mapping[str, View], lowered: Lowered) -> Value:
    slot = (lowered.view_of or "").partition("@")[0]
    source = views.get(slot)
    if source is None or lowered.result is None:
        return Unknown("a view of something unknown")
    shape = lowered.result.shape
    return evolve(source, shape=shape, strides=lowered.result.layout)


def _record(
    m: Machine,
    node: ast.AST,
    lowered: Lowered,
    views: dict[str, View],
    nodes: dict[str, ast.AST],
    whole: OperandType | None = None,
    cuts: tuple[Cut, ...] = (),
) -> Value:
    result: Value = None
    views = dict(views)
    notice_operands(m, node, lowered, views, nodes)
    if lowered.result is not None:
        given = whole or lowered.result
        storage = m.new_storage(given.shape, given.dtype, given.buffer, kind="temporary", node=node)
        result = View.whole(storage)
        views[RESULT] = result
        m.fresh[storage.id] = len(m.records)
    m.note(node, lowered, views, nodes, cuts=cuts)
    _touch_operands(m, lowered, views)
    return result


def _touch_operands(m: Machine, lowered: Lowered, views: Mapping[str, View]) -> None:
    read: set[str] = set()
    written: set[str] = set()
    for issue in lowered.issues:
        read.update(s.partition("@")[0] for s in issue.reads)
        written.update(s.partition("@")[0] for s in issue.writes)
    for slot in (*sorted(read), *sorted(written)):
        base, _, part = slot.rpartition(".")
        view = views.get(base) if part == "index" else views.get(slot)
        if part == "index" and view is not None:
            view = view.index
        if view is not None:
            m.touch(view, written=slot in written)


def fresh_record(m: Machine, value: Value) -> Record | None:
    """The record whose result this very tile is, if nothing else used it yet."""
    if not isinstance(value, View) or value.storage.kind != "temporary":
        return None
    index = m.fresh.get(value.storage.id)
    if index is None or index >= len(m.records):
        return None
    record = m.records[index]
    result = record.views.get(RESULT)
    return record if result is not None and result.storage is value.storage else None


def write_into(m: Machine, record: Record, destination: View, *, accumulates: bool = False) -> None:
    """Let a call that was just made write straight into ``destination``."""
    index = m.fresh[record.views[RESULT].storage.id]
    m.written.add(destination.storage.id)
    lowered = retarget(record.lowered, cut_view(destination, record.cuts).operand())
    views = {**record.views, RESULT: destination}
    m.records[index] = evolve(record, lowered=lowered, views=views, accumulates=accumulates)
    temporary = record.views[RESULT].storage
    if m.storages and m.storages[-1] is temporary:
        m.storages.pop()
    del m.fresh[temporary.id]
    m.touch(destination, written=True)


def can_write(record: Record, destination: View) -> bool:
    """Whether the instruction that makes a result can write into that tile itself."""
    result = record.lowered.result
    if result is None or not destination.on_chip:
        return False
    late = (record.views.get(name) for name in record.lowered.read_late())
    if any(v is not None and v.storage is destination.storage for v in late):
        return False
    shape = record.views[RESULT].shape
    if shape != destination.shape:
        free = destination.operand().free
        same = shape[0] == destination.shape[0] and prod(shape[1:]) == free
        if not same or record.cuts:
            return False
    if result.buffer is Buffer.PSUM:
        return destination.buffer is Buffer.PSUM
    for issue in record.lowered.issues:
        if any(slot.partition("@")[0] == RESULT for slot in issue.writes):
            spec = INSTRUCTIONS[issue.op].operand("dst")
            return spec is not None and destination.buffer in spec.buffers
    return False


def ends_in_matmul(record: Record) -> bool:
    """Whether a call's result is a true matrix product, which PSUM can add up."""
    issues = record.lowered.issues
    return bool(issues) and issues[-1].op == "nc_matmul"
