"""Which inputs of a kernel the contents of a tensor come from, read off the trace."""

from __future__ import annotations

from collections.abc import Sequence

from accelopt_lsp.nki.instructions import INSTRUCTIONS
from accelopt_lsp.profiler.simulator.trace import Trace


def origins(trace: Trace, storage: int, inputs: Sequence[int]) -> list[int]:
    """Storages of inputs that a storage's contents come from, nearest first.

    Args:
        inputs: storages of the kernel's arguments.
    """
    wanted = {storage}
    found: dict[int, None] = {}
    if storage in inputs:
        found[storage] = None
    for code, regions in reversed(trace.records):
        issue = trace.templates[code].issue
        spec = INSTRUCTIONS[issue.op]
        written: list[int] = []
        read: list[int] = []
        for (role, _), region in zip(issue.operands, regions, strict=False):
            operand = spec.operand(role)
            (written if operand is not None and operand.written else read).append(region[0])
        if wanted.isdisjoint(written):
            continue
        wanted.update(read)
        found.update((s, None) for s in read if s in inputs)
    return list(found)
