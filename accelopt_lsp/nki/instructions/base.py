"""What an instruction is: operands, engines, limits, and the checks that all of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import field, frozen

from accelopt_lsp.nki.operands import Buffer, DynamicKind, Engine, OperandType
from accelopt_lsp.nki.targets import Target

ON_CHIP = frozenset({Buffer.SBUF, Buffer.PSUM})
SBUF_ONLY = frozenset({Buffer.SBUF})
PSUM_ONLY = frozenset({Buffer.PSUM})
DMA_BUFFERS = frozenset({Buffer.HBM, Buffer.SBUF})
Attributes = Mapping[str, Any]
Operands = Mapping[str, OperandType]


@frozen(slots=True)
class Violation:
    """Something the hardware or the compiler rejects in one instruction.

    Attributes:
        code: the rule's stable code, for example ``R023``.
        message: what is wrong, with the figures.
        role: the operand it is about, if one can be named.
    """

    code: str
    message: str
    role: str | None = None


Check = Callable[[Operands, Attributes, Target], Iterator[Violation]]


def no_check(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    return iter(())


@frozen(slots=True)
class Operand:
    """One operand of an instruction.

    Attributes:
        role: its name, the same in every layer.
        buffers: memories it may live in.
        vector: a per-partition scalar, shape ``[P, 1]``.
        written: the instruction writes it.
        optional: it may be left out, or be a plain number.
        anywhere: it need not start where access patterns must (its own check says where).
    """

    role: str
    buffers: frozenset[Buffer] = ON_CHIP
    vector: bool = False
    written: bool = False
    optional: bool = False
    anywhere: bool = False


@frozen(slots=True)
class Instruction:
    """A hardware instruction.

    Attributes:
        id: key in all layers.
        summary: one sentence for hovers.
        semantics: what it computes, as a formula.
        operands: in the order of the current dialect.
        engines: engines that can run it; the first is the default.
        attributes: names of its non-tensor parameters.
        limits: for people; the checkable ones are enforced by ``check``.
        since_generation: first hardware generation that has it.
        elementwise: every tile operand has the shape of ``dst`` (vectors apart).
        check: limits beyond buffers, partitions and shapes.
        source: page of the public documentation.
    """

    id: str
    summary: str
    semantics: str
    operands: tuple[Operand, ...]
    engines: tuple[Engine, ...]
    attributes: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    since_generation: int = 2
    elementwise: bool = False
    check: Check = field(default=no_check, eq=False, repr=False)
    source: str = "nki.isa"

    def operand(self, role: str) -> Operand | None:
        found = next((o for o in self.operands if o.role == role), None)
        if found is None and role.endswith("_index") and self.operand(role[:-6]) is not None:
            # Offsets that a dynamic operand takes from SBUF.
            return Operand(role, DMA_BUFFERS)
        return found

    def violations(
        self, operands: Operands, attrs: Attributes, target: Target
    ) -> Iterator[Violation]:
        """All violated limits, generic ones first."""
        if target.generation < self.since_generation:
            yield Violation(
                "R095",
                f"{self.id} needs NeuronCore-v{self.since_generation} or later; "
                f"{target.name} is NeuronCore-v{target.generation}",
            )
        for spec in self.operands:
            given = operands.get(spec.role)
            if given is not None:
                yield from _operand_violations(self, spec, given, target)
                if given.dynamic is not None and given.dynamic.kind is DynamicKind.GATHER:
                    yield from _indirection(self, spec, given, attrs, target)
        if self.elementwise:
            yield from _shape_violations(self, operands)
        yield from self.check(operands, attrs, target)


def _operand_violations(
    instruction: Instruction, spec: Operand, given: OperandType, target: Target
) -> Iterator[Violation]:
    if given.buffer not in spec.buffers:
        wanted = " or ".join(sorted(b.upper() for b in spec.buffers))
        yield Violation(
            "R034",
            f"{instruction.id}: {spec.role} must be in {wanted}, it is in {given.buffer.upper()}",
            spec.role,
        )
    limit = target.integer("partitions")
    if given.buffer.on_chip:
        if given.partitions > limit:
            yield Violation(
                "R023",
                f"{instruction.id}: {spec.role} spans {given.partitions} partitions, "
                f"the hardware has {limit}",
                spec.role,
            )
        elif not (
            spec.anywhere
            or instruction.engines[0] is Engine.DMA
            or start_partition_allowed(given.start_partition, given.partitions)
        ):
            yield Violation(
                "R100",
                f"{instruction.id}: {spec.role} starts at partition {given.start_partition} with "
                f"{given.partitions} partitions; {_allowed_starts(given.partitions)}",
                spec.role,
            )


def _indirection(
    instruction: Instruction, spec: Operand, given: OperandType, attrs: Attributes, target: Target
) -> Iterator[Violation]:
    """Limits of tiles whose columns are gathered or scattered by ``indirect``."""
    if target.generation < 4:
        yield Violation(
            "R095",
            f"{instruction.id}: {spec.role} by .indirect() needs NeuronCore-v4; {target.name} is "
            f"NeuronCore-v{target.generation}",
            spec.role,
        )
    assert given.dynamic is not None
    index = given.dynamic.index
    if index is not None and index.start_partition % 32:
        yield Violation(
            "R087",
            f"{instruction.id}: the index of {spec.role} must start at a multiple of 32 "
            f"partitions, it starts at {index.start_partition}",
            spec.role,
        )
    elif index is not None and not spec.written and index.start_partition != given.start_partition:
        yield Violation(
            "R087",
            f"{instruction.id}: {spec.role} starts at partition {given.start_partition}, its "
            f"index at {index.start_partition}; both must start at the same",
            spec.role,
        )
    if spec.written and attrs.get("engine") is Engine.SCALAR and given.buffer is Buffer.PSUM:
        yield Violation(
            "R087",
            f"{instruction.id}: the Scalar Engine cannot scatter to PSUM; use another engine",
            spec.role,
        )


def start_partition_allowed(start: int, partitions: int) -> bool:
    """Whether a tile of that many partitions may start there (architecture guide, section ISA).

    More than 64 partitions start at 0, more than 32 at 0 or 64, others at 0, 32, 64 or 96.
    """
    if partitions > 64:
        return start == 0
    if partitions > 32:
        return start in (0, 64)
    return start in (0, 32, 64, 96)


def _allowed_starts(partitions: int) -> str:
    if partitions > 64:
        return "more than 64 partitions must start at 0"
    if partitions > 32:
        return "33 to 64 partitions must start at 0 or 64"
    return "up to 32 partitions must start at 0, 32, 64 or 96"


def _shape_violations(instruction: Instruction, operands: Operands) -> Iterator[Violation]:
    dst = operands.get("dst")
    if dst is None:
        return
    for spec in instruction.operands:
        given = operands.get(spec.role)
        if given is None or spec.role == "dst":
            continue
        if given.partitions != dst.partitions:
            yield Violation(
                "R024",
                f"{instruction.id}: {spec.role} has {given.partitions} partitions, "
                f"dst has {dst.partitions}",
                spec.role,
            )
        elif spec.vector:
            if given.free != 1:
                yield Violation(
                    "R027",
                    f"{instruction.id}: {spec.role} must have one element a partition, "
                    f"it has {given.free}",
                    spec.role,
                )
        elif given.free != dst.free:
            yield Violation(
                "R027",
                f"{instruction.id}: {spec.role} has {given.free} elements a partition "
                f"(shape {list(given.shape)}), dst has {dst.free} (shape {list(dst.shape)})",
                spec.role,
            )


DST = Operand("dst", written=True)
DATA = Operand("data")
KEPT = Operand("kept", optional=True)
"""What a destination holds before an instruction that writes parts of it: a dependence, no input
that streams through an engine."""
