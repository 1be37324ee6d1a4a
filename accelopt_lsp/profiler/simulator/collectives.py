"""The stand-in for ``nki.collectives``: one rank, whose groups have no other member.

Over a single rank every collective moves its own source to its own destination. What other ranks
hold is nowhere given, so groups of several ranks are refused with a message.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.profiler.simulator import state as sessions
from accelopt_lsp.profiler.simulator.errors import KernelRejected, UnsupportedByKernel
from accelopt_lsp.profiler.simulator.library import entry_of
from accelopt_lsp.profiler.simulator.objects import NKIObject
from accelopt_lsp.profiler.simulator.registers import Register
from accelopt_lsp.profiler.simulator.tensors import Tensor

_NOTE = "a collective over one rank is simulated as a copy, and costs what the copy costs"
_LISTS = "(srcs, dsts, replica_group, {}priority=None, name=None)"
_SIGNATURES = {
    "all_reduce": _LISTS.format("op, "),
    "all_gather": _LISTS.format("collective_dim, "),
    "reduce_scatter": _LISTS.format("collective_dim, op, "),
    "all_to_all": _LISTS.format("collective_dim, "),
    "collective_permute": "(srcs, dsts, source_target_pairs, priority=None, name=None)",
    "collective_permute_implicit": "(srcs_by_channel, dsts_by_channel, replica_group, "
    "channel_ids=(0,), priority=None, name=None)",
}


class ReplicaGroup(NKIObject):
    """Groups of ranks that take part in a collective.

    Attributes:
        groups: lists of ranks.
    """

    groups: Any = None

    def ranks(self) -> list[list[int]]:
        """The groups as lists of numbers."""
        given = self.groups if isinstance(self.groups, list | tuple) else []
        return [[int(r) for r in g] if isinstance(g, list | tuple) else [int(g)] for g in given]


def _parameters(text: str) -> inspect.Signature:
    namespace: dict[str, Any] = {}
    exec(f"def call{text}: pass", namespace)  # noqa: S102 - our own table
    return inspect.signature(namespace["call"])


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for part in value:
            yield from _flat(part)
    else:
        yield value


def _alone(name: str, group: Any) -> None:
    """Check that this rank has no partner.

    Raises:
        UnsupportedByKernel: it has.
    """
    groups = group.ranks() if isinstance(group, ReplicaGroup) else [list(_flat(group))]
    if any(len(ranks) > 1 for ranks in groups):
        size = max(len(ranks) for ranks in groups)
        raise UnsupportedByKernel(
            f"accelopt's simulator runs one rank: nki.collectives.{name} over {size} ranks needs "
            "what the others hold; simulate with groups of one rank"
        )


def _collective(name: str, signature: inspect.Signature) -> Callable[..., None]:
    copy = entry_of("nisa.dma_copy", Dialect.CURRENT)

    def function(*args: Any, **kwargs: Any) -> None:
        session = sessions.active()
        session.flush()
        try:
            bound = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise KernelRejected(f"nki.collectives.{name}: {error}", "R101") from None
        pairs = bound.get("source_target_pairs")
        _alone(name, [r for p in pairs for r in p if r] if pairs is not None else None)
        if "replica_group" in bound:
            _alone(name, bound["replica_group"])
        sources = list(_flat(bound.get("srcs", bound.get("srcs_by_channel"))))
        targets = list(_flat(bound.get("dsts", bound.get("dsts_by_channel"))))
        _check(name, sources, targets)
        session.notes.setdefault(_NOTE)
        for src, dst in zip(sources, targets, strict=True):
            session.invoke(copy, copy.bind((dst, src), {}), sys._getframe(1))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``nki.collectives.{name}`` over a single rank."
    return function


def _check(name: str, sources: Iterable[Any], targets: Iterable[Any]) -> None:
    first, second = list(sources), list(targets)
    if len(first) != len(second) or not all(isinstance(t, Tensor) for t in (*first, *second)):
        raise KernelRejected(
            f"nki.collectives.{name} takes as many source tensors as destinations, got "
            f"{len(first)} and {len(second)}",
            "R101",
        )
    if len({t.buffer for t in (*first, *second)}) > 1:
        raise KernelRejected(
            f"nki.collectives.{name}: all tensors must be in HBM, or all in SBUF", "R034"
        )


def _refused(name: str) -> Callable[..., Any]:
    def function(*_: Any, **__: Any) -> Any:
        raise UnsupportedByKernel(f"accelopt's simulator does not know nki.collectives.{name}")

    function.__name__ = function.__qualname__ = name
    return function


def rank_id(name: str | None = None) -> Register:
    """The rank of this process: the only one."""
    sessions.active()
    return Register(0)


def _current_rank(
    iteration_id: Any, replica_group: Any, channel_id: int = 0, name: str | None = None
) -> Register:
    """The rank whose data a ring is processing: always the only one."""
    _alone("collective_permute_implicit_current_processing_rank_id", replica_group)
    return Register(0)


def collectives() -> dict[str, Any]:
    """Everything that ``nki.collectives`` holds."""
    names: dict[str, Any] = {
        name: _collective(name, _parameters(text)) for name, text in _SIGNATURES.items()
    }
    for name in ("all_gather_v", "all_to_all_v", "collective_permute_implicit_reduce"):
        names[name] = _refused(name)
    names.update(
        ReplicaGroup=ReplicaGroup,
        rank_id=rank_id,
        collective_permute_implicit_current_processing_rank_id=_current_rank,
    )
    return names
