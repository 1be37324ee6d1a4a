"""Element-wise statements in one normal form, whichever dialect and API they are written in."""

from __future__ import annotations

import ast

from attrs import define, field

from accelopt_lsp.nki.dtypes import DType
from accelopt_lsp.nki.instructions import ACTIVATION_FUNCTIONS
from accelopt_lsp.rewrites.model import Access, KernelModel, Step, is_none
from accelopt_lsp.rewrites.values import ApiRef, Tensor, View, number

OPERATORS = {
    "nl.add": "add",
    "nl.subtract": "subtract",
    "nl.multiply": "multiply",
    "nl.maximum": "maximum",
    "nl.minimum": "minimum",
}
_PYTHON_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
}
COMMUTATIVE = frozenset({"add", "multiply", "maximum", "minimum"})


@define(slots=True, eq=False)
class Scalar:
    """An operand with one value per partition, or a number.

    Attributes:
        text: as written.
        node: the expression; None if made up.
        number: its value, if it is a known number.
        view: its tile, if it is one.
    """

    text: str
    node: ast.expr | None = None
    number: float | None = None
    view: View | None = None


@define(slots=True, eq=False)
class Operation:
    """One element-wise or reducing statement.

    Attributes:
        step: the statement.
        kind: ``activation``, ``scalar`` (tile with scalars), ``tensor`` (two tiles),
            ``reciprocal`` or ``reduce``.
        data: the tile that streams through.
        function: activation function, or the operator of ``tensor`` and ``reduce``.
        other: second tile of ``tensor``.
        operators: (operator, operand, reverse) of ``scalar``.
        bias, scale: of ``activation``.
        result: what it writes.
        in_place: the result goes to an existing tile (``dst=`` or ``tile[...] =``).
        extra: arguments for a sum that an activation takes in passing, as text.
    """

    step: Step
    kind: str
    data: ast.expr
    result: Access
    function: str = ""
    other: ast.expr | None = None
    operators: list[tuple[str, Scalar, bool]] = field(factory=list)
    bias: Scalar | None = None
    scale: Scalar | None = None
    in_place: bool = True
    extra: list[tuple[str, str]] = field(factory=list)

    @property
    def tensor(self) -> Tensor:
        return self.result.view.tensor

    @property
    def dtype(self) -> DType | None:
        return self.result.view.tensor.dtype

    @property
    def plain(self) -> bool:
        """An activation without scale and bias."""
        return self.bias is None and (self.scale is None or self.scale.number == 1.0)


def operations(model: KernelModel) -> list[Operation]:
    """All statements of a kernel that are understood, in program order."""
    return [o for step in model.steps if (o := normalise(model, step)) is not None]


def normalise(model: KernelModel, step: Step) -> Operation | None:
    """One statement in normal form, or None."""
    if step.opaque or step.guarded or isinstance(step.node, ast.AugAssign):
        return None
    result = _result(model, step)
    if result is None:
        return None
    access, in_place = result
    found: Operation | None = None
    if step.api is not None:
        found = _from_call(model, step, access)
    elif isinstance(step.node, ast.Assign) and isinstance(step.node.value, ast.BinOp):
        found = _from_operator(model, step, step.node.value, access)
    if found is not None:
        found.in_place = in_place
    return found


def _result(model: KernelModel, step: Step) -> tuple[Access, bool] | None:
    """The one tile that a statement writes."""
    reduce_result = step.argument("reduce_res")
    writes = [a for a in step.writes if a.node is not reduce_result]
    if len(writes) != 1:
        return None
    created = writes[0].view.tensor.step == step.index
    return writes[0], not created


def _view(model: KernelModel, node: ast.expr | None) -> View | None:
    return model.view(node)


def free_size(view: View | None) -> int | None:
    """Elements per partition."""
    if view is None or view.shape is None or None in view.shape or not view.shape:
        return None
    size = 1
    for extent in view.shape[1:]:
        size *= extent or 0
    return size


def scalar(model: KernelModel, node: ast.expr | None) -> Scalar | None:
    """A number, or a tile with one element per partition."""
    if node is None or is_none(node):
        return None
    text = model.context.source.one_line(node)
    value = model.value(node)
    found = number(value)
    if found is not None:
        return Scalar(text, node, float(found))
    if isinstance(value, View):
        return Scalar(text, node, None, value) if free_size(value) == 1 else None
    if isinstance(node, ast.Name | ast.BinOp | ast.Call | ast.UnaryOp) and not _has_tile(
        model, node
    ):
        return Scalar(text, node)
    return None


def _has_tile(model: KernelModel, node: ast.AST) -> bool:
    return any(isinstance(model.value(n), View) for n in ast.walk(node))


def _operator_name(model: KernelModel, node: ast.expr | None) -> str | None:
    value = model.value(node)
    return value.name.rpartition(".")[2] if isinstance(value, ApiRef) else None


def _flag(node: ast.expr | None) -> bool | None:
    if node is None:
        return False
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, bool) else None


def _from_call(model: KernelModel, step: Step, access: Access) -> Operation | None:
    api = step.api or ""
    short = api.rpartition(".")[2]
    if api in ("nisa.activation", "nisa.activation_reduce"):
        return _activation(model, step, access)
    if (
        api.startswith("nl.")
        and short in ACTIVATION_FUNCTIONS
        and short not in ("copy", "reciprocal")
    ):
        data = step.argument("x")
        return _unary(model, step, access, "activation", data, short)
    if api in ("nl.reciprocal", "nisa.reciprocal"):
        data = step.argument("x") if api == "nl.reciprocal" else step.argument("data")
        return _unary(model, step, access, "reciprocal", data)
    if api == "nl.negative":
        data = step.argument("x")
        found = _unary(model, step, access, "scalar", data)
        if found is not None:
            found.operators.append(("multiply", Scalar("-1.0", None, -1.0), False))
        return found
    if api == "nl.divide":
        return _division(model, step, access, step.argument("x"), step.argument("y"))
    if api in OPERATORS:
        x, y = step.argument("x"), step.argument("y")
        return _binary(model, step, access, OPERATORS[api], x, y)
    if api == "nisa.tensor_scalar":
        return _tensor_scalar(model, step, access)
    if api == "nisa.tensor_tensor":
        operator = _operator_name(model, step.argument("op"))
        first, second = step.argument("data1"), step.argument("data2")
        if operator is None or not _tile(model, first) or not _tile(model, second):
            return None
        assert first is not None
        return Operation(step, "tensor", first, access, operator, second)
    if api in ("nl.sum", "nisa.tensor_reduce"):
        return _reduction(model, step, access)
    return None


def _tile(model: KernelModel, node: ast.expr | None) -> bool:
    view = model.view(node)
    return view is not None and (view.tensor.buffer is None or view.tensor.buffer.on_chip)


def _unary(
    model: KernelModel,
    step: Step,
    access: Access,
    kind: str,
    data: ast.expr | None,
    function: str = "",
) -> Operation | None:
    if data is None or not _tile(model, data):
        return None
    return Operation(step, kind, data, access, function)


def _activation(model: KernelModel, step: Step, access: Access) -> Operation | None:
    if not is_none(step.argument("reduce_cmd")):
        return None
    function, data = _operator_name(model, step.argument("op")), step.argument("data")
    if function is None or not _tile(model, data):
        return None
    assert data is not None
    found = Operation(step, "activation", data, access, function)
    for name in ("reduce_op", "reduce_res"):
        node = step.argument(name)
        if node is not None and not is_none(node):
            found.extra.append((name, model.context.source.one_line(node)))
    bias, scale = step.argument("bias"), step.argument("scale")
    if not is_none(bias) and not _is_zero(model, bias):
        found.bias = scalar(model, bias)
        if found.bias is None:
            return None
    if not is_none(scale):
        found.scale = scalar(model, scale)
        if found.scale is None:
            return None
    return found


def _is_zero(model: KernelModel, node: ast.expr | None) -> bool:
    """A number 0, or a tile that one memset fills with 0."""
    if node is None:
        return False
    value = model.value(node)
    if number(value) is not None:
        return number(value) == 0
    if not isinstance(value, View):
        return False
    tensor = value.tensor
    if tensor.api == "nl.zeros":
        return len(model.uses(tensor)[1]) == 1
    writers = [s for s in model.uses(tensor)[1] if s.index != tensor.step or not tensor.allocation]
    return (
        len(writers) == 1
        and writers[0].api == "nisa.memset"
        and number(model.value(writers[0].argument("value"))) == 0
    )


def _binary(
    model: KernelModel,
    step: Step,
    access: Access,
    operator: str,
    x: ast.expr | None,
    y: ast.expr | None,
) -> Operation | None:
    """A tile with a scalar, or two tiles of the same size."""
    if x is None or y is None:
        return None
    first, second = model.view(x), model.view(y)
    if first is not None and second is not None:
        sizes = free_size(first), free_size(second)
        if None in sizes:
            return None
        if sizes[1] == 1 and (sizes[0] or 0) > 1:
            operand = scalar(model, y)
            assert operand is not None
            return Operation(step, "scalar", x, access, operators=[(operator, operand, False)])
        if sizes[0] == 1 and (sizes[1] or 0) > 1:
            operand = scalar(model, x)
            assert operand is not None
            return Operation(step, "scalar", y, access, operators=[(operator, operand, True)])
        same = first.shape == second.shape
        return Operation(step, "tensor", x, access, operator, y) if same else None
    if first is not None:
        operand = scalar(model, y)
        if operand is None:
            return None
        return Operation(step, "scalar", x, access, operators=[(operator, operand, False)])
    if second is not None:
        operand = scalar(model, x)
        if operand is None:
            return None
        return Operation(step, "scalar", y, access, operators=[(operator, operand, True)])
    return None


def _from_operator(
    model: KernelModel, step: Step, node: ast.BinOp, access: Access
) -> Operation | None:
    simple = (ast.Name, ast.Subscript, ast.Constant, ast.Attribute)
    if not isinstance(node.left, simple) or not isinstance(node.right, simple):
        return None
    if isinstance(node.op, ast.Div):
        return _division(model, step, access, node.left, node.right)
    operator = _PYTHON_OPERATORS.get(type(node.op))
    if operator is None:
        return None
    return _binary(model, step, access, operator, node.left, node.right)


def _division(
    model: KernelModel, step: Step, access: Access, x: ast.expr | None, y: ast.expr | None
) -> Operation | None:
    """By a number: multiplication with its inverse. By a tile of the same size: itself."""
    if x is None or y is None or not _tile(model, x):
        return None
    divisor = model.view(y)
    if divisor is not None:
        same = model.view(x).shape == divisor.shape  # type: ignore[union-attr]
        return Operation(step, "tensor", x, access, "divide", y) if same else None
    operand = scalar(model, y)
    if operand is None or not operand.number:
        return None
    by = Scalar(f"1.0 / {operand.text}", None, 1.0 / operand.number)
    return Operation(step, "scalar", x, access, operators=[("multiply", by, False)])


def _tensor_scalar(model: KernelModel, step: Step, access: Access) -> Operation | None:
    data = step.argument("data")
    if not _tile(model, data):
        return None
    assert data is not None
    found = Operation(step, "scalar", data, access)
    for position in ("0", "1"):
        node = step.argument(f"op{position}")
        if is_none(node):
            continue
        operator = _operator_name(model, node)
        operand = scalar(model, step.argument(f"operand{position}"))
        reverse = _flag(step.argument(f"reverse{position}"))
        if operator is None or operand is None or reverse is None:
            return None
        found.operators.append((operator, operand, reverse))
    return found if found.operators else None


def _reduction(model: KernelModel, step: Step, access: Access) -> Operation | None:
    """A sum over all free axes of a two-dimensional tile."""
    if step.api == "nl.sum":
        data, operator = step.argument("x"), "add"
    else:
        data = step.argument("data")
        operator = _operator_name(model, step.argument("op")) or ""
    if operator not in ("add", "sum") or _flag(step.argument("negate")) is not False:
        return None
    view = model.view(data)
    axis = step.argument("axis")
    axes = [
        model.integer(e) for e in (axis.elts if isinstance(axis, ast.Tuple | ast.List) else [axis])
    ]
    if view is None or view.shape is None or len(view.shape) != 2 or axes not in ([1], [-1]):
        return None
    assert data is not None
    return Operation(step, "reduce", data, access, "add")


def same_place(first: View, second: View) -> bool:
    """Two views name exactly the same elements."""
    if first.tensor is not second.tensor or dict(first.instance) != dict(second.instance):
        return False
    if first.region is None or second.region is None:
        return False
    if len(first.region) != len(second.region):
        return False
    return all(
        a.start == b.start and a.extent == b.extent and a.step == b.step and a.point == b.point
        for a, b in zip(first.region, second.region, strict=True)
    ) and _axis_order(first) == _axis_order(second)


def _axis_order(view: View) -> list[int]:
    """Order in which index arrays lay out the dimensions; as they stand for slices."""
    assert view.region is not None
    kept = [d for d in view.region if not d.point]
    if all(d.axis is not None and d.axis.position is not None for d in kept):
        return [d.axis.position for d in kept]  # type: ignore[union-attr, misc]
    return list(range(len(kept)))
