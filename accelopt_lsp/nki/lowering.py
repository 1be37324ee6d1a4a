"""From a bound call to the instructions it issues: shared by static analysis and simulator.

``lower`` is a pure function of descriptors. It knows no addresses and no values, so the same
code serves an analysis that visits a statement once and a simulator that runs it a thousand
times (results are memoised). Composites of ``nki.language`` are in
:mod:`~accelopt_lsp.nki.composites`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from attrs import evolve, frozen

from accelopt_lsp.nki.apis import find_api
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.dtypes import DType, find_dtype
from accelopt_lsp.nki.instructions import INSTRUCTIONS, Violation
from accelopt_lsp.nki.operands import Buffer, Engine, OperandType
from accelopt_lsp.nki.targets import Target, get_target
from accelopt_lsp.nki.work import (
    Work,
    dma_compute_work,
    dma_work,
    elementwise_work,
    has_fast_form,
    matmul_work,
    packed_matmul_work,
    transpose_work,
)

Attribute = Any
RESULT = "%result"
"""Slot of the tile that a call returns."""


@frozen(slots=True)
class Issue:
    """One issued instruction, as a template without addresses.

    Attributes:
        op: instruction id.
        engine: engine it runs on.
        operands: (role, slot) pairs; a slot is a parameter name of the call, one tensor of a
            list (``srcs.0``), a temporary (``%0``, ``%1``, ...) or ``%result``.
        attrs: (name, value) pairs.
        work: what it has to do.
    """

    op: str
    engine: Engine
    operands: tuple[tuple[str, str], ...]
    attrs: tuple[tuple[str, Attribute], ...]
    work: Work

    @property
    def writes(self) -> tuple[str, ...]:
        """Slots that it writes."""
        spec = INSTRUCTIONS[self.op]
        return tuple(slot for role, slot in self.operands if spec.operand(role).written)  # type: ignore[union-attr]

    @property
    def reads(self) -> tuple[str, ...]:
        """Slots that it reads."""
        spec = INSTRUCTIONS[self.op]
        return tuple(slot for role, slot in self.operands if not spec.operand(role).written)  # type: ignore[union-attr]

    def attr(self, name: str, default: Attribute = None) -> Attribute:
        return next((v for k, v in self.attrs if k == name), default)


@frozen(slots=True)
class Lowered:
    """What one call issues.

    Attributes:
        types: descriptor of every slot: tensor parameters, temporaries, result.
        constants: temporaries that hold one value throughout (ones for a broadcast).
        issues: instructions in order.
        violations: limits that the call breaks.
        result: descriptor of the returned tile, if the call returns one.
        view_of: the result is a view of this slot, and nothing was issued.
        notes: remarks for people, such as keywords that are accepted and ignored.
    """

    types: Mapping[str, OperandType]
    constants: Mapping[str, float]
    issues: tuple[Issue, ...]
    violations: tuple[Violation, ...]
    result: OperandType | None
    view_of: str | None = None
    notes: tuple[str, ...] = ()

    def read_late(self) -> tuple[str, ...]:
        """Parameters that an instruction reads after another one wrote parts of the result.

        Such a call cannot write straight into a tile that it reads.
        """
        written = False
        found: dict[str, None] = {}
        for issue in self.issues:
            if written:
                found.update((s.partition("@")[0], None) for s in issue.reads)
            written = written or any(s.partition("@")[0] == RESULT for s in issue.writes)
        return tuple(s for s in found if not s.startswith("%"))


class LoweringError(ValueError):
    """A call that cannot be lowered: wrong kind of argument, impossible shapes."""

    def __init__(self, message: str, code: str = "R101") -> None:
        super().__init__(message)
        self.code = code


class Builder:
    """Collects the instructions of one call."""

    def __init__(
        self, dialect: Dialect, api: str, target: Target, values: Mapping[str, Any]
    ) -> None:
        self.dialect = dialect
        self.api = api
        self.target = target
        self.values = values
        self.types: dict[str, OperandType] = {
            k: v for k, v in values.items() if isinstance(v, OperandType)
        }
        for name, given in values.items():
            if isinstance(given, tuple):
                self.types.update(
                    (f"{name}.{i}", v) for i, v in enumerate(given) if isinstance(v, OperandType)
                )
        self.constants: dict[str, float] = {}
        self.issues: list[Issue] = []
        self.violations: list[Violation] = []
        self.result: OperandType | None = None
        self.view_of: str | None = None
        self.notes: list[str] = []
        self._temporaries = 0

    @property
    def legacy(self) -> bool:
        return self.dialect is Dialect.LEGACY

    def tile(self, name: str) -> OperandType:
        """Descriptor of a tensor argument.

        Raises:
            LoweringError: the argument is not a tensor.
        """
        found = self.types.get(name)
        if found is None:
            given = self.values.get(name)
            raise LoweringError(f"{name} must be a tensor, got {type(given).__name__}: {given!r}")
        return found

    def is_tile(self, name: str) -> bool:
        return name in self.types

    def dtype(self, default: DType) -> DType:
        """The call's ``dtype=`` or the default.

        Raises:
            LoweringError: no such data type.
        """
        given = self.values.get("dtype")
        if given is None:
            return default
        if isinstance(given, DType):
            return given
        found = find_dtype(str(given))
        if found is None:
            raise LoweringError(f"unknown data type {given!r}")
        return found

    def engine(self, default: Engine) -> Engine:
        """The call's ``engine=`` or the default.

        Raises:
            LoweringError: no such engine.
        """
        given = str(self.values.get("engine") or "unknown").removesuffix("_engine")
        if given in ("unknown", "None"):
            return default
        try:
            return Engine(given)
        except ValueError:
            known = ", ".join(Engine)
            raise LoweringError(f"unknown engine {given!r}; known: {known}") from None

    def temporary(
        self,
        shape: tuple[int, ...],
        dtype: DType,
        buffer: Buffer = Buffer.SBUF,
        constant: float | None = None,
    ) -> str:
        slot = f"%{self._temporaries}"
        self._temporaries += 1
        self.types[slot] = OperandType(shape, dtype, buffer)
        if constant is not None:
            self.constants[slot] = constant
        return slot

    def returns(self, shape: tuple[int, ...], dtype: DType, buffer: Buffer = Buffer.SBUF) -> str:
        """Declare the returned tile and give its slot."""
        self.result = self.types[RESULT] = OperandType(shape, dtype, buffer)
        return RESULT

    def destination(
        self, shape: tuple[int, ...], dtype: DType, buffer: Buffer = Buffer.SBUF
    ) -> str:
        """Slot that the call's result goes to: ``dst`` where the call names one."""
        if "dst" in self.types:
            return "dst"
        return self.returns(shape, dtype, buffer)

    def emit(
        self,
        op: str,
        engine: Engine | None = None,
        attrs: Mapping[str, Attribute] | None = None,
        **operands: str,
    ) -> None:
        """Add one instruction; its limits are checked here, once per distinct call."""
        spec = INSTRUCTIONS[op]
        chosen = engine or spec.engines[0]
        values = dict(attrs or {})
        types = {role: self.types[slot] for role, slot in operands.items()}
        if chosen not in spec.engines:
            allowed = ", ".join(spec.engines)
            self.violations.append(
                Violation("R102", f"{op} does not run on the {chosen} engine (only {allowed})")
            )
        if chosen is Engine.GPSIMD:
            for role, given in types.items():
                if given.buffer is Buffer.PSUM:
                    self.violations.append(
                        Violation(
                            "R094",
                            f"{op}: GpSimd cannot reach {role} in PSUM; use another engine, "
                            "or copy it to SBUF first",
                            role,
                        )
                    )
        found = spec.violations(types, {"engine": chosen, **values}, self.target)
        self.violations.extend(v for v in found if not (self.legacy and _legacy_accepts(v)))
        work = _work(op, chosen, types, values)
        for role, slot in tuple(operands.items()):
            dynamic = self.types[slot].dynamic
            if dynamic is not None and dynamic.index is not None:
                operands[f"{role}_index"] = f"{slot}.index"
                self.types[f"{slot}.index"] = dynamic.index
        self.issues.append(Issue(op, chosen, tuple(operands.items()), tuple(values.items()), work))

    def finish(self) -> Lowered:
        return Lowered(
            types=self.types,
            constants=self.constants,
            issues=tuple(self.issues),
            violations=tuple(dict.fromkeys(self.violations)),
            result=self.result,
            view_of=self.view_of,
            notes=tuple(self.notes),
        )


def _legacy_accepts(violation: Violation) -> bool:
    """Whether the legacy compiler works around a limit by itself.

    It reorders the free axes of a reduction, a DMA may cast while it transposes, a constant is cast
    to the type of its tile: kernels in the SDK's own examples (2.26) do so. A transpose that
    casts issues a copy of its own.
    """
    if violation.code == "R068":
        return "consecutive" in violation.message
    if violation.code == "R070":
        return "does not cast" in violation.message
    if violation.code == "R097":
        return "dropout does not cast" in violation.message
    return violation.code in ("R065", "R066", "R067")


def _work(
    op: str, engine: Engine, types: Mapping[str, OperandType], attrs: Mapping[str, Attribute]
) -> Work:
    if op == "nc_matmul":
        return matmul_work(
            types["stationary"],
            types["moving"],
            is_transpose=bool(attrs.get("is_transpose")),
            double_row=attrs.get("perf_mode") is not None,
        )
    if op == "nc_transpose":
        return transpose_work(types["data"], engine)
    if op in ("dma_copy", "dma_transpose"):
        return dma_work(types["dst"], types["src"], transpose=op == "dma_transpose")
    if op == "nc_matmul_mx":
        return packed_matmul_work(types["stationary"], types["moving"])
    if op == "dma_compute":
        sources = tuple(given for role, given in types.items() if role.startswith("src"))
        return dma_compute_work(types["dst"], sources)
    spec = INSTRUCTIONS[op]
    if "dst" not in types:
        # Registers, and cores that wait: no element streams through an engine.
        return Work(partitions=1, elements=0)
    tiles = tuple(
        types[o.role]
        for o in spec.operands
        if o.role in types and not (o.vector or o.written or o.role == "kept")
    )
    work = elementwise_work(types["dst"], tiles, reduces="reduce_res" in types)
    if op == "topk":
        return evolve(work, elements=attrs["n"], parameter=types["dst"].free)
    if op == "local_gather":
        indices, size = attrs["num_valid_indices"], types["dst"].dtype.nbytes
        return evolve(work, elements=types["dst"].free, element_bytes=size, parameter=indices)
    if has_fast_form(op, attrs, types["dst"], tiles):
        return evolve(work, parameter=1)
    return work


Rule = Callable[[Builder], None]
_RULES: dict[str, Rule] = {}


def lowers(*names: str) -> Callable[[Rule], Rule]:
    """Register a lowering rule for the APIs of these names."""

    def register(rule: Rule) -> Rule:
        for name in names:
            if name in _RULES:
                raise ValueError(f"{name} has two lowering rules")
            _RULES[name] = rule
        return rule

    return register


def has_lowering(api: str) -> bool:
    """Whether calls of this API can be lowered."""
    _load_rules()
    return api in _RULES


def lower(dialect: Dialect, api: str, values: Mapping[str, Any], target: Target) -> Lowered:
    """Instructions that one bound call issues.

    Args:
        dialect: how the call is written.
        api: canonical name, ``nisa.activation`` or ``nl.exp``.
        values: bound parameters. Tensors are given as :class:`OperandType`, operators and
            functions by name (``"add"``, ``"exp"``), data types as :class:`DType`; all
            values are hashable.
        target: hardware generation.

    Raises:
        LoweringError: the call makes no sense (not a tensor, shapes that cannot go together).
    """
    # 1, 1.0 and True are equal, but not the same operand.
    types = tuple([type(v) for v in values.values()])
    return _lower(dialect, api, tuple(values.items()), types, target.name)


@lru_cache(maxsize=20_000)
def _lower(
    dialect: Dialect,
    api: str,
    items: tuple[tuple[str, Any], ...],
    types: tuple[type, ...],
    target: str,
) -> Lowered:
    _load_rules()
    rule = _RULES.get(api)
    if rule is None:
        raise LoweringError(f"{api} is not supported", "R103")
    builder = Builder(dialect, api, get_target(target), dict(items))
    entry = find_api(api)
    signature = entry.signature(dialect) if entry else None
    if signature is not None and dialect is Dialect.CURRENT:
        for name in builder.values:
            if name not in signature.parameters:
                builder.notes.append(f"{api} has no parameter {name!r}; it is ignored")
    try:
        rule(builder)
    except (TypeError, ValueError) as error:
        if isinstance(error, LoweringError):
            raise
        # A number where a name belongs, a name where a number belongs, and the like.
        raise LoweringError(f"{api}: cannot read its arguments ({error})") from error
    return builder.finish()


def forget() -> None:
    """Drop every kept result."""
    _lower.cache_clear()


def _load_rules() -> None:
    if not _RULES:
        from accelopt_lsp.nki import composites, instruction_calls  # noqa: F401


def retarget(lowered: Lowered, destination: OperandType) -> Lowered:
    """The same call writing straight into ``destination`` instead of a fresh tile.

    This is what ``tile[...] = nisa.op(...)`` means in the legacy dialect: engines cast and
    place their result themselves, so no copy is issued.
    """
    if lowered.result is None or lowered.result == destination:
        return lowered
    types = {**lowered.types, RESULT: destination}
    issues = tuple(
        evolve(
            issue,
            work=_work(
                issue.op,
                issue.engine,
                {role: types[slot] for role, slot in issue.operands},
                dict(issue.attrs),
            ),
        )
        for issue in lowered.issues
    )
    return evolve(lowered, types=types, issues=issues, result=destination)
