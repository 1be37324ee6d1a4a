"""Loads, stores, copies, gathers and random values of ``nki.language``."""

from __future__ import annotations

from accelopt_lsp.nki.dialects import Role, api

APIS = (
    api(
        "nl.load",
        Role.COMPUTE,
        "Copies a tensor from HBM into a new SBUF tile.",
        legacy="(src, *, mask=None, dtype=None)",
        current="(src, dtype=None)",
        since="0.3.0",
    ),
    api(
        "nl.store",
        Role.COMPUTE,
        "Copies a tile from SBUF to HBM.",
        legacy="(dst, value, *, mask=None)",
        current="(dst, value)",
        since="0.3.0",
    ),
    api(
        "nl.load_transpose2d",
        Role.COMPUTE,
        "Loads a 2-D tensor from HBM and transposes it.",
        legacy="(src, *, mask=None, dtype=None)",
        current="(src, dtype=None)",
    ),
    api(
        "nl.atomic_rmw",
        Role.COMPUTE,
        "Adds a tile to the rows of an HBM tensor that an index tile names.",
        legacy="(dst, value, op, *, mask=None)",
    ),
    api(
        "nl.gather_flattened",
        Role.COMPUTE,
        "Picks elements of each partition's flattened free axes by index.",
        legacy="(data, indices, *, mask=None, dtype=None)",
        current="(data, indices, axis=0, dtype=None)",
    ),
    api(
        "nl.copy",
        Role.COMPUTE,
        "Copies a tile within on-chip memory into a new SBUF tile.",
        legacy="(src, *, mask=None, dtype=None)",
        current="(x, dtype=None)",
    ),
    api(
        "nl.broadcast_to",
        Role.COMPUTE,
        "Broadcasts a tile; along partitions this costs Tensor Engine work.",
        legacy="(src, *, shape)",
        current="(x, shape, dtype=None)",
    ),
    api(
        "nl.dropout",
        Role.COMPUTE,
        "Zeroes elements at random, each with the given probability.",
        legacy="(x, rate, *, dtype=None, mask=None)",
        current="(x, rate, dtype=None)",
    ),
    api(
        "nl.rand",
        Role.COMPUTE,
        "A tile of random values, uniform between 0 and 1.",
        legacy="(shape, dtype='float32')",
        current="(shape, dtype, buffer='sbuf', name='')",
    ),
    api(
        "nl.random_seed",
        Role.COMPUTE,
        "Seeds the random number generator of the core.",
        legacy="(seed, *, mask=None)",
        current="(seed)",
    ),
)
