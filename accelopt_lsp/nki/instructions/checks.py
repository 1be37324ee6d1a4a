"""Limits that several instructions share."""

from __future__ import annotations

from collections.abc import Iterator

from accelopt_lsp.nki.instructions.base import (
    Attributes,
    Check,
    Operands,
    Violation,
)
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.targets import Target


def two_psum_inputs(first: str, second: str) -> Check:
    def check(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
        pair = (operands.get(first), operands.get(second))
        if all(o is not None and o.buffer is Buffer.PSUM for o in pair):
            yield Violation(
                "R094", f"{first} and {second} are both in PSUM; at most one input may be", second
            )

    return check


def psum_bank(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    dst = operands.get("dst")
    bank = target.integer("psum_bank_bytes")
    if dst is not None and dst.buffer is Buffer.PSUM and dst.free_bytes > bank:
        yield Violation(
            "R052",
            f"a matmul result must fit one PSUM bank of {bank} bytes a partition; "
            f"dst has {dst.free_bytes}",
            "dst",
        )


def same_elements(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    dst, src = operands.get("dst"), operands.get("src")
    if dst is not None and src is not None and dst.elements != src.elements:
        yield Violation(
            "R027",
            f"dst {list(dst.shape)} and src {list(src.shape)} have different element counts",
            "dst",
        )
