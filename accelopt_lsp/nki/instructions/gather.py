"""Instructions that move elements between positions and partitions on chip."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from accelopt_lsp.nki.instructions.base import (
    DST,
    KEPT,
    SBUF_ONLY,
    Attributes,
    Instruction,
    Operand,
    Operands,
    start_partition_allowed,
)
from accelopt_lsp.nki.instructions.checks import (
    all_of,
    expect_free,
    same_partitions,
    same_type,
    types_of,
)
from accelopt_lsp.nki.instructions.violations import Violation
from accelopt_lsp.nki.operands import Engine
from accelopt_lsp.nki.targets import Target

CORE_PARTITIONS = 16
"""Partitions that one of the eight cores of GpSimd is connected to."""
QUADRANT = 32
UNMODIFIED = 255
"""Entry of a shuffle mask that leaves its partition as it is."""
_RUNS = frozenset({1, 2, 4, 8, 16, 32})
MAX_INDICES = 4096


def _local_gather(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    src, index = operands["src_buffer"], operands["index"]
    run, count = attrs["num_elem_per_idx"], attrs["num_valid_indices"]
    if src.partitions % CORE_PARTITIONS:
        yield Violation(
            "R026",
            f"local_gather: {src.partitions} partitions; they must be a multiple of "
            f"{CORE_PARTITIONS}",
            "src_buffer",
        )
    if run not in _RUNS:
        yield Violation(
            "R101", f"local_gather: num_elem_per_idx must be 1, 2, 4, 8, 16 or 32, got {run}"
        )
    known = CORE_PARTITIONS * index.free
    if count > known:
        yield Violation(
            "R026",
            f"local_gather: num_valid_indices={count}, but 16 partitions of index hold {known}",
            "index",
        )
    if count > MAX_INDICES:
        yield Violation(
            "R026",
            f"local_gather: {count} indices for every 16 partitions, at most {MAX_INDICES} are "
            "possible; split the gather",
            "index",
        )
    free = operands["dst"].free
    if free not in (count * run, count):
        yield Violation(
            "R027",
            f"local_gather: {count} indices of {run} elements fill {count * run} elements a "
            f"partition, dst has {free}",
            "dst",
        )


def _n_gather(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    yield from expect_free("nc_n_gather", "dst", operands["dst"], operands["indices"].free)


def _shuffle(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    dst, src, mask = operands["dst"], operands["src"], attrs["shuffle_mask"]
    if len(mask) != QUADRANT:
        yield Violation(
            "R101",
            f"nc_stream_shuffle: shuffle_mask must have {QUADRANT} entries, it has {len(mask)}",
        )
    wrong = [m for m in mask if isinstance(m, int) and not (0 <= m < QUADRANT or m == UNMODIFIED)]
    if wrong:
        yield Violation(
            "R101",
            f"nc_stream_shuffle: shuffle_mask holds {wrong[0]}; entries are partitions 0 to 31 of "
            "the quadrant, or 255 to leave one unmodified",
        )
    yield from expect_free("nc_stream_shuffle", "src", src, dst.free)
    active = ceil(max(src.partitions, dst.partitions) / QUADRANT) * QUADRANT
    for role, given in (("dst", dst), ("src", src)):
        start = given.start_partition
        if start_partition_allowed(start, given.partitions) and not start_partition_allowed(
            start, active
        ):
            yield Violation(
                "R100",
                f"nc_stream_shuffle: {role} starts at partition {start}, but {active} partitions "
                "are active; 64 start at 0 or 64, more at 0",
                role,
            )


INSTRUCTIONS = (
    Instruction(
        "local_gather",
        "Gathers along the free axis; every 16 partitions share one list of indices, which runs "
        "along their partitions first.",
        "idx = index[16 c : 16 c + 16].T.flatten(); dst[p, j, :] = src[p, idx[j] : idx[j] + e]",
        (
            Operand("dst", SBUF_ONLY, written=True),
            Operand("src_buffer", SBUF_ONLY),
            Operand("index", SBUF_ONLY, vector=True),
        ),
        (Engine.GPSIMD,),
        ("num_elem_per_idx", "num_valid_indices"),
        (
            "partitions a multiple of 16",
            "num_elem_per_idx 1, 2, 4, 8, 16 or 32",
            "at most 4096 indices for every 16 partitions",
            "index of uint16; dst of the type of src_buffer",
        ),
        check=all_of(
            _local_gather,
            same_partitions("local_gather", "src_buffer", "index", "dst"),
            types_of("local_gather", "index", "uint16", names=frozenset({"uint16"})),
            same_type("local_gather", "dst", "src_buffer"),
        ),
    ),
    Instruction(
        "nc_n_gather",
        "Gathers within each partition, by positions in its flattened free axes.",
        "dst[p, j] = data.reshape(P, -1)[p, indices[p, j]]",
        (
            Operand("dst", SBUF_ONLY, written=True),
            Operand("data", SBUF_ONLY),
            Operand("indices", SBUF_ONLY),
        ),
        (Engine.GPSIMD,),
        (),
        ("indices of uint32, below the elements a partition", "dst of the type of data"),
        check=all_of(
            _n_gather,
            same_partitions("nc_n_gather", "dst", "data", "indices"),
            types_of("nc_n_gather", "indices", "uint32", names=frozenset({"uint32"})),
            same_type("nc_n_gather", "dst", "data"),
        ),
    ),
    Instruction(
        "nc_stream_shuffle",
        "Moves data between the 32 partitions of each quadrant; an entry of 255 leaves its "
        "partition as it is.",
        "dst[32 q + i] = src[32 q + shuffle_mask[i]]",
        (DST, Operand("src"), KEPT),
        (Engine.VECTOR,),
        ("shuffle_mask",),
        (
            "shuffle_mask has 32 entries",
            "dst and src have one type and as many elements a partition",
            "33 to 64 active partitions start at 0 or 64, more at 0",
        ),
        check=all_of(_shuffle, same_type("nc_stream_shuffle", "dst", "src")),
    ),
)
