"""Reductions, normalisations and matrix products of ``nki.language``."""

from __future__ import annotations

from accelopt_lsp.nki.dialects import Role, api

_REDUCTIONS = ("sum", "max", "min", "prod", "mean")

APIS = (
    *(
        api(
            f"nl.{n}",
            Role.COMPUTE,
            f"{n.capitalize()} over the last free axes.",
            legacy="(x, axis, *, dtype=None, mask=None, keepdims=False)",
            current="(x, axis, dtype=None, keepdims=False)",
        )
        for n in _REDUCTIONS
    ),
    api(
        "nl.var",
        Role.COMPUTE,
        "Variance over the last free axes; the current dialect always keeps the axes.",
        legacy="(x, axis, *, dtype=None, mask=None)",
        current="(x, axis, dtype=None, keepdims=False)",
    ),
    api(
        "nl.all",
        Role.COMPUTE,
        "Whether all elements over the last free axes are true.",
        legacy="(x, axis, *, dtype='bool_', mask=None)",
        current="(x, axis, dtype=None)",
    ),
    api(
        "nl.softmax",
        Role.COMPUTE,
        "exp(x - max) / sum along the last axis.",
        legacy="(x, axis, *, dtype=None, compute_dtype=None, mask=None)",
        current="(x, axis=-1, dtype=None)",
    ),
    api(
        "nl.rms_norm",
        Role.COMPUTE,
        "x / sqrt(mean(x^2) + epsilon) * w.",
        legacy="(x, w, axis, n, epsilon=1e-06, *, dtype=None, compute_dtype=None, mask=None)",
        current="(x, w, axis, n, epsilon=1e-06, dtype=None, compute_dtype=None)",
    ),
    api(
        "nl.loop_reduce",
        Role.COMPUTE,
        "Reduces a value over the named loops.",
        legacy="(x, op, loop_indices, *, dtype=None, mask=None)",
    ),
    api(
        "nl.all_reduce",
        Role.COMPUTE,
        "Reduces a value over programs of the launch grid.",
        legacy="(x, op, program_axes, *, dtype=None, mask=None, parallel_reduce=True, "
        "asynchronous=False)",
    ),
    api(
        "nl.matmul",
        Role.COMPUTE,
        "Matrix product x @ y, or x.T @ y with transpose_x; the result is in PSUM.",
        legacy="(x, y, *, transpose_x=False, mask=None)",
        current="(x, y, transpose_x=False)",
    ),
    api(
        "nl.transpose",
        Role.COMPUTE,
        "Transposes a 2-D tile between partition and free axis.",
        legacy="(x, *, dtype=None, mask=None)",
        current="(x, dtype=None)",
    ),
)
