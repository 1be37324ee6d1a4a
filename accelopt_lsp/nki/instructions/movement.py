"""Instructions of the DMA engines."""

from __future__ import annotations

from collections.abc import Iterator

from accelopt_lsp.nki.instructions.base import (
    DMA_BUFFERS,
    Attributes,
    Instruction,
    Operand,
    Operands,
)
from accelopt_lsp.nki.instructions.checks import same_elements
from accelopt_lsp.nki.instructions.violations import Violation
from accelopt_lsp.nki.operands import Buffer, DynamicKind, Engine, OperandType
from accelopt_lsp.nki.targets import Target

TRANSPOSED = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}
"""Axes of a DMA transpose by rank (nisa.dma_transpose)."""


def _by_vector(operand: OperandType) -> bool:
    return operand.dynamic is not None and operand.dynamic.kind is DynamicKind.VECTOR


def _descriptors(
    op: str, operands: Operands, attrs: Attributes, target: Target
) -> Iterator[Violation]:
    """Who makes the descriptors of a transfer: dge_mode, its engine, and run-time indices."""
    mode, engine = attrs.get("dge_mode"), attrs.get("trigger")
    priority = attrs.get("priority")
    vectors = [role for role in ("dst", "src") if _by_vector(operands[role])]
    if mode == "hwdge" and target.generation < 3:
        yield Violation(
            "R095",
            f"{op}: dge_mode hwdge needs NeuronCore-v3 or later; {target.name} is "
            f"NeuronCore-v{target.generation}",
        )
    if mode in ("hwdge", "none") and vectors:
        yield Violation(
            "R064",
            f"{op}: {vectors[0]} is indexed by a vector of offsets, whose descriptors only "
            f"dge_mode swdge makes, not {mode}",
            vectors[0],
        )
    if engine not in (None, "sync", "scalar"):
        yield Violation(
            "R064", f"{op}: descriptors are triggered by engine sync or scalar, not {engine}"
        )
    if attrs.get("oob_mode") == "skip" and all(
        operands[role].dynamic is None for role in ("dst", "src")
    ):
        yield Violation(
            "R098",
            f"{op}: oob_mode.skip goes with addresses known at run time only; leave it out",
        )
    if priority is not None:
        if target.generation < 4:
            yield Violation("R095", f"{op}: priority needs NeuronCore-v4")
        elif priority not in range(4):
            yield Violation("R101", f"{op}: priority is 0 to 3, got {priority}")


def _dma_copy(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    yield from same_elements(operands, attrs, target)
    yield from _descriptors("dma_copy", operands, attrs, target)
    dst, src = operands["dst"], operands["src"]
    if attrs.get("dge_mode") == "hwdge" and dst.dtype != src.dtype:
        yield Violation(
            "R064",
            f"dma_copy: dge_mode hwdge does not cast, src is {src.dtype} and dst {dst.dtype}; "
            "leave dge_mode out",
            "dst",
        )
    for role in ("dst", "src"):
        given = operands[role]
        index = given.dynamic.index if given.dynamic is not None else None
        if _by_vector(given) and index is not None and index.elements > given.shape[0]:
            yield Violation(
                "R083",
                f"dma_copy: {role} has {given.shape[0]} rows and {index.elements} offsets; give "
                "one offset a row",
                role,
            )
    if "before" in operands and attrs.get("oob_mode") == "skip":
        yield Violation("R098", "dma_copy: dst_rmw_op goes with oob_mode.error only")


def _dma_transpose(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    dst, src = operands["dst"], operands["src"]
    axes = attrs["axes"]
    if dst.elements != src.elements:
        yield from same_elements(operands, attrs, target)
        return
    wanted = TRANSPOSED.get(len(src.shape))
    if axes != wanted:
        known = ", ".join(map(str, TRANSPOSED.values()))
        yield Violation("R065", f"dma_transpose: axes are one of {known}, got {axes}")
    elif tuple(src.shape[a] for a in axes) != dst.shape:
        yield Violation(
            "R065",
            f"dma_transpose: dst must have shape {[src.shape[a] for a in axes]}, it has "
            f"{list(dst.shape)}",
            "dst",
        )
    if dst.dtype != src.dtype:
        yield Violation("R065", "dma_transpose: src and dst data types must be equal", "dst")
    yield from _descriptors("dma_transpose", operands, attrs, target)
    if _by_vector(src):
        yield from _gather_transpose(src, target)
    elif attrs.get("dge_mode") == "swdge" and src.dynamic is None:
        yield Violation(
            "R064", "dma_transpose: dge_mode swdge is for indexed sources; use hwdge or unknown"
        )
    elif attrs.get("dge_mode") == "hwdge":
        yield from _block_transpose(src)


def _block_transpose(src: OperandType) -> Iterator[Violation]:
    """What the descriptor hardware transposes."""
    shape = src.shape
    if len(shape) == 2 and shape[0] != 16:
        yield Violation(
            "R066",
            f"dma_transpose hwdge: 16 rows at a time, src has {shape[0]}; take "
            "pieces of 16, or leave dge_mode out",
        )
    if len(shape) > 2 and (shape[0] not in (1, 2, 4, 8, 16) or shape[0] * shape[-2] % 16):
        yield Violation(
            "R066",
            "dma_transpose hwdge: src.shape[0] must be 1, 2, 4, 8 or 16, and times shape[-2] a "
            f"multiple of 16; src is {list(shape)}",
        )
    yield from _lines(src, "hwdge")


def _lines(src: OperandType, mode: str) -> Iterator[Violation]:
    if src.shape[-1] > 128:
        yield Violation(
            "R066", f"dma_transpose {mode}: src.shape[-1] is at most 128, it is {src.shape[-1]}"
        )
    if src.dtype.nbytes != 2:
        yield Violation(
            "R066", f"dma_transpose {mode}: data types of 2 bytes only, src is {src.dtype}"
        )


def _gather_transpose(src: OperandType, target: Target) -> Iterator[Violation]:
    """What the descriptor software gathers and transposes."""
    assert src.dynamic is not None and src.dynamic.index is not None
    index, rows = src.dynamic.index, src.shape[0]
    if target.generation < 3:
        yield Violation("R095", "dma_transpose of indexed rows needs NeuronCore-v3 or later")
    if src.buffer is not Buffer.HBM:
        yield Violation("R066", "dma_transpose of indexed rows: src must be in HBM", "src")
    yield from _lines(src, "of indexed rows")
    if len(src.shape) == 4 and 1 not in src.shape[1:3]:
        yield Violation(
            "R066",
            "dma_transpose of indexed rows: one of the middle dimensions must be 1, src is "
            f"{list(src.shape)}",
        )
    if index.dtype.name != "uint32":
        yield Violation(
            "R066", f"dma_transpose of indexed rows: indices are uint32, these are {index.dtype}"
        )
    if rows % 16 or index.elements < rows:
        yield Violation(
            "R066",
            "dma_transpose of indexed rows: rows come in multiples of 16 with an index each; src "
            f"has {rows}, there are {index.elements} indices",
        )
    if index.partitions % 16 or index.partitions > 128:
        yield Violation(
            "R066",
            "dma_transpose of indexed rows: indices take 16 to 128 partitions, a multiple of 16; "
            f"these take {index.partitions}",
        )
    elif index.free > 1 and index.partitions != 128:
        yield Violation(
            "R066",
            "dma_transpose of indexed rows: several indices a partition need all 128 partitions; "
            f"these take {index.partitions}",
        )


def _dma_compute(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    dst = operands["dst"]
    srcs = {role: given for role, given in operands.items() if role.startswith("src")}
    op = attrs.get("reduce_op")
    if op != "add":
        yield Violation(
            "R089",
            f"dma_compute: reduce_op must be add, got {op}; load the "
            "tensors and combine them on an engine",
        )
    scales = attrs.get("scales") or ()
    if any(s != 1 for s in scales):
        yield Violation(
            "R089",
            f"dma_compute: scales must all be 1.0, got {list(scales)}; scale with tensor_scalar",
        )
    if scales and len(scales) != len(srcs):
        yield Violation("R089", f"dma_compute: {len(scales)} scales for {len(srcs)} sources")
    for role, given in srcs.items():
        if given.elements != dst.elements:
            yield Violation(
                "R027",
                f"dma_compute: {role} {list(given.shape)} and dst {list(dst.shape)} have "
                "different element counts",
                role,
            )
    vectors = any(
        given.dynamic is not None and given.dynamic.kind is DynamicKind.VECTOR
        for given in (*srcs.values(), dst)
    )
    if vectors and len(srcs) != 2:
        yield Violation(
            "R089",
            f"dma_compute: with a vector_offset there must be 2 sources, the data and what it is "
            f"added to; there are {len(srcs)}",
        )
    if vectors and not attrs.get("unique_indices", True):
        yield Violation("R089", "dma_compute: indices must be unique (unique_indices=True)")
    if attrs.get("oob_mode") == "skip" and not vectors:
        yield Violation(
            "R098", "dma_compute: oob_mode.skip goes with a vector_offset only; leave it out"
        )


MAX_SOURCES = 16
"""Tensors that one dma_compute adds up."""

INSTRUCTIONS = (
    Instruction(
        "dma_copy",
        "Moves a tensor between HBM and SBUF, casting on the way if the types differ.",
        "dst = cast(src)",
        (
            Operand("dst", DMA_BUFFERS, written=True),
            Operand("src", DMA_BUFFERS),
            Operand("before", DMA_BUFFERS, optional=True),
        ),
        (Engine.DMA,),
        ("dge_mode", "trigger", "oob_mode", "priority"),
        (
            "at least 2 KiB a partition for full bandwidth; below 512 B a descriptor costs as much",
            "PSUM is out of reach",
            "dge_mode hwdge: trn2 and later, equal data types, no vector of offsets",
        ),
        check=_dma_copy,
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
        ("axes", "dge_mode", "oob_mode", "priority"),
        (
            "axes (1, 0), (2, 1, 0) or (3, 1, 2, 0)",
            "dge_mode hwdge: 16 rows of up to 128 elements of 2 bytes",
            "far slower than a copy on trn1",
        ),
        check=_dma_transpose,
    ),
    Instruction(
        "dma_compute",
        "Adds tensors up in float32 on the way between memories, casting the sum.",
        "dst = cast(sum_i srcs[i])",
        (
            Operand("dst", DMA_BUFFERS, written=True),
            Operand("src0", DMA_BUFFERS),
            *(Operand(f"src{i}", DMA_BUFFERS, optional=True) for i in range(1, MAX_SOURCES)),
        ),
        (Engine.DMA,),
        ("reduce_op", "scales", "unique_indices", "oob_mode"),
        (
            "up to 16 sources, reduce_op add, scales 1.0",
            "with a vector_offset exactly 2 sources and unique indices",
        ),
        check=_dma_compute,
    ),
)
