"""The registry of what instructions compute, and how they read operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from accelopt_lsp.profiler.simulator.elements import Array
from accelopt_lsp.profiler.simulator.numerics.operators import (
    BINARY,
    IDENTITIES,
    as_float,
    operate,
    row_reduce,
    stored,
)

Inputs = Mapping[str, Array]
Attributes = Mapping[str, Any]
Results = dict[str, Any]
"""Result arrays by role, and what else an instruction says of them (:data:`WHERE`)."""
Numeric = Callable[[Inputs, Attributes], Results]


NUMERICS: dict[str, Numeric] = {}
"""Instruction id to its function: operand arrays by role and attributes to result arrays."""

REGISTERS = "registers"
"""Role under which an instruction is given its engine's accumulators, ``[P, 1]`` in float32, and
returns them."""

WHERE = "where"
"""Key of a mapping from role to the positions that an instruction writes at all."""

OUT = "out"
"""Key of the float32 array that a result goes to, offered to instructions in :data:`INTO`: they may
compute it there, and then return that array. It may overlap operands."""

INTO = frozenset(
    {"activation", "nc_matmul", "nc_transpose", "reciprocal", "tensor_scalar", "tensor_tensor"}
)
"""Instructions that can compute their result where it belongs."""

PARTIAL = frozenset(
    {"nc_stream_shuffle", "nonzero_with_count", "quantize_mx", "tensor_copy_predicated"}
)
"""Instructions that return :data:`WHERE`: the rest of their destinations stays as it is."""

KEPT = "kept"
"""Role of a destination's old content, which is a dependence but no input."""

PARTS: dict[str, Callable[[Array, Mapping[str, Any]], Array]] = {}
"""What of a tile operand an instruction reads, for those that do not read all of it."""

MOVES = frozenset({"local_gather", "nc_n_gather", "nc_stream_shuffle"})
"""Instructions that move elements of one type as they are."""

INDICES = frozenset({"index", "indices"})
"""Roles of operands of :data:`MOVES` that say what to move."""

GENERATORS = frozenset(
    {"dropout", "rand2", "rand_get_state", "rand_set_state", "rng", "set_rng_seed"}
)
"""Instructions that use or set an engine's random number generator, one state a lane."""

ACCUMULATORS: dict[str, str] = {
    "activation": "scalar",
    "activate2": "scalar",
    "exponential": "vector",
    "range_select": "vector",
    "select_reduce": "vector",
    "tensor_scalar_reduce": "vector",
    "tensor_scalar_cumulative": "vector",
}
"""Instructions that use accumulators, which all of one engine share (nisa.tensor_scalar_reduce)."""

REMARKS: list[str] = []
"""What an instruction has to say of its values; whoever runs it takes the remarks away."""


def computes(instruction: str) -> Callable[[Numeric], Numeric]:
    """Register the function of an instruction."""

    def register(function: Numeric) -> Numeric:
        NUMERICS[instruction] = function
        return function

    return register


def like(values: Array, data: Array) -> Array:
    """A tile of another shape with as many elements, or a [P, 1] vector, against ``data``."""
    if values.shape == data.shape:
        return values
    if values.size == data.size:
        return values.reshape(data.shape)
    return values.reshape(values.shape[0], *(1,) * (data.ndim - 1))


def operand_of(inputs: Inputs, attrs: Attributes, role: str, data: Array) -> Any:
    given = inputs.get(role)
    return attrs.get(role) if given is None else like(given, data)


def offered(inputs: Inputs, shape: tuple[int, ...]) -> Array | None:
    """Where a result of that shape may be computed; None for an array of its own."""
    out = inputs.get(OUT)
    return out if out is not None and out.shape == shape else None


def pair(
    op: str, a: Any, b: Any, reverse: bool, attrs: Attributes, out: Array | None = None
) -> Array:
    """One operator, with its operands swapped if ``reverse``; exact on GpSimd's integers."""
    exact = attrs.get("engine") == "gpsimd"
    return operate(op, b, a, exact, out) if reverse else operate(op, a, b, exact, out)


def finished(values: Array, attrs: Attributes) -> Array:
    """A result as the destination's type keeps it, where it is bits or exact integers."""
    return values if values.dtype == np.float32 else stored(values, attrs.get("dst"))


def accumulate(inputs: Inputs, attrs: Attributes, op: str, values: Array) -> Results:
    """What becomes of an engine's accumulators, and what is read out of them.

    ``reduce_cmd`` says how: reset (to the identity), reduce (on top of what is there), both, load
    (``reduce_init``) and reduce, or leave them alone (idle). Without one they are reset first.
    """
    command = attrs.get("reduce_cmd", "reset_reduce")
    state = inputs.get(REGISTERS)
    rows = values.shape[0]
    if command == "idle":
        after = state
    elif command == "reset":
        after = np.full((rows, 1), IDENTITIES[op], dtype=np.float32)
    else:
        after = as_float(row_reduce(op, values))
        if command == "load_reduce":
            state = operand_of(inputs, attrs, "reduce_init", after)
        if command != "reset_reduce" and state is not None:
            after = BINARY[op](as_float(state), after)
    if after is None:
        after = np.full((rows, 1), np.nan, dtype=np.float32)
    return {
        REGISTERS: after,
        "reduce_res": -after if attrs.get("reduce_res_negate") else after,
    }
