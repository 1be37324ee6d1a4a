"""Instructions of the engines' sequencers: registers, and cores that wait for each other.

Registers are virtual: which sequencers hold one, and so where its instructions run, is the
compiler's choice, and their cost is not published.
"""

from __future__ import annotations

from collections.abc import Iterator

from accelopt_lsp.nki.instructions.base import (
    DMA_BUFFERS,
    SBUF_ONLY,
    Attributes,
    Instruction,
    Operand,
    Operands,
)
from accelopt_lsp.nki.instructions.violations import Violation
from accelopt_lsp.nki.operands import Engine, OperandType
from accelopt_lsp.nki.targets import Target

COMPUTE_ENGINES = (Engine.GPSIMD, Engine.VECTOR, Engine.SCALAR, Engine.TENSOR, Engine.SYNC)
GPSIMD_DMA_BYTES = {4: 1024, 2: 512, 1: 256}
"""Most bytes a partition that one exchange by GpSimd moves, by bytes of the data type."""


def _one_element(role: str, given: OperandType | None) -> Iterator[Violation]:
    if given is None:
        return
    if given.elements != 1:
        yield Violation(
            "R027",
            f"a register holds one number, {role} has {given.elements} elements "
            f"(shape {list(given.shape)})",
            role,
        )
    if given.dtype.nbytes > 4:
        yield Violation("R084", f"a register has 32 bits, {role} is {given.dtype.name}", role)


def _register_load(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    yield from _one_element("src", operands.get("src"))


def _register_store(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    yield from _one_element("dst", operands.get("dst"))


def _rank(attrs: Attributes, role: str) -> Iterator[Violation]:
    rank = attrs.get(role)
    if rank not in (0, 1):
        yield Violation("R088", f"sendrecv: {role} must be 0 or 1, got {rank}", None)


def _sendrecv(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    yield from _rank(attrs, "send_to_rank")
    yield from _rank(attrs, "recv_from_rank")
    dst, src = operands["dst"], operands["src"]
    if dst.dtype != src.dtype:
        yield Violation(
            "R065",
            f"sendrecv: src is {src.dtype.name}, dst {dst.dtype.name}; the types must be equal",
            "dst",
        )
    if dst.shape != src.shape:
        yield Violation(
            "R027",
            f"sendrecv: src has shape {list(src.shape)}, dst {list(dst.shape)}; they must be equal",
            "dst",
        )
    limit = GPSIMD_DMA_BYTES.get(src.dtype.nbytes)
    if attrs.get("dma_engine") == "gpsimd_dma" and limit is not None and src.free_bytes > limit:
        yield Violation(
            "R088",
            f"sendrecv by gpsimd_dma moves at most {limit} bytes a partition of "
            f"{8 * src.dtype.nbytes}-bit types, src has {src.free_bytes}",
            "src",
        )


def _core_barrier(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    cores = attrs.get("cores")
    if not isinstance(cores, tuple) or not cores or not set(cores) <= {0, 1}:
        yield Violation("R088", f"core_barrier: cores are numbered 0 and 1, got {cores}")


INSTRUCTIONS = (
    Instruction(
        "register_move",
        "Puts a number, or the content of another register, into a register.",
        "dst = src, both registers, or src a number",
        (),
        COMPUTE_ENGINES[-1:],
        limits=("64 registers of 32 bits a sequencer",),
    ),
    Instruction(
        "register_load",
        "Reads one number from memory into a register.",
        "dst = src[0], dst a register",
        (Operand("src", DMA_BUFFERS),),
        COMPUTE_ENGINES[-1:],
        limits=("one element of at most 32 bits",),
        check=_register_load,
    ),
    Instruction(
        "register_store",
        "Writes the content of a register to memory.",
        "dst[0] = src, src a register",
        (Operand("dst", DMA_BUFFERS, written=True),),
        COMPUTE_ENGINES[-1:],
        limits=("one element of at most 32 bits",),
        check=_register_store,
    ),
    Instruction(
        "sendrecv",
        "Exchanges tiles between the two cores of a logical core.",
        "dst of core send_to_rank = src; dst = src of core recv_from_rank",
        (Operand("dst", SBUF_ONLY, written=True), Operand("src", SBUF_ONLY)),
        (Engine.DMA, Engine.GPSIMD),
        ("send_to_rank", "recv_from_rank", "pipe_id", "dma_engine"),
        (
            "needs a launch grid of 2",
            "shapes and data types of src and dst are equal",
            "gpsimd_dma: 1024, 512 or 256 bytes a partition for 32-, 16- and 8-bit types",
        ),
        since_generation=3,
        check=_sendrecv,
    ),
    Instruction(
        "core_barrier",
        "Waits until the cores that share a tensor have all come this far.",
        "no core goes on before all of cores have reached the barrier",
        (Operand("data", DMA_BUFFERS, written=True),),
        COMPUTE_ENGINES,
        ("cores",),
        ("needs a launch grid of 2", "cores is (0, 1)"),
        since_generation=3,
        check=_core_barrier,
    ),
)
