"""The situation of a kernel, as tags that the optimization memory compares."""

from __future__ import annotations

import math

from accelopt_lsp.agents.gates import input_bytes, tensor_specs, widest_float
from accelopt_lsp.agents.normalise import loop_depth
from accelopt_lsp.agents.roles import Problem, Tags
from accelopt_lsp.nki.arguments import KernelArguments, TensorSpec
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.nki.targets import Target

NOTABLE_SHARE = 0.1
"""An engine that is busy for this share of the latency is part of the situation."""
LOPSIDED = 4
"""Rows over columns, or columns over rows, from which on a tensor is tall or wide."""


def tags_of(problem: Problem, source: str, profile: Profile) -> Tags:
    """The situation of one kernel, for retrieval."""
    return Tags(
        instructions=tuple(sorted(profile.issued.instructions)),
        bottleneck=profile.bound.value if profile.bound else None,
        loop_pattern=f"nest{loop_depth(source, problem.function)}",
        dtype=widest_float(problem.arguments).short,
        dialect=problem.dialect.value,
        target=problem.target.name,
        engines=busy_engines(profile),
        shape_class=shape_class(problem.arguments, problem.target),
    )


def busy_engines(profile: Profile) -> tuple[str, ...]:
    """Engines busy for at least :data:`NOTABLE_SHARE` of the latency, by name."""
    if not profile.latency_ms:
        return ()
    least = NOTABLE_SHARE * profile.latency_ms
    return tuple(sorted(name for name, ms in profile.engine_busy_ms.items() if ms >= least))


def shape_class(arguments: KernelArguments, target: Target) -> str | None:
    """Kind of the tensor arguments, which decides what blocking and hoisting can do.

    Rank of the largest one; whether all together fit in SBUF at once or must stream through it;
    whether the largest is tall, wide or square in its first and last axis; and whether rows do
    not come in whole partitions. None if there are no tensors of known shape.
    """
    tensors = [spec for spec in tensor_specs(arguments) if spec.shape]
    if not tensors:
        return None
    largest = max(tensors, key=lambda t: (_bytes(t), t.shape))
    room = target["partitions"] * target["sbuf_partition_bytes"]
    fits = input_bytes(arguments) <= room
    rows, columns = largest.shape[0], largest.shape[-1]
    aspect = "square"
    if len(largest.shape) == 1 or columns >= LOPSIDED * rows:
        aspect = "wide"
    elif rows >= LOPSIDED * columns:
        aspect = "tall"
    parts = [f"{len(largest.shape)}d", "fits" if fits else "streams", aspect]
    if any(t.shape[0] % target.integer("partitions") for t in tensors if len(t.shape) > 1):
        parts.append("ragged")
    return "-".join(parts)


def _bytes(tensor: TensorSpec) -> int:
    return math.prod(tensor.shape) * tensor.dtype.nbytes
