"""Limits that several instructions share."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from accelopt_lsp.nki.dtypes import Kind
from accelopt_lsp.nki.instructions.base import (
    Attributes,
    Check,
    Operands,
)
from accelopt_lsp.nki.instructions.operators import BITVEC_OPERATORS
from accelopt_lsp.nki.instructions.violations import Violation
from accelopt_lsp.nki.operands import Buffer, Engine, OperandType
from accelopt_lsp.nki.targets import Target

FREE_MAX = {Buffer.SBUF: 65536, Buffer.PSUM: 4096}
"""Elements a partition that an engine walks through (architecture guide, Vector and Scalar)."""


def all_of(*checks: Check) -> Check:
    """Every check, in order."""

    def check(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
        for each in checks:
            yield from each(operands, attrs, target)

    return check


def two_psum_inputs(first: str, second: str) -> Check:
    def check(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
        pair = (operands.get(first), operands.get(second))
        if all(o is not None and o.buffer is Buffer.PSUM for o in pair):
            yield Violation(
                "R094",
                f"{first} and {second} are both in PSUM; at most one input may be, so copy one to "
                "SBUF with tensor_copy",
                second,
            )

    return check


def free_size(instruction: str, *roles: str) -> Check:
    """The free size that an engine's access pattern can express."""

    def check(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
        for role in roles:
            given = operands.get(role)
            limit = None if given is None else FREE_MAX.get(given.buffer)
            if given is None or limit is None or given.free <= limit:
                continue
            # What is repeated with stride 0 takes no addresses of its own.
            sizes = zip(given.shape[1:], given.layout[1:], strict=True)
            distinct = prod(size for size, stride in sizes if stride)
            if distinct > limit:
                yield Violation(
                    "R026",
                    f"{instruction}: {role} has {distinct} elements a partition, an instruction "
                    f"takes at most {limit} in {given.buffer.upper()}; split the free axis",
                    role,
                )

    return check


def operator_types(
    instruction: str, *names: str, bitvec: bool = True, operands: tuple[str, ...] = ("dst", "data")
) -> Check:
    """Operators among themselves, with data types, and with the engine.

    Args:
        instruction: id, for messages.
        names: attributes that hold operators.
        bitvec: the instruction takes bitvec operators at all.
        operands: tile operands whose types a bitvec operator restricts to integers.
    """

    def check(given: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
        used = [attrs[n] for n in names if attrs.get(n) is not None]
        bits = [op for op in used if op in BITVEC_OPERATORS]
        if not bits:
            return
        if not bitvec:
            yield Violation("R097", f"{instruction} takes arithmetic operators only, got {bits[0]}")
            return
        others = [op for op in used if op not in BITVEC_OPERATORS]
        if others:
            yield Violation(
                "R097",
                f"{instruction}: {bits[0]} works on bits and {others[0]} on numbers; both "
                "operators must be of one kind, so use two instructions",
            )
        for role in operands:
            tile = given.get(role)
            if tile is not None and tile.dtype.kind is Kind.FLOAT:
                yield Violation(
                    "R097",
                    f"{instruction}: {bits[0]} needs integer types, {role} is {tile.dtype}; "
                    "view its bits as an integer type",
                    role,
                )
        engine = attrs.get("engine")
        if engine in (Engine.SCALAR, Engine.GPSIMD):
            yield Violation(
                "R102",
                f"{instruction}: {bits[0]} runs on the vector engine only, not on {engine}",
            )

    return check


def psum_bank(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    """A matrix product fills one PSUM bank; on NeuronCore-v4 up to all eight."""
    dst = operands.get("dst")
    bank = target.integer("psum_bank_bytes")
    if target.generation >= 4:
        bank = target.integer("psum_partition_bytes")
    if dst is not None and dst.buffer is Buffer.PSUM and dst.free_bytes > bank:
        yield Violation(
            "R052",
            f"a matmul result must fit one PSUM bank of {bank} bytes a partition; "
            f"dst has {dst.free_bytes}"
            if target.generation < 4
            else f"a matmul result must fit PSUM, {bank} bytes a partition; "
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


def float32_vectors(instruction: str, *roles: str) -> Check:
    """Per-partition scalars that are fp32 by documentation."""

    def check(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
        for role in roles:
            given = operands.get(role)
            if given is not None and given.dtype.name not in ("float32", "tfloat32"):
                yield Violation(
                    "R097",
                    f"{instruction}: {role} must be float32, it is {given.dtype}; cast it with "
                    "tensor_copy",
                    role,
                )

    return check


def one_of(instruction: str, name: str, allowed: frozenset[Any]) -> Check:
    """An attribute from a list."""

    def check(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
        value = attrs.get(name)
        if value is not None and value not in allowed:
            yield Violation(
                "R101",
                f"{instruction}: {name}={value} is not supported; use one of "
                f"{', '.join(sorted(map(str, allowed)))}",
            )

    return check


def expect_free(
    instruction: str, role: str, given: OperandType | None, free: int
) -> Iterator[Violation]:
    """One operand's free size."""
    if given is not None and given.free != free:
        yield Violation(
            "R027",
            f"{instruction}: {role} must have {free} elements a partition, it has {given.free} "
            f"(shape {list(given.shape)})",
            role,
        )


def types_of(
    instruction: str,
    role: str,
    wanted: str,
    *,
    names: frozenset[str] = frozenset(),
    kinds: tuple[Kind, ...] = (),
    bytes_below: int = 8,
) -> Check:
    """The data types that one operand may have, by name or by kind and size.

    Args:
        wanted: for the message, as in "must be ...".
    """

    def check(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
        given = operands.get(role)
        if given is None or given.dtype.name in names:
            return
        if given.dtype.kind not in kinds or given.dtype.nbytes >= bytes_below:
            yield Violation(
                "R097",
                f"{instruction}: {role} must be {wanted}, it is {given.dtype}; cast it with "
                "tensor_copy, or make the tile with that type",
                role,
            )

    return check


def free_between(instruction: str, role: str, low: int, high: int) -> Check:
    """Elements a partition of one operand."""

    def check(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
        given = operands.get(role)
        if given is not None and not low <= given.free <= high:
            what = "split the tile" if given.free > high else "pad the tile"
            yield Violation(
                "R026",
                f"{instruction}: {role} has {given.free} elements a partition, {low} to {high} "
                f"are possible; {what}",
                role,
            )

    return check


def same_partitions(instruction: str, first: str, *others: str) -> Check:
    """Operands that work lane by lane."""

    def check(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
        wanted = operands[first].partitions
        for role in others:
            given = operands.get(role)
            if given is not None and given.partitions != wanted:
                yield Violation(
                    "R024",
                    f"{instruction}: {role} has {given.partitions} partitions, {first} has "
                    f"{wanted}",
                    role,
                )

    return check


def same_type(instruction: str, first: str, second: str) -> Check:
    """Operands that are moved as they are."""

    def check(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
        a, b = operands[first], operands[second]
        if a.dtype != b.dtype:
            yield Violation(
                "R097",
                f"{instruction}: {first} is {a.dtype} and {second} is {b.dtype}; it does not "
                "cast, so both must have one type",
                second,
            )

    return check
