"""Registers of the engines' sequencers: what ``nisa.register_alloc`` returns.

A register holds one 32-bit number that exists while the kernel runs on the device. Here its
value is known as soon as somebody computes values; while only shapes are traced it may be
unknown, and control flow that needs it then stops with a message that says how to give it.
"""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from accelopt_lsp.profiler.simulator import state as sessions
from accelopt_lsp.profiler.simulator.errors import KernelRejected, ValuesNeeded
from accelopt_lsp.profiler.simulator.origins import origins

Number = int | float


class Register:
    """A virtual register.

    A trace that is computed afterwards sets ``value`` again whenever it passes an instruction
    that writes the register, so whoever reads it at that time sees the device's value.

    Attributes:
        value: what it holds; None while it is unknown, or was never written.
        written: something was put into it.
        source: name of the tensor that the value came from, for messages.
        storage: that tensor's storage in the trace.
        frozen: variable of a loop, which kernels cannot write to.
    """

    __slots__ = ("frozen", "source", "storage", "value", "written")

    def __init__(
        self,
        value: Number | None = None,
        *,
        written: bool = True,
        source: str = "",
        storage: int | None = None,
        frozen: bool = False,
    ) -> None:
        self.value = value
        self.written = written
        self.source = source
        self.storage = storage
        self.frozen = frozen

    def known(self, purpose: str) -> Number:
        """Its value.

        Args:
            purpose: what needs it, for the message.

        Raises:
            ValuesNeeded: only shapes are traced, and nothing says what it holds.
            KernelRejected: it was never written.
        """
        if not self.written:
            raise KernelRejected(
                f"{purpose} reads a register that was never written; give register_alloc a "
                "number, or load it with nisa.register_load",
                "R099",
            )
        if self.value is None:
            raise ValuesNeeded(self._what_is_missing(purpose), "R012")
        return self.value

    def _what_is_missing(self, purpose: str) -> str:
        """Message that names the tensor and the arguments that would give its value."""
        session = sessions.active()
        name = self.source or "a tensor"
        arguments: list[str] = []
        if self.storage is not None:
            inputs = {t.settle().id: t.settle().name for t in session.inputs}
            arguments = [inputs[s] for s in origins(session.trace, self.storage, list(inputs))]
        message = f"{purpose} depends on the value of {name}"
        if arguments and arguments != [name]:
            message += f", which comes from {', '.join(arguments[:4])}"
        options = " ".join(f"--arg {a}=@{a}.npy" for a in arguments[:4]) or "--arg NAME=@file.npy"
        return (
            f"{message}; while only shapes are traced it is unknown: give values with {options}, "
            "or a reference that makes inputs"
        )

    def integer(self, purpose: str) -> int:
        """Its value as an index or a bound.

        Raises:
            KernelRejected: it holds a fraction.
        """
        value = self.known(purpose)
        if value != int(value):
            raise KernelRejected(f"{purpose} needs an integer, the register holds {value}", "R084")
        return int(value)

    def __repr__(self) -> str:
        return f"register({'?' if self.value is None else self.value})"

    def __bool__(self) -> bool:
        site = sessions.active().sources
        frame = sys._getframe(1)
        text = site.text(frame.f_code.co_filename, frame.f_lineno).lstrip()
        if text.startswith(("if ", "if(", "elif ", "elif(")):
            raise KernelRejected(
                "a register cannot decide an if: the hardware has loops over registers only "
                "(nl.fori_loop, nl.while_loop, while register)",
                "R012",
            )
        return bool(self.known("this while loop"))

    def __eq__(self, other: object) -> bool:
        if other is None or isinstance(other, str):
            return False
        if not isinstance(other, Register):
            self._no_arithmetic(other)
        return self is other

    __hash__ = object.__hash__

    def _no_arithmetic(self, *_: Any) -> NoReturn:
        raise KernelRejected(
            "Python cannot compute with a register, its value exists on the device only; store "
            "it to a [1, 1] tile, compute there, and load it again",
            "R084",
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _no_arithmetic
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = _no_arithmetic
    __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __pos__ = __abs__ = _no_arithmetic
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __invert__ = _no_arithmetic
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _no_arithmetic
    __lt__ = __le__ = __gt__ = __ge__ = _no_arithmetic
    __int__ = __float__ = __index__ = __iter__ = _no_arithmetic
