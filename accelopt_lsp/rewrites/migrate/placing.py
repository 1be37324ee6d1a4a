"""Tiles that the writer placed: ``ncc.sbuf.mod_alloc(...)`` as ``address=(partition, byte)``."""

from __future__ import annotations

import ast
from math import prod
from typing import TYPE_CHECKING

from accelopt_lsp.analysis.rules.migration.scan import canonical_name
from accelopt_lsp.analysis.values import Blocks, View
from accelopt_lsp.rewrites.migrate.calls import LegacyCall
from accelopt_lsp.rewrites.migrate.linear import plus, times

if TYPE_CHECKING:
    from accelopt_lsp.rewrites.migrate.writer import Writer

_BANK_BYTES = 2048


def placed_memory(w: Writer, call: LegacyCall, allocator: ast.Call) -> tuple[str, str]:
    """Buffer and address of one tile; ``block_0`` and so on number the blocks.

    Raises:
        NotApplicable: an allocator of the writer's own, or tiles beside each other on partitions.
    """
    name = canonical_name(allocator.func, w.aliases) or ""
    value = w.obs.value(call.node)
    if not name.endswith(".mod_alloc") or not isinstance(value, View | Blocks):
        raise w.refusal(allocator, "an allocator of its own; give each tile its address= by hand")
    given = {k.arg: k.value for k in allocator.keywords}
    if allocator.args or not set(given) <= {
        "base_addr",
        "base_bank",
        "base_partition",
        "num_free_tiles",
        "num_bank_tiles",
        "num_par_tiles",
    }:
        raise w.refusal(allocator, "this form of mod_alloc; give each tile its address= by hand")
    partitions = given.get("num_par_tiles")
    if partitions is not None and prod(_numbers(w, partitions)) > 1:
        raise w.refusal(allocator, "tiles beside each other on partitions")
    storage = value.storage
    psum = name.startswith("ncc.psum.")
    counts = given.get("num_bank_tiles") if psum else given.get("num_free_tiles")
    numbers = _numbers(w, counts) if counts is not None else (1,) * storage.blocks
    if psum and "num_free_tiles" in given and prod(_numbers(w, given["num_free_tiles"])) > 1:
        raise w.refusal(allocator, "several tiles in one bank of PSUM")
    if len(numbers) != storage.blocks:
        raise w.refusal(allocator, "a number of tiles that does not fit the block dimensions")
    size = _BANK_BYTES if psum else prod(storage.tile_shape[1:]) * storage.dtype.nbytes
    place = "0"
    stride = 1
    for dim in reversed(range(storage.blocks)):
        if numbers[dim] > 1:
            place = plus(times(f"block_{dim} % {numbers[dim]}", str(size * stride)), place)
        stride *= numbers[dim]
    base = given.get("base_bank" if psum else "base_addr")
    start = w.text(base) if base is not None else "0"
    if psum:
        start = times(start, str(_BANK_BYTES))
    partition = given.get("base_partition")
    first = w.text(partition) if partition is not None else "0"
    return f"{w.nl}.{'psum' if psum else 'sbuf'}", f"({first}, {plus(start, place)})"


def _numbers(w: Writer, node: ast.expr) -> tuple[int, ...]:
    value = w.obs.value(node)
    if isinstance(value, tuple) and all(isinstance(v, int) for v in value):
        return value
    raise w.refusal(node, "numbers of tiles that are not known")
