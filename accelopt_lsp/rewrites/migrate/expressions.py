"""Expressions whose value is a tile: calls that write into a tile that is declared first."""

from __future__ import annotations

import ast
from math import prod
from typing import TYPE_CHECKING, Any

from accelopt_lsp.analysis.issue import UnknownArgument, lowering_value
from accelopt_lsp.analysis.tensors import _OPERATORS
from accelopt_lsp.analysis.values import ListValue, View
from accelopt_lsp.nki.apis import find_api
from accelopt_lsp.nki.dialects import BindError, Dialect
from accelopt_lsp.nki.dtypes import get_dtype
from accelopt_lsp.nki.instructions.operators import ACTIVATION_FUNCTIONS
from accelopt_lsp.nki.lowering import LoweringError, has_lowering, lower
from accelopt_lsp.nki.operands import Buffer, OperandType
from accelopt_lsp.rewrites.migrate.calls import (
    HANDLERS,
    LegacyCall,
    argument_text,
    axis_text,
    keyword_text,
    read_call,
)
from accelopt_lsp.rewrites.migrate.indices import reordered
from accelopt_lsp.rewrites.migrate.operands import NO_CUTS, Cuts, Operand

if TYPE_CHECKING:
    from accelopt_lsp.rewrites.migrate.writer import Writer

_DIRECT = frozenset(
    "add subtract multiply maximum minimum power equal not_equal less less_equal greater "
    "greater_equal logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor "
    "left_shift right_shift".split()
)
_REDUCTIONS = {"sum": "add", "max": "maximum", "min": "minimum", "prod": "multiply"}
_ACTIVATIONS = ACTIVATION_FUNCTIONS - {"reciprocal", "copy"}
_CREATION = frozenset({"nl.ndarray", "nl.zeros", "nl.ones", "nl.full", "nl.zeros_like"})


def operation(w: Writer, node: ast.AST) -> tuple[str, list[ast.expr]] | None:
    """A Python operator on tiles as the function that it stands for."""
    if not w.is_tensor(node):
        return None
    if isinstance(node, ast.BinOp):
        name = _OPERATORS.get(type(node.op))
        return None if name is None else (name.partition(".")[2], [node.left, node.right])
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        name = _OPERATORS.get(type(node.ops[0]))
        operands = [node.left, node.comparators[0]]
        return None if name is None else (name.partition(".")[2], operands)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return "negative", [node.operand]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        return "invert", [node.operand]
    return None


def temporary(w: Writer, node: ast.expr, cuts: Cuts) -> Operand:
    """A name for the value of an expression that is no name or slice."""
    view = w.obs.view(node)
    if view is None:
        raise w.refusal(node, f"what {w.source.one_line(node)} is is not known")
    call = read_call(w, node)
    if call is None and operation(w, node) is None:
        return Operand.of(other_text(w, node), view)
    if call is not None and call.name in ("nl.shared_constant", "nl.expand_dims"):
        return Operand.of(w.source.one_line(node), view)
    if call is not None and not cuts:
        kept = composite(w, call, view)
        if kept is not None:
            return Operand.of(kept, view)
    found = operation(w, node)
    stem = call.short if call is not None else found[0] if found is not None else "value"
    name = w.fresh(f"{stem}_tile")
    made = named(w, name, node, cuts)
    w.temporaries[id(node)] = made
    return made


def other_text(w: Writer, node: ast.expr) -> str:
    """A method or a function of the file, with its arguments in the current dialect."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        owner = node.func.value
        if isinstance(w.obs.value(owner), View):
            method = node.func.attr
            tensor = w.operand(owner)
            if method == "broadcast_to":
                sizes = node.args[0] if len(node.args) == 1 else ast.Tuple(node.args, ast.Load())
                shape = w.obs.view(node)
                assert shape is not None
                text = w.text(sizes) if len(node.args) == 1 else str(shape.shape)
                return f"{w.nl}.broadcast_to({tensor.text}, shape={text})"
            if method == "astype":
                return f"{w.nl}.copy({tensor.text}, dtype={w.text(node.args[0])})"
            arguments = ", ".join(w.text(a) for a in node.args)
            if method in ("reshape", "expand_dims", "view", "permute"):
                return f"{tensor.text}.{method}({arguments})"
            raise w.refusal(node, f"the method {method} of a tensor")
    return w.rewritten(node)


def named(w: Writer, name: str, node: ast.expr, cuts: Cuts) -> Operand:
    """``name = expression``: the current function of that name, or a declared tile."""
    view = w.obs.view(node)
    if view is None:
        raise w.refusal(node, f"what {w.source.one_line(node)} is is not known")
    result = Operand.of(name, view, name=name)
    call = read_call(w, node)
    if call is not None and not cuts:
        kept = composite(w, call, view)
        if kept is not None:
            w.emit(f"{name} = {kept}", guarded=False)
            return result
    like = _template(w, node, view)
    given = call.get("dtype") if call is not None else None
    dtype = w.dtype_text(view.dtype, like)
    if given is not None and not dtype.endswith(".dtype"):
        dtype = w.text(given)
        if isinstance(given, ast.Constant):
            dtype = w.dtype_text(view.dtype)
    w.declare(name, view.shape, dtype, view.buffer, like)
    into(w, result, node, cuts)
    return result


def _template(w: Writer, node: ast.expr, view: View) -> Operand | None:
    """A named tensor among the operands whose shape or type the result has."""
    best: Operand | None = None
    for child in ast.walk(node):
        if child is node or not isinstance(child, ast.Name):
            continue
        value = w.obs.value(child)
        if not isinstance(value, View) or value.dynamic is not None:
            continue
        parent = w.parents.get(id(child))
        if isinstance(parent, ast.Subscript) and parent.value is child:
            if value.dtype != view.dtype or best is not None:
                continue
            best = Operand(child.id, (), value.dtype, value.buffer, child.id)
            continue
        found = Operand.of(child.id, value, name=child.id)
        if value.shape == view.shape and value.dtype == view.dtype:
            return found
        if best is None and (value.dtype == view.dtype or value.shape == view.shape):
            best = found
    return best


def composite(w: Writer, call: LegacyCall, view: View) -> str | None:
    """The current function of the same name, if it gives the same kind of tile."""
    if not call.name.startswith("nl.") or call.name in _CREATION:
        return None
    if call.name == "nl.matmul":
        flag = call.get("transpose_x")
        if flag is None or w.obs.value(flag) is not True:
            return None
    api = find_api(call.name)
    old = api.signature(Dialect.LEGACY) if api is not None else None
    new = api.signature(Dialect.CURRENT) if api is not None else None
    if api is None or old is None or new is None or not has_lowering(call.name):
        return None
    names: dict[str, str] = {}
    for parameter in call.given:
        if parameter == "mask":
            continue
        target = parameter
        if parameter not in new.parameters:
            position = old.parameters.index(parameter)
            if parameter == "compute_dtype" or position >= len(new.parameters):
                return None
            target = new.parameters[position]
        names[parameter] = target
    values: dict[str, Any] = {}
    for parameter, target in names.items():
        value = w.obs.value(call.given[parameter])
        if isinstance(value, View) and value.dynamic is not None:
            return None
        try:
            values[target] = lowering_value(target, value)
        except UnknownArgument:
            return None
    extra: dict[str, Any] = {}
    result = _result(w, call.name, values)
    if result is None:
        return None
    if result.dtype != view.dtype and "dtype" in new.parameters and "dtype" not in values:
        extra["dtype"] = view.dtype
        result = _result(w, call.name, {**values, **extra})
        if result is None:
            return None
    if (result.shape, result.dtype, result.buffer) != (view.shape, view.dtype, view.buffer):
        return None
    positional = len(call.node.args)
    parts: list[str] = []
    for number, (parameter, target) in enumerate(names.items()):
        node = call.given[parameter]
        if parameter == "dtype" and isinstance(node, ast.Constant):
            text = w.dtype_text(view.dtype)
        elif parameter == "axis":
            text = axis_text(w, node)
        else:
            text = argument_text(w, target, node, NO_CUTS)
        parts.append(text if number < positional else f"{target}={text}")
    if extra:
        parts.append(f"dtype={w.dtype_text(view.dtype)}")
    return f"{w.nl}.{call.short}({', '.join(parts)})"


def _result(w: Writer, name: str, values: dict[str, Any]) -> OperandType | None:
    api = find_api(name)
    assert api is not None
    try:
        bound = api.bind(Dialect.CURRENT, (), values)
        lowered = lower(Dialect.CURRENT, name, bound, w.target)
    except (BindError, LoweringError, ValueError, TypeError, KeyError, AttributeError):
        return None
    if lowered.violations or any("no hardware form" in n for n in getattr(lowered, "notes", ())):
        return None
    return lowered.result


def into(w: Writer, dst: Operand, node: ast.expr, cuts: Cuts, *, overwrite: bool = False) -> None:
    """Write the value of an expression into a tile.

    Args:
        overwrite: the tile may hold an earlier product, which must not be added to.
    """
    target = w.sliced(dst, cuts)
    found = operation(w, node)
    if found is not None:
        function(w, target, dst, found[0], found[1], cuts, node)
        return
    call = read_call(w, node)
    if call is None:
        if w.is_tensor(node):
            copy(w, target, w.operand(node, cuts))
        elif isinstance(w.obs.value(node), int | float):
            fill(w, target, w.text(node))
        else:
            raise w.refusal(node, f"what {w.source.one_line(node)} is is not known")
        return
    handler = HANDLERS.get(call.name)
    if handler is not None:
        handler(w, target, dst, call, cuts, overwrite)
    elif call.name.startswith("nisa."):
        instruction(w, target, call, cuts)
    else:
        language_call(w, target, dst, call, cuts)


def copy(w: Writer, dst: Operand, src: Operand) -> None:
    """One tensor into another, by the DMA engines where one of them is in HBM."""
    text = src.text
    if Buffer.HBM in (dst.buffer, src.buffer):
        w.emit(f"{w.nisa}.dma_copy(dst={dst.text}, src={text})")
        return
    w.emit(f"{w.nisa}.tensor_copy(dst={dst.text}, src={stretched(src, dst.shape)})")


def stretched(operand: Operand, shape: tuple[int, ...]) -> str:
    """The operand with free axes of size 1 repeated."""
    text = operand.text
    if len(operand.shape) != len(shape):
        return text
    for axis in range(1, len(shape)):
        if operand.shape[axis] == 1 and shape[axis] > 1:
            text += f".broadcast({axis}, {shape[axis]})"
    return text


def fill(w: Writer, dst: Operand, number: str) -> None:
    if dst.dtype.is_float and number.lstrip("-").isdigit():
        number += ".0"
    if dst.buffer is Buffer.HBM:
        tile = w.fresh("fill_tile")
        w.declare(tile, dst.shape, w.dtype_text(dst.dtype), Buffer.SBUF)
        w.emit(f"{w.nisa}.memset(dst={tile}, value={number})")
        w.emit(f"{w.nisa}.dma_copy(dst={dst.text}, src={tile})")
        return
    w.emit(f"{w.nisa}.memset(dst={dst.text}, value={number})")


def in_sbuf(w: Writer, operand: Operand) -> Operand:
    """A copy in SBUF of what is in PSUM."""
    if operand.buffer is not Buffer.PSUM:
        return operand
    name = w.fresh("sbuf_tile")
    w.declare(name, operand.shape, w.dtype_text(operand.dtype), Buffer.SBUF)
    made = Operand(name, operand.shape, operand.dtype, Buffer.SBUF, name)
    w.emit(f"{w.nisa}.tensor_copy(dst={name}, src={operand.text})")
    return made


def function(
    w: Writer,
    target: Operand,
    dst: Operand,
    name: str,
    operands: list[ast.expr],
    cuts: Cuts,
    node: ast.AST,
) -> None:
    """A function of ``nl`` with one or two operands, into a tile."""
    if len(operands) == 1:
        unary(w, target, name, w.operand(operands[0], cuts), node)
        return
    left, right = operands
    tensors = [w.is_tensor(o) for o in operands]
    if all(tensors):
        two_tiles(w, target, name, w.operand(left, cuts), w.operand(right, cuts), node)
        return
    tile = w.operand(left if tensors[0] else right, cuts)
    number = w.text(right if tensors[0] else left)
    with_number(w, target, name, tile, number, reverse=not tensors[0], node=node)


def unary(w: Writer, dst: Operand, name: str, x: Operand, node: ast.AST) -> None:
    if name == "copy":
        copy(w, dst, x)
    elif name in _ACTIVATIONS:
        w.emit(f"{w.nisa}.activation(dst={dst.text}, op={w.nl}.{name}, data={x.text})")
    elif name == "reciprocal":
        w.emit(f"{w.nisa}.reciprocal(dst={dst.text}, data={x.text})")
    elif name == "negative":
        text = f"data={x.text}, op0={w.nl}.multiply, operand0=-1.0"
        w.emit(f"{w.nisa}.tensor_scalar(dst={dst.text}, {text})")
    else:
        w.emit(f"{w.nisa}.tensor_copy(dst={dst.text}, src={w.nl}.{name}({x.text}))")


def with_number(
    w: Writer,
    dst: Operand,
    name: str,
    tile: Operand,
    number: str,
    *,
    reverse: bool,
    node: ast.AST,
) -> None:
    if name == "divide" and not reverse:
        divisor = number if number.replace("_", "a").isalnum() else f"({number})"
        name, number = "multiply", f"1.0 / {divisor}"
    elif name == "divide":
        tile = inverse_of(w, tile)
        name, reverse = "multiply", False
    if name not in _DIRECT:
        order = f"{number}, {tile.text}" if reverse else f"{tile.text}, {number}"
        w.emit(f"{w.nisa}.tensor_copy(dst={dst.text}, src={w.nl}.{name}({order}))")
        return
    if name == "power":
        tile = in_sbuf(w, tile)
    tail = ", reverse0=True" if reverse and name not in ("add", "multiply") else ""
    w.emit(
        f"{w.nisa}.tensor_scalar(dst={dst.text}, data={tile.text}, op0={w.nl}.{name}, "
        f"operand0={number}{tail})"
    )


def inverse_of(w: Writer, operand: Operand) -> Operand:
    """The reciprocals of a tile."""
    narrow = operand.dtype.is_float and operand.dtype.nbytes < 4
    dtype = operand.dtype if narrow else get_dtype("float32")
    name = w.fresh("inverse")
    w.declare(name, operand.shape, w.dtype_text(dtype), Buffer.SBUF)
    made = Operand(name, operand.shape, dtype, Buffer.SBUF, name)
    part = w.like(made, operand)
    w.emit(f"{w.nisa}.reciprocal(dst={part.text}, data={operand.text})")
    return part


def two_tiles(
    w: Writer, dst: Operand, name: str, left: Operand, right: Operand, node: ast.AST
) -> None:
    if name == "divide":
        name, right = "multiply", inverse_of(w, right)
    if name not in _DIRECT:
        text = f"{w.nl}.{name}({left.text}, {right.text})"
        w.emit(f"{w.nisa}.tensor_copy(dst={dst.text}, src={text})")
        return
    left, right = spread(w, left, dst.shape), spread(w, right, dst.shape)
    if name == "power":
        left, right = in_sbuf(w, left), in_sbuf(w, right)
    op = f"{w.nl}.{name}"
    if dst.free > 1 and right.free == 1:
        w.emit(
            f"{w.nisa}.tensor_scalar(dst={dst.text}, data={stretched(left, dst.shape)}, "
            f"op0={op}, operand0={right.text})"
        )
    elif dst.free > 1 and left.free == 1:
        tail = "" if name in ("add", "multiply", "maximum", "minimum") else ", reverse0=True"
        w.emit(
            f"{w.nisa}.tensor_scalar(dst={dst.text}, data={stretched(right, dst.shape)}, "
            f"op0={op}, operand0={left.text}{tail})"
        )
    else:
        if left.buffer is Buffer.PSUM and right.buffer is Buffer.PSUM:
            right = in_sbuf(w, right)
        w.emit(
            f"{w.nisa}.tensor_tensor(dst={dst.text}, data1={stretched(left, dst.shape)}, "
            f"data2={stretched(right, dst.shape)}, op={op})"
        )


def spread(w: Writer, operand: Operand, shape: tuple[int, ...]) -> Operand:
    """The operand on as many partitions as the result."""
    if operand.partitions == shape[0] or operand.partitions != 1:
        return operand
    wanted = (shape[0], *operand.shape[1:])
    name = w.fresh("broadcast_tile")
    w.emit(f"{name} = {w.nl}.broadcast_to({operand.text}, shape={wanted})")
    return Operand(name, wanted, operand.dtype, Buffer.SBUF, name)


def instruction(w: Writer, target: Operand, call: LegacyCall, cuts: Cuts) -> None:
    """An instruction that used to return its result."""
    parts = keyword_text(w, call, cuts, frozenset({"dst"}))
    w.emit(f"{w.nisa}.{call.short}({', '.join([f'dst={target.text}', *parts])})")


def language_call(w: Writer, target: Operand, dst: Operand, call: LegacyCall, cuts: Cuts) -> None:
    """A function of ``nl`` into a tile: the instruction behind it, or a copy of its result."""
    short = call.short
    two = ("x", "y")
    if short in _DIRECT or short == "divide":
        operands = [call.given[p] for p in two if p in call.given]
        if len(operands) == 2:
            function(w, target, dst, short, operands, cuts, call.node)
            return
    if short in _ACTIVATIONS or short in ("reciprocal", "negative"):
        x = call.get("x")
        if x is not None:
            unary(w, target, short, w.operand(x, cuts), call.node)
            return
    if short in _REDUCTIONS or short == "mean":
        reduction(w, target, call, cuts)
        return
    view = w.obs.view(call.node)
    if cuts or view is None:
        raise w.refusal(call.node, f"{call.name} under a mask")
    kept = composite(w, call, view)
    if kept is None:
        raise w.refusal(call.node, f"{call.name} has no counterpart in the current dialect")
    name = w.fresh(f"{short}_tile")
    w.emit(f"{name} = {kept}")
    copy(w, target, Operand.of(name, view, name=name))


def reduction(w: Writer, target: Operand, call: LegacyCall, cuts: Cuts) -> None:
    x, axis = call.get("x"), call.get("axis")
    if x is None or axis is None:
        raise w.refusal(call.node, f"{call.name} without axis")
    axes = as_tuple(w.obs.value(axis))
    view = w.obs.view(x)
    rank = len(view.shape) if view is not None else 0
    if not all(isinstance(a, int) for a in axes):
        raise w.refusal(axis, "axes that are not known")
    wanted = sorted(a % rank for a in axes) if rank else []
    spelled = axis_text(w, axis)
    if view is not None and wanted != list(range(rank - len(wanted), rank)):
        if not isinstance(x, ast.Subscript) or cuts or call.get("keepdims") is not None:
            raise w.refusal(call.node, "a reduction over axes that are not the last ones")
        order = [*(a for a in range(rank) if a not in wanted), *wanted]
        data = Operand(reordered(w, x, order), view.shape, view.dtype, view.buffer)
        spelled = str(tuple(range(rank - len(wanted), rank)))
    else:
        data = w.operand(x, cuts)
    keep = call.get("keepdims")
    tail = f", keepdims={w.text(keep)}" if keep is not None and len(data.shape) > 2 else ""
    out = target
    if call.short == "mean":
        name = w.fresh("total")
        w.declare(name, target.shape, w.dtype_text(get_dtype("float32")), Buffer.SBUF)
        out = w.like(Operand(name, target.shape, get_dtype("float32"), Buffer.SBUF, name), target)
    op = _REDUCTIONS.get(call.short, "add")
    w.emit(
        f"{w.nisa}.tensor_reduce(dst={out.text}, op={w.nl}.{op}, data={data.text}, "
        f"axis={spelled}{tail})"
    )
    if call.short == "mean":
        count = prod(data.shape) // max(prod(target.shape), 1)
        with_number(w, target, "multiply", out, f"1.0 / {count}", reverse=False, node=call.node)


def as_tuple(value: Any) -> tuple[Any, ...]:
    if isinstance(value, ListValue):
        return tuple(value.items)
    return value if isinstance(value, tuple) else (value,)
