"""Which pairs and chains of element-wise statements one instruction can do."""

from __future__ import annotations

import ast
from collections.abc import Callable

from attrs import define, field

from accelopt_lsp.nki.dtypes import FLOAT32
from accelopt_lsp.rewrites.elementwise import (
    COMMUTATIVE,
    Operation,
    Scalar,
    same_place,
)
from accelopt_lsp.rewrites.model import KernelModel, is_none
from accelopt_lsp.rewrites.values import Tensor, View

ARITHMETIC = frozenset({"add", "subtract", "multiply", "maximum", "minimum"})


@define(slots=True, eq=False)
class Fusion:
    """One instruction in place of several.

    Attributes:
        pattern: stable name.
        title: what is fused, for people.
        instruction: ``nisa`` function.
        data: tile that streams through it.
        arguments: (parameter, text) pairs in order; ``NL.x`` stands for the name of
            ``nki.language``.
        removed: statements whose work it takes over, first one first.
        final: the statement whose result it writes.
        negated: a scalar operand that needs its sign changed first, as (operand, parameter).
        sums: at the first statement's place, with this reduction's result filled in passing.
    """

    pattern: str
    title: str
    instruction: str
    data: ast.expr
    arguments: list[tuple[str, str]]
    removed: list[Operation]
    final: Operation
    negated: tuple[Scalar, str] | None = None
    sums: Operation | None = None
    tensors: list[Tensor] = field(factory=list)


class Finder:
    """Looks for fusions that end in a given statement."""

    def __init__(self, model: KernelModel, operations: list[Operation]) -> None:
        self.model = model
        self.source = model.context.source
        self.by_step = {o.step.index: o for o in operations}

    def fusions(self, final: Operation) -> list[Fusion]:
        """All that apply, the farthest-reaching first."""
        patterns: tuple[Callable[[Operation], Fusion | None], ...] = (
            self._silu,
            self._sigmoid,
            self._rsqrt,
            self._sum,
            self._bias,
            self._scale,
            self._scalar_chain,
            self._scalar_then_tensor,
        )
        return [f for p in patterns if (f := p(final)) is not None]

    def producer(self, node: ast.expr | None, reader: Operation) -> Operation | None:
        """The statement that computes exactly what ``node`` reads, for this reader alone."""
        found = self.maker(node, reader)
        if found is None:
            return None
        tensor = found.tensor
        readers = [(s, a) for s in self.model.steps for a in s.reads_of(tensor)]
        if len(readers) != 1 or readers[0][0] is not reader.step:
            return None
        if tensor.dtype is None or not tensor.dtype.is_float or self._asked_for(tensor):
            return None
        return found

    def maker(self, node: ast.expr | None, reader: Operation) -> Operation | None:
        """The one statement that computes exactly what ``node`` reads, in the same block."""
        view = self.model.view(node)
        if view is None:
            return None
        tensor = view.tensor
        writers = [
            s
            for s in self.model.uses(tensor)[1]
            if not (tensor.step == s.index and tensor.allocation)
        ]
        if len(writers) != 1:
            return None
        found = self.by_step.get(writers[0].index)
        if found is None or found.step.index >= reader.step.index or found.extra:
            return None
        if found.step.block is not reader.step.block:
            return None
        if not (same_place(found.result.view, view) or (found.result.view.whole and view.whole)):
            return None
        if not self._same_mask(found, reader) or not self._undisturbed(found, reader):
            return None
        return found

    def _asked_for(self, tensor: Tensor) -> bool:
        """The tensor's shape or type is used somewhere."""
        accessed = {
            id(n)
            for s in self.model.steps
            for a in (*s.reads, *s.writes)
            if a.view.tensor is tensor
            for n in ast.walk(a.node)
        }
        for node in ast.walk(self.model.context.function):
            if isinstance(node, ast.Name) and id(node) not in accessed:
                found = self.model.value(node)
                if isinstance(found, View) and found.tensor is tensor:
                    return True
        return False

    def _same_mask(self, first: Operation, second: Operation) -> bool:
        masks = [o.step.argument("mask") for o in (first, second)]
        texts = {None if is_none(m) or m is None else self.source.one_line(m) for m in masks}
        return len(texts) == 1

    def _undisturbed(self, first: Operation, second: Operation) -> bool:
        """Nothing that the first statement reads changes before the second one."""
        read = {a.view.tensor for a in first.step.reads}
        between = self.model.steps[first.step.index + 1 : second.step.index]
        if any(s.opaque or any(a.view.tensor in read for a in s.writes) for s in between):
            return False
        names = {n.id for n in ast.walk(first.step.node) if isinstance(n, ast.Name)}
        return not any(
            binding.lineno > first.step.node.lineno and binding.lineno < second.step.node.lineno  # type: ignore[attr-defined]
            for name in names
            if name != first.tensor.name
            for binding in self.model.bindings.get(name, ())
        )

    def _text(self, node: ast.expr) -> str:
        return self.source.one_line(node)

    def _function(self, operation: Operation) -> str:
        node = operation.step.argument("op")
        return self._text(node) if node is not None else f"NL.{operation.function}"

    def _activation_arguments(
        self, function: str, data: ast.expr, bias: Scalar | None, scale: str | None
    ) -> list[tuple[str, str]]:
        found = [("op", function), ("data", self._text(data))]
        if bias is not None:
            found.append(("bias", bias.text))
        if scale is not None:
            found.append(("scale", scale))
        return found

    def _sigmoid_of(
        self, node: ast.expr | None, reader: Operation
    ) -> tuple[ast.expr, list[Operation]] | None:
        """``x`` and the statements, if ``node`` holds sigmoid(x) computed for this reader."""
        made = self.producer(node, reader)
        if made is None:
            return None
        if made.kind == "activation" and made.function == "sigmoid" and made.plain:
            return made.data, [made]
        if made.kind == "reciprocal":
            inner = self._one_plus_exp(made.data, made)
            if inner is not None:
                return inner[0], [*inner[1], made]
        return None

    def _one_plus_exp(
        self, node: ast.expr, reader: Operation
    ) -> tuple[ast.expr, list[Operation]] | None:
        """``x`` and the statements, if ``node`` holds 1 + exp(-x)."""
        added = self.producer(node, reader)
        if added is None or added.kind != "scalar" or len(added.operators) != 1:
            return None
        operator, operand, _ = added.operators[0]
        if operator != "add" or operand.number != 1.0:
            return None
        exponent = self.producer(added.data, added)
        if exponent is None or exponent.kind != "activation" or exponent.function != "exp":
            return None
        if exponent.bias is not None or exponent.scale is None or exponent.scale.number != -1.0:
            return None
        return exponent.data, [exponent, added]

    def _silu(self, final: Operation) -> Fusion | None:
        """x * sigmoid(x), or x / (1 + exp(-x))."""
        if final.kind != "tensor" or final.function not in ("multiply", "divide"):
            return None
        if final.other is None:
            return None
        pairs = [(final.data, final.other)]
        if final.function == "multiply":
            pairs.append((final.other, final.data))
        for x, gate in pairs:
            found = (
                self._sigmoid_of(gate, final)
                if final.function == "multiply"
                else self._one_plus_exp(gate, final)
            )
            mine = self.model.view(x)
            other = self.model.view(found[0]) if found is not None else None
            if found is None or mine is None or other is None or not same_place(mine, other):
                continue
            return Fusion(
                "silu",
                "x * sigmoid(x)",
                "activation",
                x,
                self._activation_arguments("NL.silu", x, None, None),
                found[1],
                final,
            )
        return None

    def _sigmoid(self, final: Operation) -> Fusion | None:
        if final.kind != "reciprocal":
            return None
        found = self._one_plus_exp(final.data, final)
        if found is None:
            return None
        arguments = self._activation_arguments("NL.sigmoid", found[0], None, None)
        return Fusion(
            "sigmoid", "1 / (1 + exp(-x))", "activation", found[0], arguments, found[1], final
        )

    def _rsqrt(self, final: Operation) -> Fusion | None:
        """1 / sqrt(x)."""
        made = self.producer(final.data, final)
        if made is None:
            return None
        if final.kind == "reciprocal" and made.kind == "activation" and made.function == "sqrt":
            scale = made.scale.text if made.scale is not None else None
            arguments = self._activation_arguments("NL.rsqrt", made.data, made.bias, scale)
        elif (
            made.kind == "reciprocal"
            and final.kind == "activation"
            and final.function == "sqrt"
            and final.plain
            and not final.extra
        ):
            arguments = self._activation_arguments("NL.rsqrt", made.data, None, None)
        else:
            return None
        return Fusion("rsqrt", "1 / sqrt(x)", "activation", made.data, arguments, [made], final)

    def _sum(self, final: Operation) -> Fusion | None:
        """An activation and the sum of its result over the free axis."""
        if final.kind != "reduce":
            return None
        made = self.maker(final.data, final)
        if made is None or not self._sum_can_move(made, final):
            return None
        if made.kind == "activation":
            scale = made.scale.text if made.scale is not None else None
            arguments = self._activation_arguments(
                self._function(made), made.data, made.bias, scale
            )
            title = f"{made.function} and its sum"
        elif made.kind == "tensor" and made.function == "multiply" and self._is_square(made):
            arguments = self._activation_arguments("NL.square", made.data, None, None)
            title = "square and its sum"
        else:
            return None
        arguments.append(("reduce_op", "NL.add"))
        return Fusion(
            "activation-sum", title, "activation_reduce", made.data, arguments, [], made, sums=final
        )

    def _is_square(self, operation: Operation) -> bool:
        first, second = self.model.view(operation.data), self.model.view(operation.other)
        return first is not None and second is not None and same_place(first, second)

    def _sum_can_move(self, made: Operation, final: Operation) -> bool:
        """The sum's result may be written where the activation stands."""
        between = self.model.steps[made.step.index + 1 : final.step.index]
        result = final.tensor
        if result.dtype is None or not result.dtype.is_float:
            return False
        for step in between:
            if step.index == result.step and result.allocation:
                continue
            if step.reads_of(result) or step.writes_of(result):
                return False
        return not any(a.view.tensor is result for a in made.step.reads)

    def _bias(self, final: Operation) -> Fusion | None:
        """A per-partition value added or subtracted, then an activation."""
        if final.kind != "activation" or not final.plain:
            return None
        made = self.producer(final.data, final)
        if made is None or made.kind != "scalar" or len(made.operators) != 1:
            return None
        operator, operand, reverse = made.operators[0]
        if operand.view is None or operator not in ("add", "subtract"):
            return None
        dtype = operand.view.tensor.dtype
        if dtype is None or not dtype.is_float or dtype.nbytes < 2:
            return None
        if operator == "subtract" and reverse:
            arguments = self._activation_arguments(
                self._function(final), made.data, operand, "-1.0"
            )
            negated = None
        else:
            bias = operand if operator == "add" else None
            arguments = self._activation_arguments(self._function(final), made.data, bias, None)
            negated = None if operator == "add" else (operand, "bias")
        return Fusion(
            "activation-bias",
            f"{operator} and {final.function}",
            _own_name(final),
            made.data,
            [*arguments, *final.extra],
            [made],
            final,
            negated,
        )

    def _scale(self, final: Operation) -> Fusion | None:
        """A multiplication by a scalar, then an activation."""
        if final.kind != "activation":
            return None
        made = self.producer(final.data, final)
        if made is None or made.kind != "scalar" or len(made.operators) != 1:
            return None
        operator, operand, _ = made.operators[0]
        if operator != "multiply":
            return None
        if operand.view is not None and operand.view.tensor.dtype != FLOAT32:
            return None
        if final.scale is None or final.scale.number == 1.0:
            scale = operand.text
        elif final.scale.number is not None and operand.number is not None:
            scale = repr(final.scale.number * operand.number)
        else:
            return None
        arguments = self._activation_arguments(self._function(final), made.data, final.bias, scale)
        return Fusion(
            "activation-scale",
            f"multiply and {final.function}",
            _own_name(final),
            made.data,
            [*arguments, *final.extra],
            [made],
            final,
        )

    def _scalar_chain(self, final: Operation) -> Fusion | None:
        """Two operations with scalars."""
        if final.kind != "scalar" or len(final.operators) != 1:
            return None
        made = self.producer(final.data, final)
        if made is None or made.kind != "scalar" or len(made.operators) != 1:
            return None
        first, second = made.operators[0], final.operators[0]
        if not {first[0], second[0]} <= ARITHMETIC:
            return None
        arguments = [
            ("data", self._text(made.data)),
            *_operator_arguments("0", *first),
            *_operator_arguments("1", *second),
        ]
        return Fusion(
            "tensor-scalar-chain",
            f"{first[0]} and {second[0]} with scalars",
            "tensor_scalar",
            made.data,
            arguments,
            [made],
            final,
        )

    def _scalar_then_tensor(self, final: Operation) -> Fusion | None:
        """An operation with a scalar, then one with a tile."""
        if final.kind != "tensor" or final.function not in ARITHMETIC or final.other is None:
            return None
        for mine, other, reverse in (
            (final.data, final.other, False),
            (final.other, final.data, True),
        ):
            made = self.producer(mine, final)
            if made is None or made.kind != "scalar" or len(made.operators) != 1:
                continue
            first = made.operators[0]
            shapes = [self.model.view(n) for n in (made.data, other)]
            if first[0] not in ARITHMETIC or None in shapes:
                continue
            if shapes[0].shape != shapes[1].shape:  # type: ignore[union-attr]
                continue
            psum = [v for v in shapes if v is not None and v.tensor.buffer == "psum"]
            if len(psum) > 1:
                continue
            arguments = [
                ("data", self._text(made.data)),
                *_operator_arguments("0", *first),
                ("op1", f"NL.{final.function}"),
                ("operand1", self._text(other)),
            ]
            if reverse and final.function not in COMMUTATIVE:
                arguments.append(("reverse1", "True"))
            return Fusion(
                "scalar-tensor-tensor",
                f"{first[0]} with a scalar and {final.function} with a tile",
                "scalar_tensor_tensor",
                made.data,
                arguments,
                [made],
                final,
            )
        return None


def _own_name(final: Operation) -> str:
    """``activation_reduce`` where the statement already sums."""
    return "activation_reduce" if final.extra else "activation"


def _operator_arguments(
    position: str, operator: str, operand: Scalar, reverse: bool
) -> list[tuple[str, str]]:
    found = [(f"op{position}", f"NL.{operator}"), (f"operand{position}", operand.text)]
    if reverse and operator not in COMMUTATIVE:
        found.append((f"reverse{position}", "True"))
    return found
