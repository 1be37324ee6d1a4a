"""What an instruction's limits report."""

from __future__ import annotations

from attrs import frozen


@frozen(slots=True)
class Violation:
    """Something the hardware or the compiler rejects in one instruction.

    Attributes:
        code: the rule's stable code, for example ``R023``.
        message: what is wrong, with the figures.
        role: the operand it is about, if one can be named.
    """

    code: str
    message: str
    role: str | None = None
