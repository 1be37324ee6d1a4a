"""Short ways to write operands and calls in tests of the instruction table."""

from __future__ import annotations

import re
from typing import Any

from accelopt_lsp.nki.apis import APIS
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.dtypes import get_dtype
from accelopt_lsp.nki.lowering import Lowered, lower
from accelopt_lsp.nki.operands import Buffer, OperandType
from accelopt_lsp.nki.targets import get_target

LEGACY, CURRENT = Dialect.LEGACY, Dialect.CURRENT
_OPERAND = re.compile(r"^(\w+)\[([\d,]+)\](?:@(hbm|sbuf|psum))?(?:\+(\d+))?$")


def t(text: str, strides: tuple[int, ...] | None = None) -> OperandType:
    """An operand from ``bf16[128,512]@psum+64``: SBUF and partition 0 unless said otherwise."""
    match = _OPERAND.match(text)
    if match is None:
        raise ValueError(text)
    dtype, sizes, buffer, start = match.groups()
    shape = tuple(int(s) for s in sizes.split(","))
    return OperandType(shape, get_dtype(dtype), Buffer(buffer or "sbuf"), strides, int(start or 0))


def call(dialect: Dialect, name: str, *args: Any, target: str = "trn1", **kwargs: Any) -> Lowered:
    """Bind and lower one call; texts such as ``f32[128,512]`` become operands."""

    def value(given: Any) -> Any:
        if isinstance(given, str) and _OPERAND.match(given):
            return t(given)
        return given

    bound = APIS[name].bind(
        dialect, tuple(map(value, args)), {k: value(v) for k, v in kwargs.items()}
    )
    return lower(dialect, name, bound, get_target(target))


def codes(lowered: Lowered) -> list[str]:
    """Codes of the violated rules, each once, sorted."""
    return sorted({v.code for v in lowered.violations})


def summary(lowered: Lowered) -> list[str]:
    """The issued instructions as ``op@engine``, in order."""
    return [f"{i.op}@{i.engine}" for i in lowered.issues]
