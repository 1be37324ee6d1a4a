"""Tensors that all programs of a launch grid have in common (``nl.shared_hbm``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accelopt_lsp.nki.dtypes import DType

if TYPE_CHECKING:
    from accelopt_lsp.profiler.simulator.tensors import Tensor

Key = tuple[str, tuple[int, ...], str, int]


class SharedTensors:
    """Finds the tensor that another program made by the same call.

    Every program runs the same text and makes its own call; calls belong together if they give
    tensors of the same name, shape and type, first with first, second with second. A name is
    the one that the call gives, else the variable that it is assigned to.

    Attributes:
        counts: how many such tensors the running program has made.
    """

    def __init__(self) -> None:
        self.counts: dict[tuple[str, tuple[int, ...], str], int] = {}
        self._tensors: dict[Key, Tensor] = {}

    def key(self, name: str, shape: tuple[int, ...], element: DType) -> Key:
        """Identity of the next tensor of this kind that the running program makes."""
        kind = (name, shape, element.name)
        number = self.counts[kind] = self.counts.get(kind, -1) + 1
        return (*kind, number)

    def get(self, key: Key) -> Tensor | None:
        return self._tensors.get(key)

    def put(self, key: Key, tensor: Tensor) -> None:
        self._tensors[key] = tensor
