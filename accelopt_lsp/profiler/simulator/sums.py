"""Whether a matrix product adds to what its destination holds (current dialect)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accelopt_lsp.profiler.simulator.abridging_values import fixed
from accelopt_lsp.profiler.simulator.errors import KernelRejected
from accelopt_lsp.profiler.simulator.memory import FULL

if TYPE_CHECKING:
    from accelopt_lsp.profiler.simulator.plans import Step
    from accelopt_lsp.profiler.simulator.session import Session
    from accelopt_lsp.profiler.simulator.tensors import Tensor


def accumulates(session: Session, step: Step, bound: dict[str, Any], result: Tensor | None) -> bool:
    """Whether a product adds to its destination: by its argument, else after the first one."""
    target: Tensor = result if result is not None else bound["dst"]
    wish = step.issue.attr("accumulate")
    # Whether places of other products meet this one is compared as plain numbers.
    fixed(target.offset)
    memory = target.settle()
    place = (target._region or target.region())[1:]
    known = memory.products
    if known is None:
        known = memory.products = []
        before = False
    else:
        before = place in known or any(_overlap(place, other) for other in known)
    if place not in known:
        known.append(place)
    if wish is None:
        return before
    if wish and not before and session.valued:
        _check(session, target)
    return bool(wish)


def _check(session: Session, target: Tensor) -> None:
    """A product that adds to what no product wrote.

    Raises:
        KernelRejected: nothing wrote it at all.
    """
    memory = target.settle()
    written = memory.writes > 0 or memory.initial is not None
    if written and session.full and memory.state != FULL:
        unwritten = memory.poisoned(memory.view(target), target)
        written = unwritten is None or not unwritten.all()
    name = memory.name or "a tile"
    if not written:
        raise KernelRejected(
            f"accumulate=True adds to {name} (created on line {memory.line}), shape "
            f"{list(target.shape)}, which nothing wrote; the first product takes "
            "accumulate=False, or leave it out",
            "R071",
        )
    if session.target.generation < 4:
        session.notes.setdefault(
            f"a product adds to {name} (created on line {memory.line}), which was not written "
            f"by a product: undefined on NeuronCore-v{session.target.generation}"
        )


def _overlap(a: tuple[int, int, int, int], b: tuple[int, int, int, int]) -> bool:
    return a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]
