"""Element-wise mathematics of ``nki.language``."""

from __future__ import annotations

from accelopt_lsp.nki.dialects import Api, Role, api

_UNARY = (
    "exp log sqrt tanh sigmoid relu gelu gelu_dx gelu_apprx_tanh gelu_apprx_sigmoid silu "
    "silu_dx softplus mish erf erf_dx arctan sign square rsqrt reciprocal abs negative sin cos tan"
).split()
_BINARY = ("add", "subtract", "multiply", "maximum", "minimum", "divide", "power")


def _unary(name: str, *, legacy: bool = True, instruction: str | None = None) -> Api:
    return api(
        f"nl.{name}",
        Role.COMPUTE,
        f"Element-wise {name.replace('_', ' ')}.",
        legacy="(x, *, dtype=None, mask=None)" if legacy else None,
        current="(x, dtype=None)",
        instruction=instruction,
    )


def _binary(
    name: str,
    summary: str = "",
    *,
    legacy: str | None,
    instruction: str | None = None,
    since: str | None = None,
) -> Api:
    return api(
        f"nl.{name}",
        Role.COMPUTE,
        summary or f"Element-wise {name} of two tiles, or of a tile and a scalar.",
        legacy=legacy,
        current="(x, y, dtype=None)",
        instruction=instruction,
        since=since,
    )


APIS = (
    *(_unary(n) for n in _UNARY),
    *(_unary(n, instruction="round_to_integer") for n in ("ceil", "floor", "trunc")),
    _unary("gelu_apprx_sigmoid_dx", legacy=False),
    *(_binary(n, legacy="(x, y, *, dtype=None, mask=None)") for n in _BINARY),
    _binary(
        "mod",
        "Remainder of x / y with the sign of y, as Python's %.",
        legacy="(x, y, dtype=None, mask=None)",
        instruction="remainder",
    ),
    _binary(
        "fmod",
        "Remainder of x / y with the sign of x.",
        legacy="(x, y, dtype=None, mask=None)",
        instruction="remainder",
    ),
    _binary(
        "abs_max",
        "The operand of larger magnitude; y where both are equal.",
        legacy=None,
        since="0.4.0",
    ),
    _binary(
        "abs_min",
        "The operand of smaller magnitude; y where both are equal.",
        legacy=None,
        since="0.4.0",
    ),
)
