"""Tensors that a kernel creates: ``nl.ndarray``, ``nl.zeros`` and their siblings."""

from __future__ import annotations

import ast
from typing import Any

from attrs import evolve

from accelopt_lsp.analysis.affine import Undecided
from accelopt_lsp.analysis.issue import call_api
from accelopt_lsp.analysis.machine import Machine
from accelopt_lsp.analysis.placing import check_creation
from accelopt_lsp.analysis.references import as_buffer, as_dtype
from accelopt_lsp.analysis.rejections import Rejected
from accelopt_lsp.analysis.tensors import size
from accelopt_lsp.analysis.values import (
    Blocks,
    HostArray,
    ListValue,
    ParDim,
    Unknown,
    Value,
    View,
)
from accelopt_lsp.nki.diagnostics import Severity
from accelopt_lsp.nki.dialects import Api, BindError, Dialect
from accelopt_lsp.nki.dtypes import FLOAT32, DType
from accelopt_lsp.nki.lowering import lower
from accelopt_lsp.nki.operands import Buffer, OperandType

_FILLS = {"nl.zeros": 0.0, "nl.ones": 1.0, "nl.zeros_like": 0.0}


def create(
    m: Machine, node: ast.AST, api: Api, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    """The tensor that a creating call returns; what fills it is issued."""
    extra = {k: v for k, v in kwargs.items() if k != "lazy_initialization"}
    try:
        bound = api.bind(m.dialect, tuple(args), extra)
    except BindError as error:
        m.find("R101", str(error), node, Severity.WARNING)
        m.unknown(str(error))
        return Unknown(str(error))
    if api.name == "nl.shared_constant":
        return _shared_constant(m, bound)
    if api.name == "nl.shared_identity_matrix":
        return _identity(m, node, bound)
    template = bound.get("a", bound.get("x"))
    dtype = _dtype(bound.get("dtype"), template)
    buffer = _buffer(bound.get("buffer"), template)
    if dtype is None or buffer is None:
        given = "data type" if dtype is None else "buffer"
        reason = f"the {given} of {api.name} is not known"
        m.unknown(reason)
        return Unknown(reason)
    try:
        shape, blocks = _shape(m, bound.get("shape"), template, buffer)
    except Undecided as why:
        m.refuse(why, node)
        m.unknown(f"{api.name}: {why}")
        return Unknown(str(why))
    storage = m.new_storage(shape, dtype, buffer, blocks=blocks, node=node)
    tensor: Value = Blocks(storage) if blocks else View.whole(storage)
    value = bound["fill_value"] if api.name == "nl.full" else _FILLS.get(api.name)
    check_creation(m, node, api.name, bound, storage, valued=value is not None)
    started = buffer is Buffer.PSUM and value == 0
    if value is not None or template is not None:
        m.written.add(storage.id)
    if value is not None and buffer.on_chip and not started:
        fill(m, node, View.whole(storage), value, storage.block_count)
    return tensor


def fill(m: Machine, node: ast.AST, view: View, value: Any, count: int = 1) -> None:
    """Issue what fills a tile with one number: a memset for each block."""
    number = value if isinstance(value, int | float) else 0.0
    name = "nisa.memset"
    operand = view.operand()
    if m.dialect is Dialect.LEGACY:
        values: dict[str, Any] = {"shape": operand.shape, "value": number, "dtype": operand.dtype}
        slot = "%result"
    else:
        values = {"dst": operand, "value": number}
        slot = "dst"
    lowered = lower(m.dialect, name, values, m.target)
    m.note(node, lowered, {slot: view}, times=m.times * count)
    m.written.add(view.storage.id)
    m.touch(view, written=True)


def _dtype(given: Value, template: Value) -> DType | None:
    if given is None:
        if isinstance(template, View):
            return template.dtype
        return template.storage.dtype if isinstance(template, Blocks) else None
    return as_dtype(given)


def _buffer(given: Value, template: Value) -> Buffer | None:
    """The memory that a buffer argument names; manual allocators name theirs too."""
    if given is None:
        if isinstance(template, View | Blocks):
            return template.storage.buffer
        return Buffer.SBUF
    return as_buffer(given)


def _shape(
    m: Machine, given: Value, template: Value, buffer: Buffer
) -> tuple[tuple[int, ...], int]:
    """Shape and number of block dimensions."""
    if given is None and isinstance(template, View | Blocks):
        return template.shape, len(template.shape) - len(template.storage.tile_shape)
    items: Any = given.items if isinstance(given, ListValue) else given
    if isinstance(items, int | ParDim):
        items = (items,)
    if isinstance(items, Unknown):
        raise Undecided(items.reason)
    if not isinstance(items, tuple | list) or not items:
        raise Undecided("a shape that is not known")
    shape = tuple(size(i) for i in items)
    blocks = next((n for n, i in enumerate(items) if isinstance(i, ParDim)), 0)
    if any(n < 1 for n in shape):
        raise Undecided(f"an empty shape {list(shape)}")
    if buffer.on_chip and len(shape) == 1:
        raise Rejected(
            "R041",
            f"a tile on chip of shape {list(shape)} has one dimension; it needs two at least: "
            f"{[*shape, 1]}",
            "shape",
            0,
        )
    return shape, blocks if buffer.on_chip else 0


def _shared_constant(m: Machine, bound: dict[str, Any]) -> Value:
    constant = bound["constant"]
    if not isinstance(constant, HostArray):
        return Unknown("the shape of this constant is not known")
    dtype = as_dtype(bound.get("dtype")) or constant.dtype or FLOAT32
    storage = m.new_storage(constant.shape, dtype, Buffer.HBM, kind="input")
    return View.whole(storage)


def _identity(m: Machine, node: ast.AST, bound: dict[str, Any]) -> Value:
    """A constant in HBM (legacy), loaded into a tile of SBUF (current)."""
    n, dtype = size(bound["n"]), as_dtype(bound["dtype"])
    if dtype is None:
        m.unknown("the data type of nl.shared_identity_matrix is not known")
        return Unknown("the data type of nl.shared_identity_matrix is not known")
    matrix = View.whole(m.new_storage((n, n), dtype, Buffer.HBM, kind="input"))
    if m.dialect is Dialect.LEGACY:
        return matrix
    tile = bound["dst"]
    if tile is None:
        tile = View.whole(m.new_storage((n, n), dtype, Buffer.SBUF, node=node))
    call_api(m, node, "nisa.dma_copy", [], {"dst": tile, "src": matrix})
    return tile


def renamed(storage_name: str, value: Value) -> Value:
    """A tensor whose storage takes its variable's name, for people."""
    storage = value.storage if isinstance(value, View | Blocks) else None
    if storage is not None and not storage.name:
        storage.name = storage_name
    return value


def operand_of(value: Value) -> OperandType | None:
    return value.operand() if isinstance(value, View) else None


__all__ = ["create", "evolve", "fill", "operand_of", "renamed"]
