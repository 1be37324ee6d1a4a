"""Prepared calls, found again by what they are called with."""

from __future__ import annotations

from typing import Any

from accelopt_lsp.profiler.simulator.abridging_values import LoopValue
from accelopt_lsp.profiler.simulator.indexing import Affine
from accelopt_lsp.profiler.simulator.masks import Mask
from accelopt_lsp.profiler.simulator.plans import Plan, described
from accelopt_lsp.profiler.simulator.tensors import Tensor

_CONVERTED = frozenset({list, tuple, Mask})


class Calls:
    """Calls of one function whose arguments have the same Python types.

    With the types settled, it is known which arguments are tensors, and those that compare equal
    are alike: 1, 1.0 and True never meet.

    Attributes:
        plans: key of a call to its plan.
        tensors: positions of tensors among the parameters.
        others: positions of what :func:`keyed` must make part of a key.
    """

    __slots__ = ("others", "plans", "tensors")

    def __init__(self, kinds: tuple[Any, ...]) -> None:
        self.plans: dict[tuple[Any, ...], Plan] = {}
        self.tensors = tuple([at for at, kind in enumerate(kinds) if kind is Tensor])
        self.others = tuple([at for at, kind in enumerate(kinds) if kind in _CONVERTED])


def keyed(value: Any) -> Any:
    """An argument, or a part of one, as part of a key."""
    if type(value) is LoopValue:
        return value.fix()
    if isinstance(value, Tensor):
        return id(value.operand or value.typed())
    if isinstance(value, list | tuple):
        return tuple([keyed(v) for v in value])
    if isinstance(value, Affine | Mask):
        return described(value)
    if isinstance(value, float):
        return type(value), value
    return value
