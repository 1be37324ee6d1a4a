"""Layer 2 of the instruction table: how each dialect's calls are written.

An :class:`Api` is a public name such as ``nisa.activation`` or ``nl.exp`` with its signature
per dialect. Binding a call gives a mapping from parameter to value, in which lowering
(:mod:`~accelopt_lsp.nki.lowering`) finds operands and attributes by the same names.

Signatures: public stubs of ``nki`` 0.6 (current) and ``neuronxcc.nki`` of SDK 2.26 (legacy).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from attrs import field, frozen


class Dialect(StrEnum):
    """The two ways to write NKI: ``neuronxcc.nki`` (0.1) and ``nki`` (0.2 to 0.6)."""

    LEGACY = "legacy"
    CURRENT = "current"

    @property
    def package(self) -> str:
        return "neuronxcc.nki" if self is Dialect.LEGACY else "nki"


class BindError(TypeError):
    """A call does not fit its signature. The message names the parameter."""


Binder = Callable[..., dict[str, Any]]

TOLERATED = frozenset({"dtype", "mask", "name"})
"""Extra keywords that early versions of the current dialect ignored; accepted and reported."""


def _compile_binder(name: str, signature: str) -> tuple[tuple[str, ...], Binder]:
    """Turn a signature text into a function that returns its bound parameters.

    A compiled function binds about thirty times faster than :meth:`inspect.Signature.bind`,
    which matters with tens of thousands of calls a trace.
    """
    source = f"def bind{signature}: pass"
    arguments = ast.parse(source).body[0].args  # type: ignore[attr-defined]
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    if arguments.vararg:
        names.append(arguments.vararg.arg)
    parameters = signature[1:-1].strip()
    keyword = "" if arguments.kwarg else ("**kwargs" if not parameters else ", **kwargs")
    body = "".join(f"{n!r}: {n}, " for n in names)
    function = name.rpartition(".")[2]
    namespace: dict[str, Any] = {}
    code = f"def {function}({parameters}{keyword}):\n return {{{body}**kwargs}}"
    exec(compile(code, f"<signature of {name}>", "exec"), namespace)  # noqa: S102 - our own table
    return tuple(names), namespace[function]


@frozen(slots=True)
class Signature:
    """How one dialect calls an API.

    Attributes:
        text: the parameter list, ``(dst, data, ...)``.
        parameters: names in order.
        since: first version that has it, where known.
    """

    text: str
    parameters: tuple[str, ...]
    binder: Binder = field(eq=False, repr=False)
    since: str | None = None


class Role(StrEnum):
    """What an API is for; decides who handles a call to it."""

    INSTRUCTION = "instruction"
    COMPUTE = "compute"
    CREATION = "creation"
    INDEXING = "indexing"
    LOOP = "loop"
    QUERY = "query"


@frozen(slots=True)
class Api:
    """A public name of NKI.

    Attributes:
        name: ``nisa.NAME`` or ``nl.NAME``.
        role: who handles it.
        summary: one sentence.
        signatures: per dialect; a missing dialect does not have the name.
        instruction: id of the instruction it lowers to one to one.
    """

    name: str
    role: Role
    summary: str
    signatures: Mapping[Dialect, Signature]
    instruction: str | None = None

    def signature(self, dialect: Dialect) -> Signature | None:
        return self.signatures.get(dialect)

    def bind(
        self, dialect: Dialect, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        """Parameters of a call by name, defaults filled in.

        Raises:
            BindError: the dialect lacks this name, or the arguments do not fit.
        """
        signature = self.signatures.get(dialect)
        if signature is None:
            other = next(iter(self.signatures))
            raise BindError(f"{self.name} does not exist in the {dialect} dialect (only {other})")
        try:
            bound = signature.binder(*args, **kwargs)
        except TypeError as error:
            text = str(error).replace("()", "")
            raise BindError(f"{text}; signature: {self.name}{signature.text}") from None
        if len(bound) > len(signature.parameters):
            extra = [k for k in bound if k not in signature.parameters]
            unknown = [k for k in extra if k not in TOLERATED]
            if unknown and dialect is not Dialect.LEGACY:
                raise BindError(
                    f"{self.name} got an unexpected keyword {unknown[0]!r}; "
                    f"signature: {self.name}{signature.text}"
                )
        return bound


def _api(
    name: str,
    role: Role,
    summary: str,
    *,
    legacy: str | None = None,
    current: str | None = None,
    instruction: str | None = None,
) -> Api:
    signatures = {}
    for dialect, text in ((Dialect.LEGACY, legacy), (Dialect.CURRENT, current)):
        if text is not None:
            names, binder = _compile_binder(name, text)
            signatures[dialect] = Signature(text, names, binder)
    return Api(name, role, summary, signatures, instruction)


def _instruction(id: str, summary: str, *, legacy: str | None, current: str | None) -> Api:
    return _api(
        f"nisa.{id}",
        Role.INSTRUCTION,
        summary,
        legacy=legacy,
        current=current,
        instruction=id,
    )


_I = _instruction
_INSTRUCTION_APIS = (
    _I(
        "nc_matmul",
        "Matrix product of a stationary and a moving tile into PSUM.",
        legacy="(stationary, moving, *, is_stationary_onezero=False, is_moving_onezero=False, "
        "is_transpose=False, tile_position=(), tile_size=(), mask=None)",
        current="(dst, stationary, moving, is_stationary_onezero=False, is_moving_onezero=False, "
        "is_transpose=False, accumulate=None, tile_position=(), tile_size=(), "
        "perf_mode='none', name=None)",
    ),
    _I(
        "nc_transpose",
        "Transposes a tile on the Tensor Engine, or on the Vector Engine up to 32 x 32.",
        legacy="(data, *, mask=None, dtype=None, engine='unknown')",
        current="(dst, data, engine='unknown', name=None)",
    ),
    _I(
        "activation",
        "Applies a function to scale * data + bias on the Scalar Engine.",
        legacy="(op, data, *, bias=None, scale=1.0, reduce_op=None, reduce_res=None, "
        "reduce_cmd='idle', mask=None, dtype=None)",
        current="(dst, op, data, bias=None, scale=1.0, reduce_op=None, reduce_res=None, "
        "reduce_cmd='idle', name=None)",
    ),
    _api(
        "nisa.activation_reduce",
        Role.INSTRUCTION,
        "Activation that also sums its result along the free axis.",
        legacy="(op, data, *, reduce_op, reduce_res, bias=None, scale=1.0, mask=None, dtype=None)",
        current="(dst, op, data, reduce_op, reduce_res, bias=None, scale=1.0, name=None)",
        instruction="activation",
    ),
    _I(
        "tensor_tensor",
        "Combines two tiles element by element.",
        legacy="(data1, data2, op, *, dtype=None, mask=None, engine='unknown')",
        current="(dst, data1, data2, op, engine='unknown', name=None)",
    ),
    _I(
        "tensor_scalar",
        "Combines a tile with one or two scalars or [P, 1] vectors.",
        legacy="(data, op0, operand0, reverse0=False, op1=None, operand1=None, reverse1=False, *, "
        "dtype=None, mask=None, engine='unknown')",
        current="(dst, data, op0, operand0, reverse0=False, op1=None, operand1=None, "
        "reverse1=False, engine='unknown', name=None)",
    ),
    _I(
        "scalar_tensor_tensor",
        "Combines a tile with a scalar, then with a second tile.",
        legacy="(*, data, op0, operand0, op1, operand1, reverse0=False, reverse1=False, "
        "dtype=None, mask=None)",
        current="(dst, data, op0, operand0, op1, operand1, reverse0=False, reverse1=False, "
        "name=None)",
    ),
    _I(
        "tensor_scalar_reduce",
        "Combines a tile with a scalar and reduces the result along the free axis.",
        legacy="(*, data, op0, operand0, reduce_op, reduce_res, reverse0=False, dtype=None, "
        "mask=None)",
        current="(dst, data, op0, operand0, reduce_op, reduce_res, reverse0=False, "
        "reduce_cmd='reset_reduce', reduce_init=None, reduce_res_negate=False, name=None)",
    ),
    _I(
        "tensor_tensor_scan",
        "Scan along the free axis with two tiles.",
        legacy="(data0, data1, initial, op0, op1, reverse0=False, reverse1=False, *, dtype=None, "
        "mask=None)",
        current="(dst, data0, data1, initial, op0, op1, reverse0=False, reverse1=False, name=None)",
    ),
    _I(
        "tensor_reduce",
        "Reduces a tile along its last free axes.",
        legacy="(op, data, axis, *, mask=None, dtype=None, negate=False, keepdims=False)",
        current="(dst, op, data, axis, negate=False, keepdims=False, name=None)",
    ),
    _I(
        "tensor_copy",
        "Copies a tile on chip, casting if needed.",
        legacy="(src, *, mask=None, dtype=None, engine='unknown')",
        current="(dst, src, engine='unknown', name=None)",
    ),
    _I(
        "reciprocal",
        "Reciprocal on the Vector Engine.",
        legacy="(data, *, dtype=None, mask=None)",
        current="(dst, data, name=None)",
    ),
    _I(
        "memset",
        "Fills a tile with a constant.",
        legacy="(shape, value, dtype, *, mask=None, engine='unknown')",
        current="(dst, value, engine='unknown', name=None)",
    ),
    _I(
        "dma_copy",
        "Moves data between HBM and SBUF.",
        legacy="(*, dst, src, mask=None, dst_rmw_op=None, oob_mode='error', dge_mode='unknown')",
        current="(dst, src, priority=None, oob_mode='error', dge_mode='unknown', "
        "engine='unknown', name=None)",
    ),
    _I(
        "dma_transpose",
        "Moves data between HBM and SBUF, transposing on the way.",
        legacy="(src, *, axes=None, mask=None, dtype=None)",
        current="(dst, src, axes=None, priority=None, dge_mode='unknown', oob_mode='error', "
        "name=None)",
    ),
)

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
        _api(
            f"nl.{n}",
            compute,
            f"Element-wise {n.replace('_', ' ')}.",
            legacy="(x, *, dtype=None, mask=None)",
            current="(x, dtype=None)",
        )
        for n in _UNARY
    ]
    apis += [
        _api(
            f"nl.{n}",
            compute,
            f"Element-wise {n} of two tiles, or of a tile and a scalar.",
            legacy="(x, y, *, dtype=None, mask=None)",
            current="(x, y, dtype=None)",
        )
        for n in _BINARY
    ]
    apis += [
        _api(
            f"nl.{n}",
            compute,
            f"Element-wise {n.replace('_', ' ')}, 1 where it holds and 0 elsewhere.",
            legacy="(x, y, *, dtype='bool_', mask=None)",
            current="(x, y, dtype=None)",
        )
        for n in _COMPARE
    ]
    apis += [
        _api(
            f"nl.{n}",
            compute,
            f"{n.capitalize()} over the last free axes.",
            legacy="(x, axis, *, dtype=None, mask=None, keepdims=False)",
            current="(x, axis, dtype=None, keepdims=False)",
        )
        for n in _REDUCTIONS
    ]
    apis += [
        _api(
            "nl.load",
            compute,
            "Copies a tensor from HBM into a new SBUF tile.",
            legacy="(src, *, mask=None, dtype=None)",
            current="(src, dtype=None)",
        ),
        _api(
            "nl.store",
            compute,
            "Copies a tile from SBUF to HBM.",
            legacy="(dst, value, *, mask=None)",
            current="(dst, value)",
        ),
        _api(
            "nl.load_transpose2d",
            compute,
            "Loads a 2-D tensor from HBM and transposes it.",
            legacy="(src, *, mask=None, dtype=None)",
            current="(src, dtype=None)",
        ),
        _api(
            "nl.copy",
            compute,
            "Copies a tile within on-chip memory into a new SBUF tile.",
            legacy="(src, *, mask=None, dtype=None)",
            current="(x, dtype=None)",
        ),
        _api(
            "nl.matmul",
            compute,
            "Matrix product x @ y, or x.T @ y with transpose_x; the result is in PSUM.",
            legacy="(x, y, *, transpose_x=False, mask=None)",
            current="(x, y, transpose_x=False)",
        ),
        _api(
            "nl.transpose",
            compute,
            "Transposes a 2-D tile between partition and free axis.",
            legacy="(x, *, dtype=None, mask=None)",
            current="(x, dtype=None)",
        ),
        _api(
            "nl.softmax",
            compute,
            "exp(x - max) / sum along the last axis.",
            legacy="(x, axis, *, dtype=None, compute_dtype=None, mask=None)",
            current="(x, axis=-1, dtype=None)",
        ),
        _api(
            "nl.rms_norm",
            compute,
            "x / sqrt(mean(x^2) + epsilon) * w.",
            legacy="(x, w, axis, n, epsilon=1e-06, *, dtype=None, compute_dtype=None, mask=None)",
            current="(x, w, axis, n, epsilon=1e-06, dtype=None, compute_dtype=None)",
        ),
        _api(
            "nl.broadcast_to",
            compute,
            "Broadcasts a tile; along partitions this costs Tensor Engine work.",
            legacy="(src, *, shape)",
            current="(x, shape, dtype=None)",
        ),
        _api(
            "nl.loop_reduce",
            compute,
            "Reduces a value over the named loops.",
            legacy="(x, op, loop_indices, *, dtype=None, mask=None)",
        ),
        _api(
            "nl.ndarray",
            creation,
            "An uninitialised tensor.",
            legacy="(shape, dtype, *, buffer=None, name='')",
            current="(shape, dtype, buffer='sbuf', name='', address=None)",
        ),
        _api(
            "nl.zeros",
            creation,
            "A tensor of zeros; in PSUM it starts an accumulation.",
            legacy="(shape, dtype, *, buffer=None, name='')",
            current="(shape, dtype, buffer='sbuf', name='')",
        ),
        _api(
            "nl.ones",
            creation,
            "A tensor of ones.",
            legacy="(shape, dtype, *, buffer=None, name='')",
            current="(shape, dtype, buffer='sbuf', name='')",
        ),
        _api(
            "nl.full",
            creation,
            "A tensor filled with one value.",
            legacy="(shape, fill_value, dtype, *, buffer=None, name='')",
            current="(shape, fill_value, dtype, buffer='sbuf', name='')",
        ),
        _api(
            "nl.zeros_like",
            creation,
            "Zeros in the shape of another tensor.",
            legacy="(a, dtype=None, *, buffer=None, name='')",
            current="(x, dtype=None, buffer=None, name='')",
        ),
        _api(
            "nl.empty_like",
            creation,
            "An uninitialised tensor in the shape of another.",
            legacy="(a, dtype=None, *, buffer=None, name='')",
            current="(x, dtype=None, buffer=None, name='')",
        ),
        _api(
            "nl.shared_constant",
            creation,
            "A constant that is stored in HBM.",
            legacy="(constant, dtype=None)",
            current="(constant)",
        ),
        _api("nl.arange", Role.INDEXING, "An index vector.", legacy="(*args)"),
        _api("nl.par_dim", Role.INDEXING, "Marks the partition dimension.", legacy="(size)"),
        _api(
            "nl.ds",
            Role.INDEXING,
            "A slice of size elements from start.",
            legacy="(start, size)",
            current="(start, size)",
        ),
        _api(
            "nl.expand_dims",
            Role.INDEXING,
            "Inserts an axis of size 1.",
            legacy="(data, axis)",
            current="(x, axis)",
        ),
        _api(
            "nl.program_id",
            Role.QUERY,
            "Index of this program in the launch grid.",
            legacy="(axis)",
            current="(axis=0)",
        ),
        _api(
            "nl.num_programs",
            Role.QUERY,
            "Size of the launch grid.",
            legacy="(axes=None)",
            current="(axes=0)",
        ),
        _api(
            "nl.program_ndim",
            Role.QUERY,
            "Number of dimensions of the launch grid.",
            legacy="()",
            current="()",
        ),
    ]
    apis += [
        _api(
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


APIS: Mapping[str, Api] = {a.name: a for a in (*_INSTRUCTION_APIS, *_language())}


def find_api(name: str) -> Api | None:
    """The API of that canonical name (``nisa.activation``, ``nl.exp``), or None."""
    return APIS.get(name)


LANGUAGE_CONSTANTS: Mapping[str, object] = {
    "tile_size.pmax": 128,
    "tile_size.psum_fmax": 512,
    "tile_size.psum_bank_fmax": 512,
    "tile_size.psum_bank_fmax_bytes": 2048,
    "tile_size.psum_num_banks": 8,
    "tile_size.gemm_stationary_fmax": 128,
    "tile_size.gemm_moving_fmax": 512,
    "tile_size.bn_stats_fmax": 512,
    "fp32.min": -3.4028234663852886e38,
}
"""Values of ``nl.NAME`` that do not depend on the target."""

MEMORIES: Mapping[str, str] = {
    "sbuf": "sbuf",
    "psum": "psum",
    "hbm": "hbm",
    "private_hbm": "hbm",
    "shared_hbm": "hbm",
}
"""Buffer names of ``nki.language`` and the memory each one is in."""
