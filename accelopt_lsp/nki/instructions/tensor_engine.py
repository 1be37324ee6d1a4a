"""Instructions of the Tensor Engine."""

from __future__ import annotations

from collections.abc import Iterator

from accelopt_lsp.nki.instructions.base import (
    DATA,
    DST,
    PSUM_ONLY,
    SBUF_ONLY,
    Attributes,
    Instruction,
    Operand,
    Operands,
    Violation,
)
from accelopt_lsp.nki.instructions.checks import psum_bank
from accelopt_lsp.nki.operands import Buffer, Engine
from accelopt_lsp.nki.targets import Target


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
    yield from psum_bank(operands, attrs, target)


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


INSTRUCTIONS = (
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
        (DST, DATA),
        (Engine.TENSOR, Engine.VECTOR),
        ("engine",),
        ("Tensor Engine: up to [128, 128], result in PSUM", "Vector Engine: up to [32, 32]"),
        check=_transpose,
    ),
)
