"""Instructions of the DMA engines."""

from __future__ import annotations

from collections.abc import Iterator

from accelopt_lsp.nki.instructions.base import (
    DMA_BUFFERS,
    Attributes,
    Instruction,
    Operand,
    Operands,
    Violation,
)
from accelopt_lsp.nki.instructions.checks import same_elements
from accelopt_lsp.nki.operands import DynamicKind, Engine
from accelopt_lsp.nki.targets import Target


def _dma_transpose(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    dst, src = operands.get("dst"), operands["src"]
    if dst is None:
        return
    if dst.elements != src.elements:
        yield from same_elements(operands, attrs, target)
    if dst.dtype != src.dtype:
        yield Violation("R065", "dma_transpose: src and dst data types must be equal", "dst")


def _dma_compute(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    dst = operands["dst"]
    srcs = {role: given for role, given in operands.items() if role.startswith("src")}
    op = attrs.get("reduce_op")
    if op != "add":
        yield Violation("R089", f"dma_compute: reduce_op must be add, got {op}")
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
        ("dge_mode", "oob_mode"),
        (
            "at least 2 KiB a partition for full bandwidth; below 512 B a descriptor costs as much",
            "PSUM is out of reach",
        ),
        check=same_elements,
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
