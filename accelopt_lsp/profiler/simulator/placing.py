"""Limits of tensors that are created with a value, in a loop, or at a place of the writer's choice.

Legacy: error pages of SDK 2.26 and the guide to direct allocation. Current: migration guide.
"""

from __future__ import annotations

from math import prod

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.dtypes import DType
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.profiler.simulator.errors import KernelRejected
from accelopt_lsp.profiler.simulator.indexing import loop_depth


def check_value(dialect: Dialect, function: str, memory: str, *, placed: bool) -> None:
    """A first value, which legacy kernels can give to some tensors only.

    Raises:
        KernelRejected: not to this one.
    """
    if dialect is not Dialect.LEGACY:
        return
    if memory.endswith("hbm"):
        raise KernelRejected(
            f"nl.{function} makes a tensor in {memory} with a first value, which is not supported; "
            "create it with nl.ndarray and nl.store the value",
            "R015",
        )
    if placed:
        raise KernelRejected(
            f"nl.{function} gives a first value to a tile that ncc.{memory} places, which is not "
            "supported; create it with nl.ndarray and write the value",
            "R029",
        )


def check_shared(dialect: Dialect, label: str) -> None:
    """A tensor in shared HBM, which legacy kernels create outside their loops.

    Raises:
        KernelRejected: it is created in a loop.
    """
    if dialect is Dialect.LEGACY and loop_depth():
        raise KernelRejected(
            f"{label or 'a tensor'} in shared_hbm is created inside {loop_depth()} loop(s); create "
            "it at the kernel's top level",
            "R025",
        )


def check_place(
    dialect: Dialect,
    target: Target,
    shape: tuple[int, ...],
    element: DType,
    buffer: Buffer,
    place: tuple[int, int],
) -> None:
    """A place that the writer chose.

    Args:
        place: first partition, and first byte within a partition.

    Raises:
        KernelRejected: the memory has no such place, or not for this tile.
    """
    start, byte = place
    size = max(prod(shape[1:]), 1) * element.nbytes
    legacy = dialect is Dialect.LEGACY
    bank = target.integer("psum_bank_bytes")
    if buffer is Buffer.PSUM:
        code = "R049" if legacy else "R074"
        if byte % bank:
            raise KernelRejected(
                f"a PSUM tile starts at a bank: byte {byte} of a partition is no multiple of {bank}"
                f"; take {byte // bank * bank}",
                code,
            )
        if legacy and start:
            raise KernelRejected(
                f"a placed PSUM tile starts at partition 0, not at {start}; "
                "leave out base_partition",
                code,
            )
        if legacy and size > bank:
            raise KernelRejected(
                f"a placed PSUM tile stays within a bank of {bank} bytes a partition, this one has "
                f"{size}; split its free axes",
                code,
            )
        total = target.integer("psum_partition_bytes")
    else:
        code = "R050" if legacy else "R074"
        total = target.integer("sbuf_partition_bytes")
        if legacy and target.generation == 2:
            total -= target.integer("sbuf_reserved_bytes")
    if byte < 0 or byte + size > total:
        raise KernelRejected(
            f"a tile of {size} bytes a partition at byte {byte} ends beyond the {total} bytes of "
            f"{buffer.upper()} on {target.name}; place it lower or make it smaller",
            code,
        )
    partitions = target.integer("partitions")
    if start < 0 or start + shape[0] > partitions:
        raise KernelRejected(
            f"a tile of {shape[0]} partitions at partition {start} ends beyond the {partitions} "
            f"partitions of {buffer.upper()}",
            code,
        )
