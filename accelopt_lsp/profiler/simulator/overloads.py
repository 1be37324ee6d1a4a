"""Python's operators on tiles: each one is a function of ``nki.language``."""

from __future__ import annotations

from typing import Any

from accelopt_lsp.profiler.simulator import state as sessions


class Operators:
    """``a + b`` is ``nl.add(a, b)``, ``a += b`` the same in place, and so on."""

    __hash__ = object.__hash__
    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return sessions.active().operator("nl.add", self, other)

    def __radd__(self, other: Any) -> Any:
        return sessions.active().operator("nl.add", other, self)

    def __sub__(self, other: Any) -> Any:
        return sessions.active().operator("nl.subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return sessions.active().operator("nl.subtract", other, self)

    def __mul__(self, other: Any) -> Any:
        return sessions.active().operator("nl.multiply", self, other)

    def __rmul__(self, other: Any) -> Any:
        return sessions.active().operator("nl.multiply", other, self)

    def __truediv__(self, other: Any) -> Any:
        return sessions.active().operator("nl.divide", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return sessions.active().operator("nl.divide", other, self)

    def __pow__(self, other: Any) -> Any:
        return sessions.active().operator("nl.power", self, other)

    def __rpow__(self, other: Any) -> Any:
        return sessions.active().operator("nl.power", other, self)

    def __mod__(self, other: Any) -> Any:
        return sessions.active().operator("nl.mod", self, other)

    def __rmod__(self, other: Any) -> Any:
        return sessions.active().operator("nl.mod", other, self)

    def __and__(self, other: Any) -> Any:
        return sessions.active().operator("nl.bitwise_and", self, other)

    def __rand__(self, other: Any) -> Any:
        return sessions.active().operator("nl.bitwise_and", other, self)

    def __or__(self, other: Any) -> Any:
        return sessions.active().operator("nl.bitwise_or", self, other)

    def __ror__(self, other: Any) -> Any:
        return sessions.active().operator("nl.bitwise_or", other, self)

    def __xor__(self, other: Any) -> Any:
        return sessions.active().operator("nl.bitwise_xor", self, other)

    def __rxor__(self, other: Any) -> Any:
        return sessions.active().operator("nl.bitwise_xor", other, self)

    def __lshift__(self, other: Any) -> Any:
        return sessions.active().operator("nl.left_shift", self, other)

    def __rlshift__(self, other: Any) -> Any:
        return sessions.active().operator("nl.left_shift", other, self)

    def __rshift__(self, other: Any) -> Any:
        return sessions.active().operator("nl.right_shift", self, other)

    def __rrshift__(self, other: Any) -> Any:
        return sessions.active().operator("nl.right_shift", other, self)

    def __invert__(self) -> Any:
        return sessions.active().operator("nl.invert", self)

    def __neg__(self) -> Any:
        return sessions.active().operator("nl.negative", self)

    def __abs__(self) -> Any:
        return sessions.active().operator("nl.abs", self)

    def __eq__(self, other: object) -> Any:
        if other is None or isinstance(other, str):
            return False
        return sessions.active().operator("nl.equal", self, other)

    def __ne__(self, other: object) -> Any:
        if other is None or isinstance(other, str):
            return True
        return sessions.active().operator("nl.not_equal", self, other)

    def __lt__(self, other: Any) -> Any:
        return sessions.active().operator("nl.less", self, other)

    def __le__(self, other: Any) -> Any:
        return sessions.active().operator("nl.less_equal", self, other)

    def __gt__(self, other: Any) -> Any:
        return sessions.active().operator("nl.greater", self, other)

    def __ge__(self, other: Any) -> Any:
        return sessions.active().operator("nl.greater_equal", self, other)

    def __iadd__(self: Any, other: Any) -> Any:
        return sessions.active().augment("nl.add", self, other)

    def __isub__(self: Any, other: Any) -> Any:
        return sessions.active().augment("nl.subtract", self, other)

    def __imul__(self: Any, other: Any) -> Any:
        return sessions.active().augment("nl.multiply", self, other)

    def __itruediv__(self: Any, other: Any) -> Any:
        return sessions.active().augment("nl.divide", self, other)

    def __ipow__(self: Any, other: Any) -> Any:
        return sessions.active().augment("nl.power", self, other)

    def __imod__(self: Any, other: Any) -> Any:
        return sessions.active().augment("nl.mod", self, other)

    def __iand__(self: Any, other: Any) -> Any:
        return sessions.active().augment("nl.bitwise_and", self, other)

    def __ior__(self: Any, other: Any) -> Any:
        return sessions.active().augment("nl.bitwise_or", self, other)

    def __ixor__(self: Any, other: Any) -> Any:
        return sessions.active().augment("nl.bitwise_xor", self, other)

    def __ilshift__(self: Any, other: Any) -> Any:
        return sessions.active().augment("nl.left_shift", self, other)

    def __irshift__(self: Any, other: Any) -> Any:
        return sessions.active().augment("nl.right_shift", self, other)
