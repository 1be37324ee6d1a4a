"""Names of ``nki.language``."""

from __future__ import annotations

from accelopt_lsp.nki.dialects import Api, Role, api

_UNARY = (
    "exp log sqrt tanh sigmoid relu gelu gelu_dx gelu_apprx_tanh gelu_apprx_sigmoid silu "
    "silu_dx softplus mish erf erf_dx arctan sign square rsqrt reciprocal abs negative"
).split()
_BINARY = ["add", "subtract", "multiply", "maximum", "minimum", "divide", "power"]
_COMPARE = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
_REDUCTIONS = ["sum", "max", "min", "prod", "mean"]


def _language() -> tuple[Api, ...]:
    compute, creation = Role.COMPUTE, Role.CREATION
    apis = [
        api(
            f"nl.{n}",
            compute,
            f"Element-wise {n.replace('_', ' ')}.",
            legacy="(x, *, dtype=None, mask=None)",
            current="(x, dtype=None)",
        )
        for n in _UNARY
    ]
    apis += [
        api(
            f"nl.{n}",
            compute,
            f"Element-wise {n} of two tiles, or of a tile and a scalar.",
            legacy="(x, y, *, dtype=None, mask=None)",
            current="(x, y, dtype=None)",
        )
        for n in _BINARY
    ]
    apis += [
        api(
            f"nl.{n}",
            compute,
            f"Element-wise {n.replace('_', ' ')}, 1 where it holds and 0 elsewhere.",
            legacy="(x, y, *, dtype='bool_', mask=None)",
            current="(x, y, dtype=None)",
        )
        for n in _COMPARE
    ]
    apis += [
        api(
            f"nl.{n}",
            compute,
            f"{n.capitalize()} over the last free axes.",
            legacy="(x, axis, *, dtype=None, mask=None, keepdims=False)",
            current="(x, axis, dtype=None, keepdims=False)",
        )
        for n in _REDUCTIONS
    ]
    apis += [
        api(
            "nl.load",
            compute,
            "Copies a tensor from HBM into a new SBUF tile.",
            legacy="(src, *, mask=None, dtype=None)",
            current="(src, dtype=None)",
        ),
        api(
            "nl.store",
            compute,
            "Copies a tile from SBUF to HBM.",
            legacy="(dst, value, *, mask=None)",
            current="(dst, value)",
        ),
        api(
            "nl.load_transpose2d",
            compute,
            "Loads a 2-D tensor from HBM and transposes it.",
            legacy="(src, *, mask=None, dtype=None)",
            current="(src, dtype=None)",
        ),
        api(
            "nl.copy",
            compute,
            "Copies a tile within on-chip memory into a new SBUF tile.",
            legacy="(src, *, mask=None, dtype=None)",
            current="(x, dtype=None)",
        ),
        api(
            "nl.matmul",
            compute,
            "Matrix product x @ y, or x.T @ y with transpose_x; the result is in PSUM.",
            legacy="(x, y, *, transpose_x=False, mask=None)",
            current="(x, y, transpose_x=False)",
        ),
        api(
            "nl.transpose",
            compute,
            "Transposes a 2-D tile between partition and free axis.",
            legacy="(x, *, dtype=None, mask=None)",
            current="(x, dtype=None)",
        ),
        api(
            "nl.softmax",
            compute,
            "exp(x - max) / sum along the last axis.",
            legacy="(x, axis, *, dtype=None, compute_dtype=None, mask=None)",
            current="(x, axis=-1, dtype=None)",
        ),
        api(
            "nl.rms_norm",
            compute,
            "x / sqrt(mean(x^2) + epsilon) * w.",
            legacy="(x, w, axis, n, epsilon=1e-06, *, dtype=None, compute_dtype=None, mask=None)",
            current="(x, w, axis, n, epsilon=1e-06, dtype=None, compute_dtype=None)",
        ),
        api(
            "nl.broadcast_to",
            compute,
            "Broadcasts a tile; along partitions this costs Tensor Engine work.",
            legacy="(src, *, shape)",
            current="(x, shape, dtype=None)",
        ),
        api(
            "nl.loop_reduce",
            compute,
            "Reduces a value over the named loops.",
            legacy="(x, op, loop_indices, *, dtype=None, mask=None)",
        ),
        api(
            "nl.ndarray",
            creation,
            "An uninitialised tensor.",
            legacy="(shape, dtype, *, buffer=None, name='')",
            current="(shape, dtype, buffer='sbuf', name='', address=None)",
        ),
        api(
            "nl.zeros",
            creation,
            "A tensor of zeros; in PSUM it starts an accumulation.",
            legacy="(shape, dtype, *, buffer=None, name='')",
            current="(shape, dtype, buffer='sbuf', name='')",
        ),
        api(
            "nl.ones",
            creation,
            "A tensor of ones.",
            legacy="(shape, dtype, *, buffer=None, name='')",
            current="(shape, dtype, buffer='sbuf', name='')",
        ),
        api(
            "nl.full",
            creation,
            "A tensor filled with one value.",
            legacy="(shape, fill_value, dtype, *, buffer=None, name='')",
            current="(shape, fill_value, dtype, buffer='sbuf', name='')",
        ),
        api(
            "nl.zeros_like",
            creation,
            "Zeros in the shape of another tensor.",
            legacy="(a, dtype=None, *, buffer=None, name='')",
            current="(x, dtype=None, buffer=None, name='')",
        ),
        api(
            "nl.empty_like",
            creation,
            "An uninitialised tensor in the shape of another.",
            legacy="(a, dtype=None, *, buffer=None, name='')",
            current="(x, dtype=None, buffer=None, name='')",
        ),
        api(
            "nl.shared_constant",
            creation,
            "A constant that is stored in HBM.",
            legacy="(constant, dtype=None)",
            current="(constant)",
        ),
        api("nl.arange", Role.INDEXING, "An index vector.", legacy="(*args)"),
        api("nl.par_dim", Role.INDEXING, "Marks the partition dimension.", legacy="(size)"),
        api(
            "nl.ds",
            Role.INDEXING,
            "A slice of size elements from start.",
            legacy="(start, size)",
            current="(start, size)",
        ),
        api(
            "nl.expand_dims",
            Role.INDEXING,
            "Inserts an axis of size 1.",
            legacy="(data, axis)",
            current="(x, axis)",
        ),
        api(
            "nl.program_id",
            Role.QUERY,
            "Index of this program in the launch grid.",
            legacy="(axis)",
            current="(axis=0)",
        ),
        api(
            "nl.num_programs",
            Role.QUERY,
            "Size of the launch grid.",
            legacy="(axes=None)",
            current="(axes=0)",
        ),
        api(
            "nl.program_ndim",
            Role.QUERY,
            "Number of dimensions of the launch grid.",
            legacy="()",
            current="()",
        ),
    ]
    apis += [
        api(
            f"nl.{n}",
            Role.LOOP,
            summary,
            legacy="(*args)",
            current="(start, stop=None, step=1)",
        )
        for n, summary in (
            ("affine_range", "A loop whose iterations are independent."),
            ("sequential_range", "A loop whose iterations run in order."),
            ("static_range", "A loop that is unrolled when the kernel is traced."),
        )
    ]
    return tuple(apis)


APIS = _language()
