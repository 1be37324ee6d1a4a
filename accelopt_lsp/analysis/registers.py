"""Registers of the sequencers: what analysis knows of the number that each holds."""

from __future__ import annotations

from attrs import define

from accelopt_lsp.analysis.affine import Affine, Linear, Undecided, Var
from accelopt_lsp.analysis.machine import Machine
from accelopt_lsp.analysis.values import Unknown, Value, View


@define(slots=True, eq=False)
class Register:
    """A number that exists while the kernel runs on the device.

    Attributes:
        value: what it holds, where that follows from the text.
        loops: visits of loops that were open when it was made.
        frozen: variable of ``nl.dynamic_range``, which kernels cannot write to.
    """

    value: Value
    loops: tuple[Var, ...] = ()
    frozen: bool = False

    def number(self) -> Linear | Unknown:
        """What it holds as an integer, or why that is not known."""
        if isinstance(self.value, int | Affine):
            return self.value
        if isinstance(self.value, Unknown):
            return self.value
        return Unknown("a register holds no integer", number=True)


def allocate(m: Machine, given: Value) -> Register:
    """``nisa.register_alloc(x)``."""
    value = Unknown("a register that was never written", number=True) if given is None else given
    return Register(_content(value), tuple(m.loops))


def register_call(m: Machine, name: str, args: list[Value], kwargs: dict[str, Value]) -> None:
    """What ``nisa.register_move`` and ``nisa.register_load`` do to their register."""
    target = args[0] if args else kwargs.get("dst")
    source = args[1] if len(args) > 1 else kwargs.get("src", kwargs.get("imm"))
    if isinstance(target, Register):
        if name == "nisa.register_load" and not isinstance(source, View):
            source = Unknown("the value of a register is known on the device only", number=True)
        _write(m, target, _content(source))


def _content(value: Value) -> Value:
    """What a register holds after ``value`` was put into it."""
    if isinstance(value, Register):
        return value.value
    if isinstance(value, View):
        name = value.storage.name or "a tensor"
        return Unknown(f"the value of {name} is known on the device only", number=True)
    if isinstance(value, bool | int | Affine | Unknown):
        return int(value) if isinstance(value, bool) else value
    return Unknown("a register holds a number that is not analyzed", number=True)


def _write(m: Machine, register: Register, value: Value) -> None:
    """Change a register, undoably.

    Raises:
        NeedSplit: the number changes from iteration to iteration of an open loop.
    """
    old = register.value
    if old == value:
        return
    if not (isinstance(old, Unknown) and isinstance(value, Unknown)):
        try:
            m.alone(register.loops)
        except Undecided as why:
            value = Unknown(str(why), number=True)
    m.journal.undo_with(lambda: setattr(register, "value", old))
    register.value = value
