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
from accelopt_lsp.nki.operands import Engine
from accelopt_lsp.nki.targets import Target


def _dma_transpose(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    dst, src = operands.get("dst"), operands["src"]
    if dst is None:
        return
    if dst.elements != src.elements:
        yield from same_elements(operands, attrs, target)
    if dst.dtype != src.dtype:
        yield Violation("R065", "dma_transpose: src and dst data types must be equal", "dst")


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
)
