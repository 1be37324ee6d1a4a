"""Indices, loops, the launch grid and debugging of ``nki.language``."""

from __future__ import annotations

from accelopt_lsp.nki.dialects import Role, api

_LOOPS = (
    ("affine_range", "A loop whose iterations are independent."),
    ("sequential_range", "A loop whose iterations run in order."),
    ("static_range", "A loop that is unrolled when the kernel is traced."),
)

APIS = (
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
        "Inserts axes of size 1.",
        legacy="(data, axis)",
        current="(x, axis)",
    ),
    api(
        "nl.gemm_grid",
        Role.INDEXING,
        "Index grid of a full moving tile of the Tensor Engine.",
        legacy="()",
    ),
    api(
        "nl.gemm_stationary_grid",
        Role.INDEXING,
        "Index grid of a full stationary tile of the Tensor Engine.",
        legacy="()",
    ),
    api(
        "nl.static_cast",
        Role.QUERY,
        "Casts a number or an array while the kernel is traced.",
        legacy="(input_data, dtype)",
    ),
    api("nl.finfo", Role.QUERY, "Limits of a floating-point type.", legacy="(dtype)"),
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
    api(
        "nl.spmd_dim",
        Role.QUERY,
        "An axis of the launch grid that is spread over cores.",
        legacy="(*args)",
    ),
    api("nl.nc", Role.QUERY, "So many cores of an axis of the launch grid.", legacy="(size)"),
    api(
        "nl.device_print",
        Role.QUERY,
        "Prints a tile; it issues nothing.",
        legacy="(prefix, x, *, mask=None)",
        current="(print_prefix, tensor)",
    ),
    *(
        api(
            f"nl.is_{n}",
            Role.QUERY,
            f"Whether a buffer is {n.replace('_', ' ')} memory.",
            current="(buffer)",
            since="0.3.0",
        )
        for n in ("hbm", "sbuf", "psum", "on_chip")
    ),
    *(
        api(
            f"nl.{n}",
            Role.LOOP,
            summary,
            legacy="(*args)",
            current="(start, stop=None, step=1)",
        )
        for n, summary in _LOOPS
    ),
    # On no page of the documentation; kernels of nki-library unroll loops by it.
    api(
        "nl.range",
        Role.LOOP,
        "A loop that is unrolled when the kernel is traced.",
        current="(start, stop=None, step=1)",
    ),
    api(
        "nl.dynamic_range",
        Role.LOOP,
        "A loop of the hardware, whose bounds may be registers.",
        current="(start, stop=None, step=1)",
    ),
    api(
        "nl.fori_loop",
        Role.QUERY,
        "Runs a function for every number of a range, in a loop of the hardware.",
        current="(lower, upper, body_fun, step=1)",
        since="0.6.0",
    ),
    api(
        "nl.while_loop",
        Role.QUERY,
        "Runs a function as long as the register that it returns is not 0.",
        current="(init, body_fun)",
        since="0.6.0",
    ),
    api(
        "nl.no_reorder",
        Role.QUERY,
        "Instructions inside keep their order.",
        current="()",
    ),
)
