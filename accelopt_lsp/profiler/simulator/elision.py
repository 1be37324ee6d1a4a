"""Copies that a replay need not make.

A load brings a part of a tensor to a tile, and a copy brings a tile from PSUM to SBUF. Hardware has
to do that; a simulator may read the original instead, as long as nobody changes it or the copy.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from attrs import frozen

from accelopt_lsp.profiler.simulator.tensors import Tensor

if TYPE_CHECKING:
    from accelopt_lsp.profiler.simulator.memory import Memory
    from accelopt_lsp.profiler.simulator.plans import Step
    from accelopt_lsp.profiler.simulator.replay import Operation

COPIES = frozenset({"dma_copy", "tensor_copy"})
WORTHWHILE = 8192
"""Elements, for each view through which a copy is read, from which on making the copy takes longer
than finding the views in the original."""


def without_copies(
    operations: Sequence[Operation], kept: Container[Memory | None]
) -> Sequence[Operation]:
    """The operations, with operands that are read where they were copied from.

    Args:
        kept: memory that is needed afterwards.
    """
    copies, last = _copies(operations, kept)
    moved: dict[int, Tensor] = {}
    spared: set[int] = set()
    for at, reads in copies.items():
        step, tensors, *_ = operations[at]
        target, source = tensors[step.writes[0][1]], tensors[step.reads[0][1]]
        source = moved.get(id(source), source)
        if last.get(source.memory, -1) < at:
            found = _views(target, source, reads)
            if found is not None:
                moved.update(found)
                spared.add(at)
    if not spared:
        return operations
    remaining: list[Operation] = []
    for at, operation in enumerate(operations):
        if at in spared:
            continue
        step, tensors, line, accumulates, where = operation
        for tensor in tensors:
            if id(tensor) in moved:
                tensors = tuple([moved.get(id(t), t) for t in tensors])
                operation = (step, tensors, line, accumulates, where)
                break
        remaining.append(operation)
    return remaining


def _copies(
    operations: Sequence[Operation], kept: Container[Memory | None]
) -> tuple[dict[int, list[Tensor]], dict[Memory | None, int]]:
    """Operations that are all that is ever written to a memory, and copy something there.

    Returns:
        their positions, with the views through which the copy is read; and of each memory where
        it is written last.
    """
    last: dict[Memory | None, int] = {}
    views: dict[Memory | None, list[Tensor]] = {}
    found: dict[Memory | None, int] = {}
    needed: set[Memory | None] = set()
    """What must stay a copy: it is written again, or holds indices."""
    copying: dict[int, bool] = {}
    for at, (step, tensors, _, accumulates, where) in enumerate(operations):
        copies = copying.get(id(step))
        if copies is None:
            copies = copying[id(step)] = _is_copy(step)
        for _, into in step.writes:
            memory = tensors[into].memory
            if memory in last:
                needed.add(memory)
            elif copies and where is None and not accumulates and memory not in views:
                found[memory] = at
            last[memory] = at
        for tensor in tensors:
            if tensor.dynamic is not None and tensor.dynamic.tile is not None:
                # Its index is read through the view, not as an operand.
                needed.add(tensor.dynamic.tile.memory)
            known = views.get(tensor.memory)
            if known is None:
                views[tensor.memory] = [tensor]
            else:
                known.append(tensor)
    wanted = {m: at for m, at in found.items() if m not in needed and m not in kept}
    return {at: views[m] for m, at in wanted.items()}, last


def _is_copy(step: Step) -> bool:
    return (
        step.issue.op in COPIES
        and step.exact
        and not step.dynamic
        and len(step.reads) == len(step.writes) == 1
    )


def _views(target: Tensor, source: Tensor, views: Sequence[Tensor]) -> dict[int, Tensor] | None:
    """Views of a copy, by identity, as views of the original; None if the copy is needed."""
    copy, memory = target.memory, source.memory
    assert copy is not None and memory is not None
    count = copy.rows * copy.row
    apart = {id(view): view for view in views}
    if count < WORTHWHILE * len(apart) or prod(target.shape) != count or target.offset:
        return None
    if copy.raw or memory.raw or copy.element is not memory.element or copy.initial is not None:
        return None
    if target.element is not copy.element or source.element is not memory.element:
        return None
    original = _Original.of(target, source)
    if original is None:
        return None
    found = {}
    for name, view in apart.items():
        moved = original.view(view)
        if moved is None:
            return None
        found[name] = moved
    return found


@frozen(slots=True)
class _Original:
    """Where the elements of a copy stand in the original.

    Attributes:
        memory: of the original.
        offset: of its first element.
        axes: (stride in the copy, size, stride in the original), outermost in the copy first;
            neighbours that are one axis in both are merged.
    """

    memory: Memory
    offset: int
    axes: tuple[tuple[int, int, int], ...]

    @classmethod
    def of(cls, target: Tensor, source: Tensor) -> _Original | None:
        """From a copy of all of a memory; None if parts of a row do not stand in a row."""
        if target.shape != source.shape:
            return None
        axes: list[tuple[int, int, int]] = []
        inside = 1
        for stride, size, other in sorted(
            zip(target.strides, target.shape, source.strides, strict=True)
        ):
            if size == 1:
                continue
            if stride != inside or other < 0:
                return None
            inside *= size
            if axes and other == axes[0][2] * axes[0][1]:
                axes[0] = (axes[0][0], axes[0][1] * size, axes[0][2])
            else:
                axes.insert(0, (stride, size, other))
        # Products of columns that do not stand in a row would each be copied by BLAS.
        if not axes or axes[-1][2] != 1:
            return None
        assert source.memory is not None
        return cls(source.memory, source.offset, tuple(axes))

    def view(self, tensor: Tensor) -> Tensor | None:
        """A view of the copy as one of the original; None if there is none."""
        if tensor.dynamic is not None or tensor.fault is not None:
            return None
        if tensor.element is not self.memory.element:
            return None
        strides, extents = _steps(self.axes, tensor.shape, tensor.strides)
        if strides is None:
            return None
        rest, offset = tensor.offset, self.offset
        for (inner, size, other), extent in zip(self.axes, extents, strict=True):
            digit, rest = divmod(rest, inner)
            if digit + extent >= size:
                return None
            offset += digit * other
        return Tensor(self.memory, tensor.shape, strides, offset, tensor.element, tensor.buffer)


@lru_cache(maxsize=4096)
def _steps(
    axes: tuple[tuple[int, int, int], ...], shape: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[tuple[int, ...] | None, tuple[int, ...]]:
    """Strides in the original of a view of the copy, and how far it goes along each axis.

    The strides are None where the view steps across an axis.
    """
    found = []
    extents = [0] * len(axes)
    for size, stride in zip(shape, strides, strict=True):
        if size == 1 or stride == 0:
            found.append(0)
            continue
        # The outermost axis that the stride takes whole steps along.
        at = next((n for n, (inner, _, _) in enumerate(axes) if stride >= inner), None)
        if at is None or stride % axes[at][0]:
            return None, ()
        steps = stride // axes[at][0]
        extents[at] += (size - 1) * steps
        found.append(steps * axes[at][2])
    return tuple(found), tuple(extents)
