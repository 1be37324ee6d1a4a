"""Abstract execution of Python statements."""

from __future__ import annotations

import ast
from math import prod

from attrs import evolve

from accelopt_lsp.analysis.affine import Affine, Undecided, Var, symbol
from accelopt_lsp.analysis.calls import call_value, is_lazy
from accelopt_lsp.analysis.carried import names_set_by
from accelopt_lsp.analysis.classes import define_class, method_of, set_attribute
from accelopt_lsp.analysis.creation import fill, renamed
from accelopt_lsp.analysis.decorators import decorated
from accelopt_lsp.analysis.doubt import leaves
from accelopt_lsp.analysis.expressions import (
    SPECIAL,
    binary,
    check_condition,
    make_function,
    truth,
)
from accelopt_lsp.analysis.in_place import (
    assign_part,
    augment_in_place,
    delete_item,
    forget_changes,
    once,
)
from accelopt_lsp.analysis.issue import (
    call_api,
    can_write,
    ends_in_matmul,
    fresh_record,
    report_fault,
    write_into,
)
from accelopt_lsp.analysis.machine import (
    BREAK,
    CONTINUE,
    RETURN,
    KernelRaises,
    Machine,
    Signal,
    executes,
)
from accelopt_lsp.analysis.modules import ImportFails, ImportUnsure, catches_imports, run_import
from accelopt_lsp.analysis.sequences import MAX_ITEMS, mutable_item
from accelopt_lsp.analysis.tensors import index_parts, select, select_block
from accelopt_lsp.analysis.values import (
    SOME_KEY,
    Blocks,
    Grid,
    IndexArray,
    Instance,
    ListValue,
    Mask,
    Ref,
    Repeat,
    Unknown,
    Value,
    View,
    find_unknown,
    flat_length,
    item_at,
    type_signature,
    written_out,
)
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.lowering import RESULT
from accelopt_lsp.nki.operands import Buffer

NAMES_A_STEP = 8
"""What it costs to forget a name, in items of :meth:`Machine.charge`: eight names are a step."""
_AUGMENTED: dict[type[ast.operator], str] = {
    ast.Add: "nl.add",
    ast.Sub: "nl.subtract",
    ast.Mult: "nl.multiply",
    ast.Div: "nl.divide",
    ast.Pow: "nl.power",
    ast.Mod: "nl.mod",
    ast.BitAnd: "nl.bitwise_and",
    ast.BitOr: "nl.bitwise_or",
    ast.BitXor: "nl.bitwise_xor",
    ast.LShift: "nl.left_shift",
    ast.RShift: "nl.right_shift",
}


@executes(ast.Expr)
def _expression(m: Machine, node: ast.Expr) -> Signal | None:
    if not isinstance(node.value, ast.Constant):
        m.eval(node.value)
    return None


@executes(ast.Import, ast.ImportFrom)
def _import(m: Machine, node: ast.Import | ast.ImportFrom) -> Signal | None:
    run_import(m, node)
    return None


@executes(ast.Pass, ast.Nonlocal, ast.Global)
def _nothing(m: Machine, node: ast.stmt) -> Signal | None:
    if isinstance(node, ast.Nonlocal | ast.Global):
        m.scope.outer_names.update(node.names)
    return None


@executes(ast.Assign)
def _assign(m: Machine, node: ast.Assign) -> Signal | None:
    value = m.eval(node.value)
    if isinstance(node.value, ast.GeneratorExp | ast.Call) and is_lazy(m, node.value):
        value = Unknown("an iterator that is kept under a name")
    for target in node.targets:
        bind(m, target, value, node.value)
    return None


@executes(ast.AnnAssign)
def _annotated(m: Machine, node: ast.AnnAssign) -> Signal | None:
    if node.value is not None:
        value = m.eval(node.value)
        check_annotation(m, node, value)
        bind(m, node.target, value, node.value)
    return None


def check_annotation(m: Machine, node: ast.AnnAssign, value: Value) -> None:
    """R006: ``tile: nt.tensor[128, 512] = ...`` states another shape than the value has."""
    stated = node.annotation
    if not isinstance(stated, ast.Subscript) or not isinstance(value, View):
        return
    if m.eval(stated.value) not in (Ref("nt.tensor"), Ref("nt.mutable_tensor")):
        return
    shape = index_parts(m, stated.slice)
    if not shape or not all(isinstance(n, int) for n in shape):
        return
    # Some results (nisa.local_gather) have their free axes grouped as they are annotated.
    alike = shape[0] == value.shape[0] and prod(shape) == prod(value.shape)
    if shape != value.shape and not alike:
        text = f"shape is {list(value.shape)}, annotated is {list(shape)}"
        m.find("R006", text, stated.slice)


def bind(m: Machine, target: ast.expr, value: Value, source: ast.expr | None = None) -> None:
    """``target = value``."""
    if isinstance(target, ast.Name):
        if target.id in m.scope.outer_names:
            m.altered = True
            _assign_outer(m, target.id, value)
        m.scope.assign(target.id, renamed(target.id, value))
        if isinstance(value, View) and m.in_kernel and not m.foreign:
            m.named[m.line, target.id] = value
    elif isinstance(target, ast.Tuple | ast.List):
        _unpack(m, target, value)
    elif isinstance(target, ast.Subscript):
        _assign_item(m, target, value, source)
    elif isinstance(target, ast.Attribute):
        owner = m.eval(target.value)
        set_attribute(m, owner, target.attr, value)
    elif isinstance(target, ast.Starred):
        bind(m, target.value, value)


def _assign_outer(m: Machine, name: str, value: Value) -> None:
    """A ``nonlocal`` name: loops that call this function see it change."""
    before = m.scope.find(name)
    if type_signature(before) != type_signature(value):
        m.alone()


def _unpack(m: Machine, target: ast.Tuple | ast.List, value: Value) -> None:
    names = target.elts
    items: list[Value]
    if isinstance(value, tuple):
        items = list(value)
    elif isinstance(value, Grid):
        items = list(value.axes)
    elif isinstance(value, ListValue) and flat_length(value.items) <= 10_000:
        items = [item_at(value, i) for i in range(flat_length(value.items))]
    else:
        reason = value.reason if isinstance(value, Unknown) else "an unpacked value is not known"
        for name in names:
            bind(m, name, Unknown(reason))
        return
    star = next((i for i, n in enumerate(names) if isinstance(n, ast.Starred)), None)
    if star is not None and len(items) >= len(names) - 1:
        after = len(names) - star - 1
        middle = items[star : len(items) - after]
        items = [*items[:star], ListValue(middle, tuple(m.loops)), *items[len(items) - after :]]
    if len(items) != len(names):
        raise_in_kernel(m, target, f"cannot unpack {len(items)} values into {len(names)} names")
    for name, item in zip(names, items, strict=True):
        bind(m, name, item)


def raise_in_kernel(m: Machine, node: ast.AST, message: str) -> None:
    """The kernel raises here with these arguments.

    Raises:
        KernelRaises: always.
    """
    if not m.doubt:
        m.find("A001", message, node)
    m.unknown(message)
    raise KernelRaises(message)


def _assign_item(m: Machine, target: ast.Subscript, value: Value, source: ast.expr | None) -> None:
    inner = target.value
    owner = mutable_item(m, inner) if isinstance(inner, ast.Subscript) else m.eval(inner)
    if isinstance(owner, View | Blocks):
        try:
            parts = index_parts(m, target.slice)
            place = select(owner, parts) if isinstance(owner, View) else select_block(owner, parts)
        except Undecided as why:
            m.refuse(why, target)
            m.unknown(f"assignment to a tensor: {why}")
            return
        if isinstance(place, View):
            assign_tile(m, target, place, value, source)
        else:
            m.unknown("assignment to several blocks at once")
        return
    if isinstance(owner, IndexArray | Mask | Grid):
        m.find("R008", "an index cannot be assigned to; nisa.iota makes a tile of it", target)
    elif isinstance(owner, ListValue):
        _assign_list_item(m, owner, m.eval(target.slice), value)
    elif isinstance(owner, Instance):
        method = method_of(m, owner, "__setitem__")
        if method is None:
            raise Undecided("an item of an object that is not known is set")
        call_value(m, target, method, [m.eval(target.slice), value], {}, {})
    elif isinstance(owner, dict):
        from accelopt_lsp.analysis.expressions import hashable

        try:
            m.set_entry(owner, owner, hashable(m.eval(target.slice)), value)
        except Undecided:
            for key in (*owner, SOME_KEY):
                m.set_entry(owner, owner, key, Unknown(SOME_KEY.reason))


def _assign_list_item(m: Machine, owner: ListValue, index: Value, value: Value) -> None:
    if isinstance(index, slice):
        assign_part(m, owner, index, value)
        return
    length = flat_length(owner.items)
    whole = _only_loop_since(m, owner)
    if whole is not None and whole.trips > 1 and index == symbol(whole):
        if whole.low == 0 and whole.high == length:
            m.set_items(owner, [Repeat(whole, 0, length, (value,))])
            return
    if isinstance(index, Affine):
        m.alone(owner.loops)
    if length != len(owner.items) and length <= MAX_ITEMS:
        m.set_items(owner, written_out(owner.items))
    if isinstance(index, int) and -length <= index < length and length == len(owner.items):
        items = list(owner.items)
        items[index] = value
        m.set_items(owner, items)
    else:
        m.set_items(owner, [Unknown("a list item was replaced")] * length)


def _only_loop_since(m: Machine, owner: ListValue) -> Var | None:
    """The one loop that was opened since a list was created, if it is one."""
    since = [v for v in m.loops if v not in owner.loops]
    return since[0] if len(since) == 1 else None


def assign_tile(
    m: Machine, node: ast.AST, place: View, value: Value, source: ast.expr | None
) -> None:
    """``tile[...] = value``: in place for a call's result, a copy for another tile."""
    unknown = find_unknown(value)
    if unknown is not None:
        m.unknown(f"assignment to a tensor: {unknown.reason}")
        return
    if isinstance(value, int | float):
        fill(m, node, place, value)
        return
    if not isinstance(value, View):
        m.unknown("assignment of something that is no tile")
        return
    if value.storage is place.storage and value.offset == place.offset:
        return
    record = fresh_record(m, value)
    named = isinstance(source, ast.Name | ast.Subscript | ast.Attribute)
    if record is not None and not named and can_write(record, place):
        if place.fault is not None and not record.cuts:
            report_fault(m, node, place)
        write_into(m, record, place)
        return
    if value.storage.id in m.fresh and m.fresh[value.storage.id] == -1:
        # The result of nl.loop_reduce accumulates where it is assigned.
        del m.fresh[value.storage.id]
        m.written.add(place.storage.id)
        m.touch(place, written=True)
        return
    name = "src" if m.dialect is Dialect.LEGACY else "x"
    if value.buffer is Buffer.HBM or place.buffer is Buffer.HBM:
        call_api(m, node, "nisa.dma_copy", [], {"dst": place, "src": value})
        return
    copied = call_api(m, node, "nl.copy", [], {name: _broadcast_free(value, place)})
    record = fresh_record(m, copied)
    if record is None:
        return
    shape = record.views[RESULT].shape
    if (shape[0], prod(shape[1:])) != (place.shape[0], prod(place.shape[1:])):
        m.find("R027", f"cannot assign {list(shape)} to {list(place.shape)}", node)
        m.unknown(f"cannot assign {list(shape)} to {list(place.shape)}")
        return
    write_into(m, record, place)


def _broadcast_free(value: View, place: View) -> View:
    """A size-1 free axis of what is assigned is repeated."""
    if len(value.shape) != len(place.shape) or value.shape[0] != place.shape[0]:
        return value
    strides = list(value.strides)
    for axis in range(1, len(value.shape)):
        if value.shape[axis] == 1 and place.shape[axis] > 1:
            strides[axis] = 0
        elif value.shape[axis] != place.shape[axis]:
            return value
    return evolve(value, shape=place.shape, strides=tuple(strides))


@executes(ast.AugAssign)
def _augmented(m: Machine, node: ast.AugAssign) -> Signal | None:
    target = once(m, node.target)
    current = m.eval(target)
    if m.observer is not None and target is not node.target:
        m.observer(node.target, current)
    value = m.eval(node.value)
    if isinstance(current, View):
        augment_tile(m, node, current, value)
        return None
    if isinstance(current, ListValue | dict) and not getattr(current, "fixed", False):
        augment_in_place(m, node.op, current, value)
        return None
    if isinstance(current, Instance):
        name = f"__i{SPECIAL.get(type(node.op), '')}__"
        method = method_of(m, current, name)
        if method is not None:
            bind(m, target, call_value(m, node, method, [value], {}, {}))
            return None
    bind(m, target, binary(m, node, node.op, current, value))
    return None


def augment_tile(m: Machine, node: ast.AugAssign, place: View, value: Value) -> None:
    """``tile += value``: products add up in PSUM, everything else is computed into the tile."""
    unknown = find_unknown(value)
    if unknown is not None:
        m.unknown(f"{ast.unparse(node.target)} changes in place: {unknown.reason}")
        return
    record = fresh_record(m, value)
    adds = isinstance(node.op, ast.Add)
    if adds and record is not None and place.buffer is Buffer.PSUM and ends_in_matmul(record):
        write_into(m, record, place, accumulates=True)
        return
    name = _AUGMENTED.get(type(node.op))
    if name is None:
        m.unknown("this in-place operator on tensors is not analyzed")
        return
    record = fresh_record(m, call_api(m, node, name, [place, value], {}))
    if record is not None:
        write_into(m, record, place)


@executes(ast.If)
def _if(m: Machine, node: ast.If) -> Signal | None:
    value = m.eval(node.test)
    check_condition(m, node.test, value)
    known = truth(m, value)
    if known is None:
        reason = value.reason if isinstance(value, Unknown) else "a value only the device knows"
        m.unknown(f"condition not known: {reason}", node.lineno)
        forget(m, [*node.body, *node.orelse], "it depends on a condition that is not known")
        m.doubt = max(m.doubt, leaves((*node.body, *node.orelse)))
        return None
    return m.run(node.body if known else node.orelse)


def forget(m: Machine, body: list[ast.stmt], reason: str) -> None:
    """Names that a skipped body would have bound are unknown afterwards."""
    names = names_set_by(body)
    m.charge(len(names) * NAMES_A_STEP)
    unknown = Unknown(reason)
    for name in names:
        m.scope.assign(name, unknown)
    forget_changes(m, body, reason)


@executes(ast.Return)
def _return(m: Machine, node: ast.Return) -> Signal | None:
    if m.depth == 1:
        m.result_node = node.value or node
    return RETURN, None if node.value is None else m.eval(node.value)


@executes(ast.Break)
def _break(m: Machine, node: ast.Break) -> Signal | None:
    return BREAK, None


@executes(ast.Continue)
def _continue(m: Machine, node: ast.Continue) -> Signal | None:
    return CONTINUE, None


@executes(ast.FunctionDef, ast.AsyncFunctionDef)
def _function(m: Machine, node: ast.FunctionDef) -> Signal | None:
    m.scope.assign(node.name, decorated(m, node, make_function(m, node.name, node)))
    return None


@executes(ast.ClassDef)
def _class(m: Machine, node: ast.ClassDef) -> Signal | None:
    m.scope.assign(node.name, define_class(m, node))
    return None


@executes(ast.Assert)
def _assert(m: Machine, node: ast.Assert) -> Signal | None:
    if truth(m, m.eval(node.test)) is False:
        said = m.eval(node.msg) if node.msg is not None else None
        more = f" ({said})" if isinstance(said, str) and said else ""
        raise_in_kernel(m, node.test, f"assertion fails: {ast.unparse(node.test)}{more}")
    return None


@executes(ast.Raise)
def _raise(m: Machine, node: ast.Raise) -> Signal | None:
    text = ast.unparse(node.exc) if node.exc is not None else "an exception"
    raise_in_kernel(m, node, f"the kernel raises {text}")
    return None


@executes(ast.With, ast.AsyncWith)
def _with(m: Machine, node: ast.With) -> Signal | None:
    leave: list[Value] = []
    for item in node.items:
        value = m.eval(item.context_expr)
        if isinstance(value, Instance):
            enter, exits = method_of(m, value, "__enter__"), method_of(m, value, "__exit__")
            if enter is None or exits is None:
                raise Undecided(f"{value.cls.name} cannot be used by `with`")
            leave.append(exits)
            value = call_value(m, item.context_expr, enter, [], {}, {})
        if item.optional_vars is not None:
            bind(m, item.optional_vars, value)
    signal = m.run(node.body)
    for method in reversed(leave):
        call_value(m, node, method, [None, None, None], {}, {})
    return signal


@executes(ast.Try)
def _try(m: Machine, node: ast.Try) -> Signal | None:
    guarded = catches_imports(node.handlers)
    m.guarded_imports += guarded
    failed = raised = False
    signal: Signal | None = None
    noted = len(m.findings), len(m.unknowns)
    try:
        signal = m.run(node.body)
    except ImportFails:
        failed = True
    except ImportUnsure as why:
        m.unknown(f"whether {why} is installed is not known", node.lineno)
        forget(m, [node], f"it depends on whether {why} is installed")
        m.doubt = max(m.doubt, leaves([node]))
        raised = True
    except KernelRaises:
        if not node.handlers:
            raise
        # What comes of it is up to the handlers, which are not followed.
        del m.findings[noted[0] :]
        del m.unknowns[noted[1] :]
        m.unknown("an exception is raised and caught", node.lineno)
        forget(m, [node], "it is set where an exception is raised and caught")
        signal, raised = _caught(node), True
    finally:
        m.guarded_imports -= guarded
    if failed:
        handler = next(h for h in node.handlers if catches_imports([h]))
        signal = m.run(handler.body)
    elif signal is None and not raised:
        signal = m.run(node.orelse)
    return m.run(node.finalbody) or signal


def _caught(node: ast.Try) -> Signal | None:
    """What a ``try`` does after an exception, as far as that can be told."""
    ends = any(isinstance(s, ast.Return) for h in node.handlers for s in h.body)
    return (RETURN, Unknown("it depends on an exception that is caught")) if ends else None


@executes(ast.Delete)
def _delete(m: Machine, node: ast.Delete) -> Signal | None:
    for target in node.targets:
        if isinstance(target, ast.Name):
            m.scope.remove(target.id)
        elif isinstance(target, ast.Attribute):
            owner = m.eval(target.value)
            if not isinstance(owner, Instance) or target.attr not in owner.fields:
                raise Undecided("an attribute that is deleted")
            m.reads(owner.fields, target.attr)
            m.journal.remove(owner.fields, target.attr, owner)
        elif isinstance(target, ast.Subscript):
            delete_item(m, target)
    return None


__all__ = ["Ref", "assign_tile", "augment_tile", "bind", "forget"]
