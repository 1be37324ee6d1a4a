"""What the engines' sequencers do: ``nisa.register_*`` and the loops over registers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from enum import StrEnum
from types import FrameType
from typing import Any, Self

import numpy as np
from attrs import evolve

from accelopt_lsp.nki.apis import APIS
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.dtypes import Kind
from accelopt_lsp.profiler.simulator import cores
from accelopt_lsp.profiler.simulator import state as sessions
from accelopt_lsp.profiler.simulator.elements import Array
from accelopt_lsp.profiler.simulator.errors import KernelRejected
from accelopt_lsp.profiler.simulator.indexing import counted, decide
from accelopt_lsp.profiler.simulator.library import entry_of
from accelopt_lsp.profiler.simulator.registers import Number, Register
from accelopt_lsp.profiler.simulator.session import Session
from accelopt_lsp.profiler.simulator.tensors import Tensor

Effect = Callable[[Any, Any], dict[str, Array]]


def _running(name: str) -> Session:
    session = sessions.current()
    if session is None:
        raise KernelRejected(
            f"{name} was called outside a kernel; call it in a function decorated with nki.jit",
            "R022",
        )
    session.flush()
    decide()
    return session


def _issue(
    session: Session,
    name: str,
    bound: dict[str, Any],
    operands: dict[str, Tensor],
    effect: Effect,
    frame: FrameType,
) -> None:
    """One instruction that reads or writes registers; ``effect`` is what it does to them."""
    plan = session.plan(entry_of(name, Dialect.CURRENT), bound)
    step = evolve(plan.steps[0], numeric=effect)
    _, line = session.locate(frame)
    session._issue(plan, 0, step, operands, None, line, False, False, None)


def register_alloc(x: Any = None) -> Register:
    """A new register, empty or with a first number."""
    session = _running("nisa.register_alloc")
    register = Register(written=False)
    if x is None:
        return register
    if isinstance(x, Tensor):
        _load(session, register, x, sys._getframe(1))
    else:
        _move(session, register, x, sys._getframe(1))
    return register


def register_move(dst: Any, src: Any = None, imm: Any = None) -> None:
    """``dst = src``: a number (``imm`` up to NKI 0.2), or another register."""
    session = _running("nisa.register_move")
    _check(dst, "nisa.register_move")
    value = imm if src is None else src
    if isinstance(value, Tensor):
        raise KernelRejected(
            "nisa.register_move takes a number or a register; a tile is read by nisa.register_load",
            "R101",
        )
    _move(session, dst, value, sys._getframe(1))


def register_load(dst: Any, src: Any) -> None:
    """``dst = src[0]``."""
    session = _running("nisa.register_load")
    _check(dst, "nisa.register_load")
    if not isinstance(src, Tensor):
        raise KernelRejected(
            f"nisa.register_load reads a tensor, got {type(src).__name__}; a number is put into "
            "a register by nisa.register_move",
            "R101",
        )
    _load(session, dst, src, sys._getframe(1))


def register_store(dst: Any, src: Any) -> None:
    """``dst[0] = src``."""
    session = _running("nisa.register_store")
    if not (isinstance(dst, Tensor) and isinstance(src, Register)):
        raise KernelRejected("nisa.register_store writes a register to a tensor", "R101")
    if not src.written:
        src.known("nisa.register_store")

    def effect(inputs: Any, attrs: Any) -> dict[str, Array]:
        return {"dst": np.full(dst.shape, src.known("nisa.register_store"))}

    bound = {"dst": dst, "src": None}
    _issue(session, "nisa.register_store", bound, {"dst": dst}, effect, sys._getframe(1))


def _move(session: Session, dst: Register, value: Any, frame: FrameType) -> None:
    if isinstance(value, bool | np.bool_):
        value = int(value)
    if isinstance(value, int | float | np.integer | np.floating):
        number: Number = value.item() if isinstance(value, np.generic) else value
        _check_range(number)
        value = Register(number)
    if not isinstance(value, Register):
        raise KernelRejected(f"a register holds a number, got {value!r}", "R101")
    if not value.written:
        value.known("nisa.register_move")
    origin = value

    def effect(inputs: Any, attrs: Any) -> dict[str, Array]:
        dst.value = origin.value
        return {}

    dst.value, dst.written = origin.value, True
    dst.source, dst.storage = origin.source, origin.storage
    _issue(session, "nisa.register_move", {"dst": None, "src": None}, {}, effect, frame)


def _check_range(number: Number) -> None:
    if isinstance(number, int) and not -(1 << 31) <= number < 1 << 32:
        raise KernelRejected(f"{number} does not fit a register of 32 bits", "R084")


def _load(session: Session, dst: Register, src: Tensor, frame: FrameType) -> None:
    whole = src.element.kind is not Kind.FLOAT

    def effect(inputs: Any, attrs: Any) -> dict[str, Array]:
        value = inputs["src"].reshape(-1)[0].item()
        dst.value = int(value) if whole else value
        return {}

    dst.value, dst.written = None, True
    dst.source, dst.storage = src.name, src.settle().id
    _issue(session, "nisa.register_load", {"dst": None, "src": src}, {"src": src}, effect, frame)


def _check(register: Any, name: str) -> None:
    if not isinstance(register, Register):
        raise KernelRejected(
            f"{name} writes to a register of nisa.register_alloc, got {type(register).__name__}",
            "R101",
        )
    if register.frozen:
        raise KernelRejected("the variable of a loop is read-only", "R084")


# Cores that meet.


def _meeting(name: str, then: Callable[..., None]) -> Callable[..., Any]:
    entry = entry_of(f"nisa.{name}", Dialect.CURRENT)

    def function(*args: Any, **kwargs: Any) -> None:
        session = _running(entry.name)
        frame = sys._getframe(1)
        bound = entry.bind(args, kwargs)
        plan = session.plan(entry, bound)
        _, line = session.locate(frame)
        step = evolve(plan.steps[0], reads=(), writes=())
        session._issue(plan, 0, step, bound, None, line, False, False, None)
        then(session, bound, plan, line)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = entry.api.summary
    return function


def sequencer_functions() -> dict[str, Any]:
    """Functions of ``nki.isa`` that registers and cores need (current dialect)."""
    return {
        "register_alloc": register_alloc,
        "register_move": register_move,
        "register_load": register_load,
        "register_store": register_store,
        "VirtualRegister": Register,
        "sendrecv": _meeting("sendrecv", cores.sendrecv),
        "core_barrier": _meeting("core_barrier", cores.core_barrier),
        "dma_engine": DmaEngine,
    }


def loop_functions() -> dict[str, Any]:
    """Functions of ``nki.language`` for loops of the hardware, and for order (current dialect)."""
    return {
        "dynamic_range": dynamic_range,
        "fori_loop": fori_loop,
        "while_loop": while_loop,
        "no_reorder": NoReorder,
    }


class DmaEngine(StrEnum):
    """``nisa.dma_engine``."""

    dma = "dma"
    gpsimd_dma = "gpsimd_dma"


# Loops that the hardware runs.


def _bound(value: Any, what: str) -> int:
    if isinstance(value, Register):
        return value.integer(what)
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise KernelRejected(f"{what} must be an integer or a register, got {value!r}", "R084")
    return int(value)


def _step(value: Any, loop: str) -> int:
    if isinstance(value, Register) or not isinstance(value, int | np.integer) or int(value) < 1:
        given = "a register" if isinstance(value, Register) else repr(value)
        raise KernelRejected(
            f"the step of {loop} must be a positive integer that is known when the kernel is "
            f"compiled, got {given}",
            "R084",
        )
    return int(value)


def _hardware_loop(name: str) -> Session:
    session = _running(name)
    session.require(APIS[name])
    if session.in_order:
        raise KernelRejected(
            f"{name} inside nl.no_reorder is not supported; put no_reorder into the loop's body",
            "R084",
        )
    return session


def dynamic_range(start: Any, stop: Any = None, step: Any = 1) -> Iterator[Register]:
    """``nl.dynamic_range``: a loop of the hardware; its variable is a read-only register."""
    name = "nl.dynamic_range"
    _hardware_loop(name)
    if stop is None:
        start, stop = 0, start
    stride = _step(step, name)
    first, end = _bound(start, f"the start of {name}"), _bound(stop, f"the end of {name}")
    return _registers(range(first, end, stride))


def _registers(span: range) -> Iterator[Register]:
    for index in counted(span):
        yield Register(int(index), frozen=True)


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Register], Any], step: Any = 1) -> None:
    """``nl.fori_loop``: ``body_fun(i)`` for every ``i`` from ``lower`` up to ``upper``."""
    name = "nl.fori_loop"
    _hardware_loop(name)
    stride = _step(step, name)
    first, end = _bound(lower, f"the start of {name}"), _bound(upper, f"the end of {name}")
    for index in counted(range(first, end, stride)):
        # Writing to the variable changes this copy, never the loop.
        if body_fun(Register(int(index))) is not None:
            raise KernelRejected(
                "the body of nl.fori_loop returns nothing; keep values in tensors outside", "R084"
            )


def while_loop(init: Any, body_fun: Callable[[Register], Any]) -> None:
    """``nl.while_loop``: ``r = body_fun(r)`` as long as ``r`` is not 0."""
    name = "nl.while_loop"
    _hardware_loop(name)
    condition = init
    while True:
        if not isinstance(condition, Register):
            place = "starts with" if condition is init else "has a body that returns"
            raise KernelRejected(
                f"{name} {place} {type(condition).__name__}; it needs a register", "R084"
            )
        if not condition.known(f"the condition of {name}"):
            return
        passed = Register(condition.value, source=condition.source, storage=condition.storage)
        condition = body_fun(passed)


class NoReorder:
    """``nl.no_reorder()``: instructions inside keep their order, and hold no hardware loop."""

    def __enter__(self) -> Self:
        _running("nl.no_reorder").in_order += 1
        return self

    def __exit__(self, *_: object) -> None:
        session = sessions.current()
        if session is not None:
            session.in_order -= 1
