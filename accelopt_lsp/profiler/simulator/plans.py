"""What a call issues, prepared once and repeated cheaply: lowered call, operands, numerics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import define, field, frozen

from accelopt_lsp.nki.dialects import Api, BindError, Dialect
from accelopt_lsp.nki.dtypes import DType
from accelopt_lsp.nki.instructions import INSTRUCTIONS
from accelopt_lsp.nki.lowering import RESULT, Issue, Lowered, LoweringError, lower, retarget
from accelopt_lsp.nki.operands import (
    Buffer,
    Condition,
    Number,
    OperandType,
    Pattern,
    row_major_strides,
)
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.profiler.simulator.blocks import BlockTensor
from accelopt_lsp.profiler.simulator.elements import CARRIERS, ElementType, as_dtype
from accelopt_lsp.profiler.simulator.errors import KernelRejected, UnsupportedByKernel
from accelopt_lsp.profiler.simulator.indexing import Affine
from accelopt_lsp.profiler.simulator.masks import Mask
from accelopt_lsp.profiler.simulator.numerics import (
    BINARY,
    BITWISE,
    NUMERICS,
    REDUCERS,
    UNARY,
    Numeric,
)
from accelopt_lsp.profiler.simulator.numerics.base import (
    ACCUMULATORS,
    GENERATORS,
    INTO,
    KEPT,
    MOVES,
    PARTIAL,
)
from accelopt_lsp.profiler.simulator.patterns import nested_pattern
from accelopt_lsp.profiler.simulator.tensors import Tensor
from accelopt_lsp.profiler.simulator.trace import Patterns

_NUMPY_NAMES = {
    "max": "maximum",
    "amax": "maximum",
    "min": "minimum",
    "amin": "minimum",
    "sum": "add",
    "prod": "multiply",
    "absolute": "abs",
    "true_divide": "divide",
    "float_power": "power",
    "all": "logical_and",
    "any": "logical_or",
    "bitwise_not": "invert",
    "pow": "power",
}
"""Names of functions that stand for an operator under another name."""


class Entry:
    """A public function of one dialect, with its binder at hand."""

    __slots__ = ("api", "binder", "count", "dialect", "name")

    def __init__(self, api: Api, dialect: Dialect) -> None:
        signature = api.signature(dialect)
        assert signature is not None
        self.api = api
        self.dialect = dialect
        self.name = api.name
        self.binder: Callable[..., dict[str, Any]] = signature.binder
        self.count = len(signature.parameters)

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Parameters by name.

        Raises:
            KernelRejected: the arguments do not fit the signature.
        """
        try:
            bound = self.binder(*args, **kwargs)
            if len(bound) <= self.count:
                return bound
            return self.api.bind(self.dialect, args, kwargs)
        except BindError as error:
            raise KernelRejected(str(error), "R101") from None
        except TypeError:
            pass
        try:
            return self.api.bind(self.dialect, args, kwargs)
        except BindError as error:
            raise KernelRejected(str(error), "R101") from None


@frozen(slots=True)
class Step:
    """One instruction of a call.

    Attributes:
        issue: the template.
        slots: operand slots in the issue's order.
        reads, writes: (role, position in ``slots``) pairs.
        attrs: attributes for the numerics, numbers as float32.
        numeric: what it computes.
        exact: it only moves values, between equal types.
        into_result: it writes the call's result.
        is_matmul: it is a matrix product.
        dynamic: an operand's address is known at run time only.
        moves: it moves values on chip, or reads less than its operand: what was never written
            may pass through.
        accumulators: engine whose accumulators or random numbers it uses, and its lanes; None
            for most.
        carries: it only moves elements, each to a place that is known: one that holds nothing
            makes its destination hold nothing.
        by_lane: each partition of its results depends on the same one of its operands only.
        by_element: so does each element, on that at the same place.
        partial: it says which positions it writes, and leaves others as they are.
        direct: position of its only result, in float32, which it can compute in place; -1 for
            none.
        patterns, types: as of the trace's templates.
    """

    issue: Issue
    slots: tuple[str, ...]
    reads: tuple[tuple[str, int], ...]
    writes: tuple[tuple[str, int], ...]
    attrs: Mapping[str, Any]
    numeric: Numeric
    exact: bool
    into_result: bool
    is_matmul: bool
    dynamic: bool = False
    moves: bool = False
    carries: bool = False
    by_lane: bool = False
    by_element: bool = False
    accumulators: tuple[str, slice] | None = None
    partial: bool = False
    direct: int = -1
    patterns: Patterns = ()
    types: tuple[DType, ...] = ()


@define(slots=True, eq=False)
class Plan:
    """A lowered call, ready to run.

    Attributes:
        lowered: result of lowering.
        steps: its instructions.
        simple: one instruction whose operands are the call's own tensors.
        templates: (line, accumulates) to template numbers in the trace.
        retargeted: identity of a destination's descriptor to the plan that writes into it.
        writable: memories that the result can be written to directly.
        strides: of the result, if there is one.
        late: parameters that are still read when parts of the result are written.
    """

    lowered: Lowered
    steps: tuple[Step, ...]
    simple: bool
    extra: Mapping[str, Any] = field(factory=dict)
    templates: dict[tuple[int, bool], tuple[int, ...]] = field(factory=dict)
    retargeted: dict[int, Plan] = field(factory=dict)
    writable: dict[Buffer, bool] = field(factory=dict)
    strides: tuple[int, ...] = ()
    late: tuple[str, ...] = ()

    def ends_in_matmul(self) -> bool:
        """The result is written by a matrix product, which can add it up in PSUM."""
        return (
            bool(self.steps)
            and self.steps[-1].issue.op == "nc_matmul"
            and (self.steps[-1].into_result)
        )

    def can_write(self, buffer: Buffer) -> bool:
        """Whether the instruction that makes the result can write to that memory itself."""
        found = self.writable.get(buffer)
        if found is None:
            found = self.writable[buffer] = self._can_write(buffer)
        return found

    def _can_write(self, buffer: Buffer) -> bool:
        result = self.lowered.result
        if result is None or buffer is Buffer.HBM:
            return False
        if result.buffer is Buffer.PSUM:
            return buffer is Buffer.PSUM
        for step in self.steps:
            if step.into_result:
                spec = INSTRUCTIONS[step.issue.op].operand("dst")
                return spec is not None and buffer in spec.buffers
        return False

    def into(self, destination: OperandType) -> Plan:
        """The same call writing into ``destination``.

        Raises:
            KernelRejected: the shapes differ.
        """
        found = self.retargeted.get(id(destination))
        if found is None:
            result = self.lowered.result
            assert result is not None
            if (result.partitions, result.free) != (destination.partitions, destination.free):
                raise KernelRejected(
                    f"cannot write {list(result.shape)} into {list(destination.shape)}; take equal "
                    "slices",
                    "R027",
                )
            found = make_plan(retarget(self.lowered, destination), self.extra)
            _check_destination(found)
            self.retargeted[id(destination)] = found
        return found


def _check_destination(plan: Plan) -> None:
    for step in plan.steps:
        if not step.into_result:
            continue
        spec = INSTRUCTIONS[step.issue.op]
        buffer = plan.lowered.types[RESULT].buffer
        operand = spec.operand("dst")
        if operand is not None and buffer not in operand.buffers:
            wanted = " or ".join(sorted(b.upper() for b in operand.buffers))
            raise KernelRejected(
                f"{step.issue.op}: the result must go to {wanted}, not {buffer.upper()}", "R034"
            )


def make_plan(lowered: Lowered, extra: Mapping[str, Any]) -> Plan:
    """Prepare a lowered call for running."""
    steps = tuple(_step(issue, lowered, extra) for issue in lowered.issues)
    slots = [slot for step in steps for slot in step.slots]
    simple = len(steps) == 1 and not any(
        "@" in s or "." in s or (s.startswith("%") and s != RESULT) for s in slots
    )
    result = lowered.result
    strides = () if result is None else row_major_strides(result.shape)
    late = () if simple else lowered.read_late()
    return Plan(lowered, steps, simple, extra, strides=strides, late=late)


def _step(issue: Issue, lowered: Lowered, extra: Mapping[str, Any]) -> Step:
    spec = INSTRUCTIONS[issue.op]
    reads: list[tuple[str, int]] = []
    writes: list[tuple[str, int]] = []
    into_result = False
    for position, (role, slot) in enumerate(issue.operands):
        operand = spec.operand(role)
        if operand is not None and operand.written:
            writes.append((role, position))
            into_result = into_result or slot.partition("@")[0] == RESULT
        elif role != KEPT:
            reads.append((role, position))
    attrs = {k: _number(v) for k, v in issue.attrs}
    attrs["engine"] = str(issue.engine)
    destination = next((slot for role, slot in issue.operands if role == "dst"), None)
    if destination is not None:
        attrs["dst"] = CARRIERS[lowered.types[destination].dtype.name]
    shapes = {role: lowered.types[slot] for role, slot in issue.operands}
    attrs["shapes"] = {role: (given.partitions, given.free) for role, given in shapes.items()}
    attrs.update(extra)
    exact = issue.op in MOVES
    if issue.op in ("dma_copy", "tensor_copy", "dma_transpose"):
        kinds = {lowered.types[slot].dtype for _, slot in issue.operands}
        exact = len(kinds) == 1
    return Step(
        issue=issue,
        slots=tuple(slot for _, slot in issue.operands),
        reads=tuple(reads),
        writes=tuple(writes),
        attrs=attrs,
        numeric=NUMERICS[issue.op],
        exact=exact,
        into_result=into_result,
        is_matmul=issue.op in ("nc_matmul", "nc_matmul_mx"),
        moves=_moves(issue, lowered),
        carries=_carries(issue, lowered),
        by_element=issue.op in _BY_ELEMENT and len(writes) == 1,
        by_lane=issue.op in _BY_LANE and _same_lanes(issue, lowered),
        dynamic=any(lowered.types[slot].dynamic is not None for _, slot in issue.operands),
        accumulators=_accumulators(issue, lowered),
        partial=issue.op in PARTIAL,
        direct=_direct(issue, lowered, writes),
        patterns=_patterns(issue, lowered),
        types=tuple(lowered.types[slot].dtype for _, slot in issue.operands),
    )


def _patterns(issue: Issue, lowered: Lowered) -> Patterns:
    found: list[tuple[int, tuple[tuple[int, ...], tuple[int, ...]] | None]] = []
    for position, (_, slot) in enumerate(issue.operands):
        given = lowered.types[slot]
        if given.dynamic is not None and not given.dynamic.kind.run_time:
            found.append((position, None))
        elif given.strides is not None:
            found.append((position, (given.shape, given.strides)))
    return tuple(found)


def _direct(issue: Issue, lowered: Lowered, writes: Sequence[tuple[str, int]]) -> int:
    if issue.op not in INTO or [role for role, _ in writes] != ["dst"]:
        return -1
    if _accumulators(issue, lowered) is not None:
        return -1
    _, at = writes[0]
    written = lowered.types[issue.operands[at][1]]
    return at if written.dtype.name == "float32" else -1


_MOVERS = frozenset("nc_transpose tensor_copy dma_copy dma_transpose sendrecv".split())


_BY_ELEMENT = frozenset(
    "activate2 activation exponential reciprocal scalar_tensor_tensor tensor_scalar "
    "tensor_tensor".split()
)
_BY_LANE = frozenset(
    "activate2 activation activation_reduce bn_aggr bn_stats exponential max8 nc_find_index8 "
    "reciprocal scalar_tensor_tensor select_reduce tensor_reduce tensor_scalar "
    "tensor_scalar_reduce tensor_tensor tensor_tensor_scan".split()
)


def _same_lanes(issue: Issue, lowered: Lowered) -> bool:
    """All operands have as many partitions, at addresses that are known."""
    if any(lowered.types[slot].dynamic is not None for _, slot in issue.operands):
        return False
    return len({lowered.types[slot].partitions for _, slot in issue.operands}) == 1


def _moves(issue: Issue, lowered: Lowered) -> bool:
    if issue.op == "nc_matmul":
        return bool(issue.attr("is_transpose"))
    if issue.op not in _MOVERS | MOVES:
        return False
    spec = INSTRUCTIONS[issue.op]
    return all(
        lowered.types[slot].buffer is not Buffer.HBM
        for role, slot in issue.operands
        if (operand := spec.operand(role)) is not None and operand.written
    )


def _carries(issue: Issue, lowered: Lowered) -> bool:
    if issue.op not in _MOVERS | MOVES or issue.op in PARTIAL:
        return False
    static = all(lowered.types[slot].dynamic is None for _, slot in issue.operands)
    return static and all(role != "before" for role, _ in issue.operands)


def _accumulators(issue: Issue, lowered: Lowered) -> tuple[str, slice] | None:
    """Accumulators that an instruction works on: those of the lanes that its data comes in by.

    Random numbers are drawn from the lanes of the destination; one seed is for all lanes.
    """
    if issue.op in GENERATORS:
        name, lanes = f"random numbers of {issue.engine}", slice(0, 128)
        if issue.op != "set_rng_seed":
            role = "src_seeds" if issue.op == "rand_set_state" else "dst"
            tile = next(lowered.types[slot] for r, slot in issue.operands if r == role)
            lanes = slice(tile.start_partition, tile.start_partition + tile.partitions)
        return name, lanes
    engine = ACCUMULATORS.get(issue.op)
    if engine is None or (issue.attr("reduce_cmd") is None and issue.attr("reduce_op") is None):
        return None
    spec = INSTRUCTIONS[issue.op]
    data = next(
        lowered.types[slot]
        for role, slot in issue.operands
        if (operand := spec.operand(role)) is not None and not operand.written
    )
    return engine, slice(data.start_partition, data.start_partition + data.partitions)


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, float):
        return value
    return np.float32(value)


def build(entry: Entry, bound: Mapping[str, Any], target: Target, names: Mapping[Any, str]) -> Plan:
    """Lower a bound call.

    Raises:
        KernelRejected: limits are broken, or the call makes no sense.
        UnsupportedByKernel: nothing is known about it.
    """
    values = {name: _described(name, value, names) for name, value in bound.items()}
    if entry.name.startswith("nl.") and entry.dialect is Dialect.LEGACY:
        # Operators promote a number of a type of its own like a tile of that type.
        for name in ("x", "y"):
            given = bound.get(name)
            element = as_dtype(given.dtype) if isinstance(given, np.generic) else None
            if element is not None:
                values[name] = Number(values[name], element)
    try:
        lowered = lower(entry.dialect, entry.name, values, target)
    except LoweringError as error:
        if error.code == "R103":
            raise UnsupportedByKernel(f"accelopt's simulator does not know {entry.name}") from None
        raise KernelRejected(f"{entry.name}: {error}", error.code) from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise KernelRejected(f"{entry.name}: these arguments do not fit ({error})") from None
    if lowered.violations:
        first = lowered.violations[0]
        raise KernelRejected("; ".join(v.message for v in lowered.violations), first.code)
    for role in ("op", "op0", "op1", "reduce_op"):
        if not isinstance(values.get(role), tuple):
            _check_operator(entry.name, role, values.get(role))
    extra = {}
    if bound.get("reduce_cmd") is not None:
        extra["reduce_cmd"] = str(bound["reduce_cmd"])
    return make_plan(lowered, extra)


def _check_operator(api: str, role: str, name: Any) -> None:
    if name in (None, "average", "bypass"):
        return
    if any(name in table for table in (BINARY, BITWISE, REDUCERS, UNARY)):
        return
    raise UnsupportedByKernel(f"{api}: accelopt's simulator does not know {role}={name}")


def _described(name: str, value: Any, names: Mapping[Any, str]) -> Any:
    """A value as lowering wants it: descriptors, names, data types, numbers."""
    if isinstance(value, Tensor):
        return value.operand or value.typed()
    if value is None or isinstance(value, str | bool | DType):
        return as_dtype(value) or value if name == "dtype" and value is not None else value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, ElementType):
        return value.element
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | list):
        return tuple(_described(name, v, names) for v in value)
    if isinstance(value, Affine | Mask):
        return described(value)
    if isinstance(value, BlockTensor):
        raise KernelRejected(
            f"{name} has block dimensions {list(value.blocks)}; index them first", "R014"
        )
    if name in ("dtype", "compute_dtype"):
        found = as_dtype(value)
        if found is None:
            raise KernelRejected(f"{value!r} is no data type of NKI")
        return found
    if callable(value):
        return operator_name(value, names)
    if isinstance(value, np.ndarray) and name == "expr":
        # Quotients and remainders of an index are its values.
        return nested_pattern(value) or f"an array of shape {list(value.shape)}"
    if isinstance(value, np.ndarray):
        raise KernelRejected(f"{name} must be a tensor of the kernel, not a NumPy array", "R022")
    return value


def described(index: Affine | Mask) -> Pattern | Condition:
    """An index expression, or a comparison of them, as lowering wants it."""
    if isinstance(index, Mask):
        return Condition(tuple(Pattern(t.shape, t.strides, t.offset) for t in index.terms))
    return Pattern(index.shape, index.strides, index.offset)


def operator_name(value: Any, names: Mapping[Any, str]) -> str:
    """Name of the operator that a function stands for (``nl.add``, ``np.add``)."""
    found = names.get(value)
    if found is None:
        found = getattr(value, "__name__", None) or str(value)
    return _NUMPY_NAMES.get(found, found)
