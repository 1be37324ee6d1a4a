"""What an instruction is: operands, engines, limits, and the checks that all of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import field, frozen

from accelopt_lsp.nki.dtypes import Kind
from accelopt_lsp.nki.instructions.indirection import indirection
from accelopt_lsp.nki.instructions.operators import OPERATORS_OF_V4
from accelopt_lsp.nki.instructions.violations import Violation
from accelopt_lsp.nki.operands import Buffer, Engine, OperandType
from accelopt_lsp.nki.targets import Target

ON_CHIP = frozenset({Buffer.SBUF, Buffer.PSUM})
SBUF_ONLY = frozenset({Buffer.SBUF})
PSUM_ONLY = frozenset({Buffer.PSUM})
DMA_BUFFERS = frozenset({Buffer.HBM, Buffer.SBUF})
Attributes = Mapping[str, Any]
Operands = Mapping[str, OperandType]


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
        shape_code: rule that a vector of another shape breaks.
        anywhere: it need not start where access patterns must (its own check says where).
    """

    role: str
    buffers: frozenset[Buffer] = ON_CHIP
    vector: bool = False
    written: bool = False
    optional: bool = False
    anywhere: bool = False
    shape_code: str = "R027"


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
                f"{target.name} is NeuronCore-v{target.generation}; choose another target or "
                "other instructions",
            )
        for spec in self.operands:
            given = operands.get(spec.role)
            if given is not None:
                yield from _operand_violations(self, spec, given, target)
        yield from indirection(self.id, operands, attrs, target)
        yield from _packed(self, operands)
        yield from _newer_operators(self, attrs, target)
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
            f"{instruction.id}: {spec.role} must be in {wanted}, it is in {given.buffer.upper()}; "
            f"{_way(spec, given.buffer)}",
            spec.role,
        )
    limit = target.integer("partitions")
    if given.buffer.on_chip:
        if given.partitions > limit:
            yield Violation(
                "R023",
                f"{instruction.id}: {spec.role} spans {given.partitions} partitions, "
                f"the hardware has {limit}; loop over tiles of {limit}",
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


def _packed(instruction: Instruction, operands: Operands) -> Iterator[Violation]:
    """Types of four packed values: only microscaling products look into them."""
    types = {role: given.dtype for role, given in operands.items()}
    packed = [role for role, dtype in types.items() if dtype.kind is Kind.PACKED]
    if not packed or instruction.id in UNPACKING:
        return
    role = packed[0]
    if instruction.id not in MOVING:
        yield Violation(
            "R097",
            f"{instruction.id}: {role} is {types[role]}, whose four packed values only "
            "nc_matmul_mx unpacks; nothing else computes with them",
            role,
        )
    elif instruction.id == "tensor_copy" and len(set(types.values())) > 1:
        yield Violation(
            "R097",
            f"tensor_copy: src is {types.get('src')} and dst {types.get('dst')}; packed values "
            "are not cast, so copy between equal types or view the bits as one",
            role,
        )


def _newer_operators(
    instruction: Instruction, attrs: Attributes, target: Target
) -> Iterator[Violation]:
    if target.generation >= 4:
        return
    for name in ("op", "op0", "op1", "reduce_op"):
        if attrs.get(name) in OPERATORS_OF_V4:
            yield Violation(
                "R095",
                f"{instruction.id}: {attrs[name]} needs NeuronCore-v4; {target.name} is "
                f"NeuronCore-v{target.generation}",
            )


UNPACKING = frozenset({"nc_matmul_mx", "quantize_mx"})
MOVING = frozenset(
    "core_barrier dma_copy dma_transpose local_gather memset nc_n_gather nc_stream_shuffle "
    "nc_transpose register_load register_store rng sendrecv tensor_copy "
    "tensor_copy_predicated".split()
)
"""Instructions that move elements as they are."""


def _way(spec: Operand, buffer: Buffer) -> str:
    """How to have an operand where it may live, instead of the memory that it is in."""
    if spec.written:
        place = next(b for b in (Buffer.SBUF, Buffer.PSUM, Buffer.HBM) if b in spec.buffers)
        if buffer is not Buffer.HBM:
            return f"write a tile in {place.upper()} and copy it with tensor_copy"
        between = "copy it to SBUF and " if place is Buffer.PSUM else ""
        return f"write a tile in {place.upper()}, {between}store it"
    if buffer is Buffer.HBM:
        return "load it into a tile first"
    return f"copy it out of {buffer.upper()} with tensor_copy first"


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
                f"dst has {dst.partitions}; take equal slices, or broadcast first",
                spec.role,
            )
        elif spec.vector:
            if given.free != 1:
                yield Violation(
                    spec.shape_code,
                    f"{instruction.id}: {spec.role} must have one element a partition, "
                    f"it has {given.free}; slice one, as in t[:, 0:1]",
                    spec.role,
                )
        elif given.free != dst.free:
            yield Violation(
                "R027",
                f"{instruction.id}: {spec.role} has {given.free} elements a partition "
                f"(shape {list(given.shape)}), dst has {dst.free} (shape {list(dst.shape)}); take "
                "equal slices",
                spec.role,
            )


DST = Operand("dst", written=True)
DATA = Operand("data")
KEPT = Operand("kept", optional=True)
"""What a destination holds before an instruction that writes parts of it: a dependence, no input
that streams through an engine."""
