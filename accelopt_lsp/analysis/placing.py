"""Where and how tensors are created: first values, loops, places of the writer's choice.

Sources: legacy error catalogue and guide to direct allocation (SDK 2.26); migration guide for
``address=`` of the current dialect.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from math import prod
from typing import Any

from accelopt_lsp.analysis.machine import Machine
from accelopt_lsp.analysis.rejections import argument_node
from accelopt_lsp.analysis.values import ListValue, Placement, Ref, Storage, Value
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.operands import Buffer

_BANK = 2048


def placement(m: Machine, path: str, kwargs: Mapping[str, Value]) -> Value:
    """What ``ncc.sbuf.mod_alloc(...)`` and its siblings give."""
    chosen = path.endswith((".alloc", ".mod_alloc"))
    if chosen and not m.placed:
        m.placed, m.placed_line = True, m.line
    for buffer in (Buffer.SBUF, Buffer.PSUM):
        if path.startswith(f"ncc.{buffer.value}."):
            if not chosen:
                return buffer
            byte = _byte(kwargs) if path.endswith(".mod_alloc") else None
            partition = kwargs.get("base_partition", 0)
            known = isinstance(partition, int)
            tiles = _tiles(kwargs, buffer)
            return Placement(buffer, byte if known else None, partition if known else 0, tiles)
    return None


def _byte(kwargs: Mapping[str, Value]) -> int | None:
    address, bank = kwargs.get("base_addr", 0), kwargs.get("base_bank", 0)
    if not isinstance(address, int) or not isinstance(bank, int):
        return None
    return address + bank * _BANK


def _tiles(kwargs: Mapping[str, Value], buffer: Buffer) -> int:
    """How many places tiles rotate over; 1 where that is not known."""
    name = "num_bank_tiles" if buffer is Buffer.PSUM else "num_free_tiles"
    given = kwargs.get(name, ())
    items: Any = given.items if isinstance(given, ListValue) else given
    if isinstance(items, int):
        items = (items,)
    if not isinstance(items, tuple | list) or not all(isinstance(n, int) for n in items):
        return 1
    return max(1, prod(items))


def check_creation(
    m: Machine,
    node: ast.AST,
    name: str,
    bound: Mapping[str, Value],
    storage: Storage,
    *,
    valued: bool,
) -> None:
    """Rules on one tensor that was just created."""
    given = bound.get("buffer")
    storage.memory = given.last if isinstance(given, Ref) else str(given or storage.buffer.value)
    if isinstance(given, Placement):
        storage.memory = storage.buffer.value
        storage.placed = True
        # The legacy compiler sees a loop's body once: numbers that loops count on are others there.
        if given.byte is not None and not m.carries:
            last = given.byte + (min(given.tiles, storage.block_count) - 1) * _step(storage)
            check_place(
                m, argument_node(node, "buffer"), storage, given.partition, given.byte, last
            )
    address = bound.get("address")
    items: Any = address.items if isinstance(address, ListValue) else address
    if isinstance(items, tuple | list) and len(items) == 2:
        storage.placed = True
        start, byte = items
        if isinstance(start, int) and isinstance(byte, int):
            check_place(m, argument_node(node, "address"), storage, start, byte, byte)
    if m.dialect is Dialect.LEGACY:
        _check_legacy(m, node, name, storage, valued=valued)


def _step(storage: Storage) -> int:
    return _BANK if storage.buffer is Buffer.PSUM else storage.partition_bytes


def _check_legacy(m: Machine, node: ast.AST, name: str, storage: Storage, *, valued: bool) -> None:
    where = argument_node(node, "buffer")
    if valued and storage.memory.endswith("hbm"):
        m.find(
            "R015",
            f"{name} makes a tensor in {storage.memory} with a first value, which is not "
            "supported; create it with nl.ndarray and nl.store the value",
            where,
        )
    elif valued and storage.placed:
        m.find(
            "R029",
            f"{name} gives a first value to a tile that ncc.{storage.memory} places, which is not "
            "supported; create it with nl.ndarray and write the value",
            where,
        )
    depth = sum((v.line, v.name) in m.loop_kinds for v in m.loops)
    if storage.memory == "shared_hbm" and depth:
        m.find(
            "R025",
            f"a tensor in shared_hbm is created inside {depth} loop(s); create it at the kernel's "
            "top level",
            where,
        )


def check_place(
    m: Machine, node: ast.AST, storage: Storage, start: int, byte: int, last: int
) -> None:
    """R049, R050 and R074 for a place that the writer chose.

    Args:
        start: first partition.
        byte, last: first byte in a partition of the first and of the last tile.
    """
    legacy = m.dialect is Dialect.LEGACY
    buffer, size, target = storage.buffer, storage.partition_bytes, m.target
    bank = target.integer("psum_bank_bytes")
    code = "R074" if not legacy else "R049" if buffer is Buffer.PSUM else "R050"
    if buffer is Buffer.PSUM:
        total = target.integer("psum_partition_bytes")
        if byte % bank:
            text = (
                f"a PSUM tile starts at a bank: byte {byte} of a partition is no multiple of "
                f"{bank}; take {byte // bank * bank}"
            )
            m.find(code, text, node)
            return
        if legacy and start:
            m.find(code, f"a placed PSUM tile starts at partition 0, not at {start}", node)
            return
        if legacy and size > bank:
            text = (
                f"a placed PSUM tile stays within a bank of {bank} bytes a partition, this one "
                f"has {size}; split its free axes"
            )
            m.find(code, text, node)
            return
    else:
        total = target.integer("sbuf_partition_bytes")
        if legacy and target.generation == 2:
            total -= target.integer("sbuf_reserved_bytes")
    if byte < 0 or last + size > total:
        text = (
            f"a tile of {size} bytes a partition at byte {last if byte >= 0 else byte} ends beyond "
            f"the {total} bytes of {buffer.upper()} on {target.name}; place it lower or make it "
            "smaller"
        )
        m.find(code, text, node)
    partitions = target.integer("partitions")
    if start < 0 or start + storage.tile_shape[0] > partitions:
        text = (
            f"a tile of {storage.tile_shape[0]} partitions at partition {start} ends beyond the "
            f"{partitions} partitions of {buffer.upper()}"
        )
        m.find(code, text, node)
