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
        since: first NKI version that has it; None for every version of the dialect.
        until: last NKI version that has it; None if it is still there.
    """

    text: str
    parameters: tuple[str, ...]
    binder: Binder = field(eq=False, repr=False)
    since: str | None = None
    until: str | None = None

    def exists_in(self, version: str) -> bool:
        """Whether an NKI version such as ``0.4.0`` has this signature."""
        wanted = version_key(version)
        first, last = self.since, self.until
        return (first is None or version_key(first) <= wanted) and (
            last is None or wanted <= version_key(last)
        )


def version_key(version: str) -> tuple[int, ...]:
    """An NKI version as numbers that can be compared; ``0.4`` equals ``0.4.0``.

    Raises:
        ValueError: no version.
    """
    parts = [int(part) for part in version.split(".")]
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


def is_version(text: str) -> bool:
    """Whether a text is an NKI version such as ``0.4`` or ``0.4.0``."""
    try:
        return bool(version_key(text))
    except ValueError:
        return False


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

    def varies(self, dialect: Dialect) -> bool:
        """Whether the dialect, or some version of it, lacks the name."""
        signature = self.signatures.get(dialect)
        return signature is None or signature.since is not None or signature.until is not None

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


def api(
    name: str,
    role: Role,
    summary: str,
    *,
    legacy: str | None = None,
    current: str | None = None,
    instruction: str | None = None,
    since: str | None = None,
    until: str | None = None,
) -> Api:
    """An entry of the table of names, from the signature texts of the dialects that have it.

    ``since`` and ``until`` are NKI versions of the current dialect.
    """
    signatures = {}
    for dialect, text in ((Dialect.LEGACY, legacy), (Dialect.CURRENT, current)):
        if text is not None:
            names, binder = _compile_binder(name, text)
            versions = (since, until) if dialect is Dialect.CURRENT else (None, None)
            signatures[dialect] = Signature(text, names, binder, *versions)
    return Api(name, role, summary, signatures, instruction)


REPLACED: Mapping[str, str] = {
    "nisa.tensor_copy_dynamic_src": "nisa.tensor_copy of t.ap(..., scalar_offset=...)",
    "nisa.tensor_copy_dynamic_dst": "nisa.tensor_copy into t.ap(..., scalar_offset=...)",
    "nl.all_reduce": "nki.collectives",
    "nl.arange": "slices, or t.ap(...)",
    "nl.atomic_rmw": "nisa.dma_compute with a vector_offset",
    "nl.gemm_grid": "a launch grid of numbers, kernel[2](...)",
    "nl.gemm_stationary_grid": "a launch grid of numbers, kernel[2](...)",
    "nl.loop_reduce": "nisa.tensor_tensor",
    "nl.mgrid": "slices, or t.ap(...)",
    "nl.nc": "a launch grid of numbers, kernel[2](...)",
    "nl.par_dim": "nothing: dimension 0 is the partition dimension",
    "nl.spmd_dim": "a launch grid of numbers, kernel[2](...)",
    "nl.static_cast": "the data type of dst",
}
"""What took the place of names that the current dialect no longer has (migration guide)."""


def unavailable(entry: Api, dialect: Dialect, version: str | None) -> str:
    """Why a kernel cannot use a name, for people; empty if it can.

    Args:
        version: NKI version in force; None takes any of the dialect.
    """
    signature = entry.signature(dialect)
    instead = REPLACED.get(entry.name)
    hint = f"; use {instead}" if instead and dialect is Dialect.CURRENT else ""
    if signature is None:
        other = next(iter(entry.signatures))
        return f"{entry.name} is not part of {dialect.package}, only of {other.package}{hint}"
    if version is None or signature.exists_in(version):
        return ""
    if signature.until is not None and version_key(version) > version_key(signature.until):
        return f"{entry.name} exists up to NKI {signature.until}, this is NKI {version}{hint}"
    return f"{entry.name} exists from NKI {signature.since} on, this is NKI {version}"


def instruction(
    id: str,
    summary: str,
    *,
    legacy: str | None,
    current: str | None,
    since: str | None = None,
    until: str | None = None,
) -> Api:
    """A call of ``nki.isa`` that is one instruction of the same name."""
    return api(
        f"nisa.{id}",
        Role.INSTRUCTION,
        summary,
        legacy=legacy,
        current=current,
        instruction=id,
        since=since,
        until=until,
    )


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
    "bfp16.min": float("-inf"),
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
