"""Layer 1 of the instruction table: what each hardware instruction is and what it rejects.

One entry an instruction: operands with roles and buffers, attributes, engines, availability
and limits. No NumPy, no dialect, no cost: those are layers of their own, keyed by the same id
(:mod:`~accelopt_lsp.nki.dialects`, :mod:`~accelopt_lsp.nki.costs`, and the simulator's
numerics). A test fails when an id lacks a layer.

Facts: public AWS Neuron documentation, ``nki.isa`` (NKI 0.6) and ``neuronxcc.nki.isa`` (SDK 2.26).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import field, frozen

from accelopt_lsp.nki.operands import Buffer, Engine, OperandType
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


def _no_check(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
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
    """

    role: str
    buffers: frozenset[Buffer] = ON_CHIP
    vector: bool = False
    written: bool = False
    optional: bool = False


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
    check: Check = field(default=_no_check, eq=False, repr=False)
    source: str = "nki.isa"

    def operand(self, role: str) -> Operand | None:
        return next((o for o in self.operands if o.role == role), None)

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
        elif not start_partition_allowed(given.start_partition, given.partitions):
            yield Violation(
                "R100",
                f"{instruction.id}: {spec.role} starts at partition {given.start_partition} with "
                f"{given.partitions} partitions; {_allowed_starts(given.partitions)}",
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


def _two_psum_inputs(first: str, second: str) -> Check:
    def check(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
        pair = (operands.get(first), operands.get(second))
        if all(o is not None and o.buffer is Buffer.PSUM for o in pair):
            yield Violation(
                "R094", f"{first} and {second} are both in PSUM; at most one input may be", second
            )

    return check


def _matmul(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    stationary, moving = operands["stationary"], operands["moving"]
    dst = operands.get("dst")
    if stationary.partitions != moving.partitions:
        yield Violation(
            "R024",
            f"nc_matmul: stationary has {stationary.partitions} partitions (contraction), "
            f"moving has {moving.partitions}",
            "moving",
        )
    limit = target.integer("stationary_free_max")
    if stationary.free > limit:
        yield Violation(
            "R026",
            f"nc_matmul: stationary free size {stationary.free} exceeds {limit}",
            "stationary",
        )
    limit = target.integer("moving_free_max")
    if moving.free > limit:
        yield Violation(
            "R026", f"nc_matmul: moving free size {moving.free} exceeds {limit}", "moving"
        )
    if stationary.dtype.nbytes != moving.dtype.nbytes and 4 in (
        stationary.dtype.nbytes,
        moving.dtype.nbytes,
    ):
        yield Violation(
            "R070",
            f"nc_matmul: {stationary.dtype} with {moving.dtype}; float32 goes only with float32",
            "moving",
        )
    if dst is None:
        return
    if (dst.partitions, dst.free) != (stationary.free, moving.free):
        yield Violation(
            "R027",
            f"nc_matmul: dst is {list(dst.shape)}, stationary.T @ moving is "
            f"[{stationary.free}, {moving.free}]",
            "dst",
        )
    yield from _psum_bank(operands, attrs, target)


def _psum_bank(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    dst = operands.get("dst")
    bank = target.integer("psum_bank_bytes")
    if dst is not None and dst.buffer is Buffer.PSUM and dst.free_bytes > bank:
        yield Violation(
            "R052",
            f"a matmul result must fit one PSUM bank of {bank} bytes a partition; "
            f"dst has {dst.free_bytes}",
            "dst",
        )


def _transpose(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    data, dst = operands["data"], operands.get("dst")
    engine = attrs.get("engine", Engine.TENSOR)
    if engine == Engine.TENSOR:
        for role, given, wanted in (("data", data, Buffer.SBUF), ("dst", dst, Buffer.PSUM)):
            if given is not None and given.buffer is not wanted:
                yield Violation(
                    "R034",
                    f"nc_transpose on the tensor engine: {role} must be in {wanted.upper()}, "
                    f"it is in {given.buffer.upper()}",
                    role,
                )
    limit = 32 if engine == Engine.VECTOR else 128
    if max(data.partitions, data.free) > limit:
        yield Violation(
            "R026",
            f"nc_transpose on the {engine} engine takes at most [{limit}, {limit}], "
            f"data is [{data.partitions}, {data.free}]",
            "data",
        )
    if dst is not None and (dst.partitions, dst.free) != (data.free, data.partitions):
        yield Violation(
            "R027",
            f"nc_transpose: dst is {list(dst.shape)}, data.T is [{data.free}, {data.partitions}]",
            "dst",
        )


def _reduce(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    data, dst = operands["data"], operands.get("dst")
    axes = attrs.get("axis", ())
    rank = len(data.shape)
    if any(a == 0 for a in axes):
        yield Violation("R068", "tensor_reduce cannot reduce the partition axis 0", "data")
        return
    if sorted(axes) != list(range(rank - len(axes), rank)):
        yield Violation(
            "R068",
            f"tensor_reduce axes {list(axes)} must be consecutive and end at the last axis "
            f"{rank - 1}",
            "data",
        )
        return
    kept = 1
    for size in data.shape[1 : rank - len(axes)]:
        kept *= size
    if dst is not None and (dst.partitions, dst.free) != (data.partitions, kept):
        yield Violation(
            "R027",
            f"tensor_reduce: dst is {list(dst.shape)}, the result is [{data.partitions}, {kept}]",
            "dst",
        )


def _same_elements(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    dst, src = operands.get("dst"), operands.get("src")
    if dst is not None and src is not None and dst.elements != src.elements:
        yield Violation(
            "R027",
            f"dst {list(dst.shape)} and src {list(src.shape)} have different element counts",
            "dst",
        )


def _dma_transpose(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    dst, src = operands.get("dst"), operands["src"]
    if dst is None:
        return
    if dst.elements != src.elements:
        yield from _same_elements(operands, attrs, target)
    if dst.dtype != src.dtype:
        yield Violation("R065", "dma_transpose: src and dst data types must be equal", "dst")


_DST = Operand("dst", written=True)
_DATA = Operand("data")

_ALL = (
    Instruction(
        "nc_matmul",
        "Matrix product on the Tensor Engine, accumulated in fp32 in PSUM.",
        "dst[M,N] (+)= sum_k stationary[k,M] * moving[k,N]",
        (
            Operand("dst", PSUM_ONLY, written=True),
            Operand("stationary", SBUF_ONLY),
            Operand("moving", SBUF_ONLY),
        ),
        (Engine.TENSOR,),
        ("accumulate", "is_transpose"),
        (
            "contraction K on partitions, at most 128",
            "stationary free size at most 128, moving at most 512 (4096 on trn3)",
            "dst within one PSUM bank (2 KiB a partition)",
            "float32 only with float32",
        ),
        check=_matmul,
    ),
    Instruction(
        "nc_transpose",
        "Transposes a tile between partition and free axis.",
        "dst[f,p] = data[p,f]",
        (_DST, _DATA),
        (Engine.TENSOR, Engine.VECTOR),
        ("engine",),
        ("Tensor Engine: up to [128, 128], result in PSUM", "Vector Engine: up to [32, 32]"),
        check=_transpose,
    ),
    Instruction(
        "activation",
        "Applies a function to scale * data + bias on the Scalar Engine; may sum along the "
        "free axis.",
        "dst = op(data * scale + bias); reduce_res = sum_free(dst)",
        (
            _DST,
            _DATA,
            Operand("bias", vector=True, optional=True),
            Operand("scale", vector=True, optional=True),
            Operand("reduce_res", vector=True, written=True, optional=True),
        ),
        (Engine.SCALAR,),
        ("op", "bias", "scale", "reduce_op", "reduce_cmd"),
        ("bias and scale are numbers or [P, 1]", "only add can reduce before trn3"),
        elementwise=True,
    ),
    Instruction(
        "tensor_tensor",
        "Combines two tiles element by element.",
        "dst = data1 op data2",
        (_DST, Operand("data1"), Operand("data2")),
        (Engine.VECTOR, Engine.GPSIMD),
        ("op", "engine"),
        ("at most one input in PSUM",),
        elementwise=True,
        check=_two_psum_inputs("data1", "data2"),
    ),
    Instruction(
        "tensor_scalar",
        "Combines a tile with up to two per-partition scalars or numbers.",
        "dst = (data op0 operand0) op1 operand1",
        (
            _DST,
            _DATA,
            Operand("operand0", vector=True, optional=True),
            Operand("operand1", vector=True, optional=True),
        ),
        (Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD),
        ("op0", "operand0", "reverse0", "op1", "operand1", "reverse1", "engine"),
        ("operands are numbers or [P, 1]",),
        elementwise=True,
    ),
    Instruction(
        "scalar_tensor_tensor",
        "Combines a tile with a scalar and then with a second tile, in one pass.",
        "dst = (data op0 operand0) op1 operand1",
        (
            _DST,
            _DATA,
            Operand("operand0", vector=True, optional=True),
            Operand("operand1"),
        ),
        (Engine.VECTOR,),
        ("op0", "operand0", "reverse0", "op1", "reverse1"),
        ("data and operand1 not both in PSUM",),
        elementwise=True,
        check=_two_psum_inputs("data", "operand1"),
    ),
    Instruction(
        "tensor_scalar_reduce",
        "Combines a tile with a scalar and reduces the result along the free axis.",
        "dst = data op0 operand0; reduce_res = reduce_op_free(dst)",
        (
            _DST,
            _DATA,
            Operand("operand0", vector=True, optional=True),
            Operand("reduce_res", vector=True, written=True),
        ),
        (Engine.VECTOR,),
        ("op0", "operand0", "reverse0", "reduce_op"),
        elementwise=True,
    ),
    Instruction(
        "tensor_tensor_scan",
        "Scan along the free axis: each element depends on the one before it.",
        "r[0] = (data0[0] op0 initial) op1 data1[0]; r[i] = (data0[i] op0 r[i-1]) op1 data1[i]",
        (
            _DST,
            Operand("data0"),
            Operand("data1"),
            Operand("initial", vector=True, optional=True),
        ),
        (Engine.VECTOR,),
        ("op0", "op1", "initial", "reverse0", "reverse1"),
        ("data0 and data1 not both in PSUM",),
        elementwise=True,
        check=_two_psum_inputs("data0", "data1"),
    ),
    Instruction(
        "tensor_reduce",
        "Reduces along the last free axes.",
        "dst = [-] reduce(op, data, last axes)",
        (_DST, _DATA),
        (Engine.VECTOR,),
        ("op", "axis", "negate", "keepdims"),
        ("axes are consecutive, end at the last one, and leave out axis 0",),
        check=_reduce,
    ),
    Instruction(
        "tensor_copy",
        "Copies a tile on chip, casting to the type of dst.",
        "dst = cast(src)",
        (_DST, Operand("src")),
        (Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD),
        ("engine",),
        ("GpSimd reaches no PSUM",),
        elementwise=True,
    ),
    Instruction(
        "reciprocal",
        "Reciprocal on the Vector Engine.",
        "dst = 1 / data",
        (_DST, _DATA),
        (Engine.VECTOR,),
        elementwise=True,
    ),
    Instruction(
        "memset",
        "Fills a tile with a constant.",
        "dst[:] = value",
        (_DST,),
        (Engine.VECTOR, Engine.GPSIMD),
        ("value", "engine"),
    ),
    Instruction(
        "dma_copy",
        "Moves a tensor between HBM and SBUF, casting on the way if the types differ.",
        "dst = cast(src)",
        (
            Operand("dst", DMA_BUFFERS, written=True),
            Operand("src", DMA_BUFFERS),
        ),
        (Engine.DMA,),
        ("dge_mode",),
        (
            "at least 2 KiB a partition for full bandwidth; below 512 B a descriptor costs as much",
            "PSUM is out of reach",
        ),
        check=_same_elements,
    ),
    Instruction(
        "dma_transpose",
        "Moves a tensor between HBM and SBUF and transposes it on the way.",
        "dst = src.T",
        (
            Operand("dst", DMA_BUFFERS, written=True),
            Operand("src", DMA_BUFFERS),
        ),
        (Engine.DMA,),
        ("axes",),
        ("far slower than a copy on trn1",),
        check=_dma_transpose,
    ),
)
INSTRUCTIONS: Mapping[str, Instruction] = {i.id: i for i in _ALL}

ACTIVATION_FUNCTIONS = frozenset(
    (
        "copy square sigmoid relu gelu gelu_dx gelu_apprx_tanh gelu_apprx_sigmoid silu silu_dx "
        "tanh softplus mish erf erf_dx exp sign abs log sin arctan sqrt rsqrt reciprocal"
    ).split()
)
BINARY_OPERATORS = frozenset(
    (
        "add subtract multiply maximum minimum divide power equal not_equal greater_equal "
        "greater less_equal less logical_and logical_or logical_xor bitwise_and bitwise_or "
        "bitwise_xor left_shift right_shift"
    ).split()
)
UNARY_OPERATORS = frozenset({"abs", "rsqrt", "reciprocal", "square", "relu"})
REDUCTION_OPERATORS = frozenset(
    (
        "add multiply maximum minimum bitwise_and bitwise_or bitwise_xor logical_and logical_or "
        "logical_xor subtract"
    ).split()
)
