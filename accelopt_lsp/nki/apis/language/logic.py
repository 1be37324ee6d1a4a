"""Comparisons, logic and bits of ``nki.language``."""

from __future__ import annotations

from accelopt_lsp.nki.dialects import Role, api

_COMPARE = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
_LOGICAL = ("logical_and", "logical_or", "logical_xor")
_BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")

APIS = (
    *(
        api(
            f"nl.{n}",
            Role.COMPUTE,
            f"Element-wise {n.replace('_', ' ')}, 1 where it holds and 0 elsewhere.",
            legacy="(x, y, *, dtype='bool_', mask=None)",
            current="(x, y, dtype=None)",
        )
        for n in (*_COMPARE, *_LOGICAL)
    ),
    *(
        api(
            f"nl.{n}",
            Role.COMPUTE,
            f"Element-wise {n.replace('_', ' ')} of integers.",
            legacy="(x, y, *, dtype=None, mask=None)",
            current="(x, y, dtype=None)",
        )
        for n in _BITS
    ),
    api(
        "nl.logical_not",
        Role.COMPUTE,
        "1 where the element is 0, and 0 elsewhere.",
        legacy="(x, *, dtype='bool_', mask=None)",
        current="(x, dtype=None)",
    ),
    api(
        "nl.invert",
        Role.COMPUTE,
        "Bitwise not of integers.",
        legacy="(x, *, dtype=None, mask=None)",
        current="(x, dtype=None)",
    ),
    api(
        "nl.where",
        Role.COMPUTE,
        "Elements of x where the condition holds, of y elsewhere.",
        legacy="(condition, x, y, *, dtype=None, mask=None)",
        current="(condition, x, y, dtype=None)",
    ),
)
