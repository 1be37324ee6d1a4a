"""What expressions of a kernel stand for, as far as rewrites need to know."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from math import prod

from attrs import define, field, frozen

from accelopt_lsp.nki.dtypes import DType
from accelopt_lsp.nki.operands import Buffer, OperandType
from accelopt_lsp.rewrites.affine import Affine, Dim, Region, Symbol


@frozen(slots=True, eq=False)
class Loop:
    """A ``for`` over a range.

    Attributes:
        node: the statement.
        variable: name of the loop variable.
        symbol: counts iterations from 0.
        trips: iterations, None if unknown.
        start, step: the variable is ``start + step * symbol``.
        kind: ``affine_range``, ``sequential_range``, ``static_range`` or ``range``.
    """

    node: ast.For
    variable: str
    symbol: Symbol
    trips: int | None
    start: Affine
    step: int
    kind: str

    @property
    def plain(self) -> bool:
        """Counts 0, 1, 2, ..."""
        return self.step == 1 and self.start == Affine()


@frozen(slots=True, eq=False)
class Tensor:
    """A tensor that a statement creates, or a parameter.

    Attributes:
        name: variable that holds it first.
        shape: sizes, None where unknown.
        dtype, buffer: None if unknown.
        step: index of the creating statement in the model; None for parameters.
        call: the creating call.
        api: canonical name of the creating function; None for operators and parameters.
        block_dims: dimensions in front of the partition dimension (legacy).
        loops: loops around the creating statement.
    """

    name: str
    shape: tuple[int | None, ...] | None = None
    dtype: DType | None = None
    buffer: Buffer | None = None
    step: int | None = None
    call: ast.Call | None = None
    api: str | None = None
    block_dims: int = 0
    loops: tuple[Loop, ...] = ()

    @property
    def parameter(self) -> bool:
        return self.step is None

    @property
    def allocation(self) -> bool:
        """Created without being computed."""
        return self.api in ("nl.ndarray", "nl.zeros", "nl.ones", "nl.full", "nl.empty_like")

    @property
    def partition_bytes(self) -> int | None:
        """Bytes per partition over all blocks."""
        if self.shape is None or self.dtype is None or None in self.shape:
            return None
        blocks = self.shape[: self.block_dims]
        free = self.shape[self.block_dims + 1 :]
        return prod(s or 0 for s in (*blocks, *free)) * self.dtype.nbytes


@frozen(slots=True, eq=False)
class View:
    """A tensor or a part of it.

    Attributes:
        tensor: whose part it is.
        region: one entry a dimension of the tensor; None if not understood.
        instance: for a tile out of a list: iteration of the filling loop, by its symbol.
    """

    tensor: Tensor
    region: Region | None
    shape: tuple[int | None, ...] | None = None
    instance: Mapping[Symbol, Affine] = field(factory=dict)

    @property
    def whole(self) -> bool:
        """Covers the tensor completely."""
        shape = self.tensor.shape
        if self.region is None or shape is None or len(shape) != len(self.region):
            return False
        return all(
            not d.point and d.start == Affine() and d.step == 1 and d.extent == size
            for d, size in zip(self.region, shape, strict=True)
        )

    @property
    def operand(self) -> OperandType | None:
        tensor = self.tensor
        if self.shape is None or None in self.shape:
            return None
        if tensor.dtype is None or tensor.buffer is None:
            return None
        return OperandType(
            tuple(s for s in self.shape if s is not None), tensor.dtype, tensor.buffer
        )


@frozen(slots=True)
class Literal:
    """A float, string, bool or None."""

    value: float | str | bool | None


@frozen(slots=True)
class ApiRef:
    """A name of NKI or NumPy, ``nl.exp``."""

    name: str


@frozen(slots=True)
class Items:
    """A tuple."""

    items: tuple[Value, ...]


@frozen(slots=True)
class Grid:
    """``nl.mgrid[...]``: one index array an axis."""

    axes: tuple[Affine, ...]


@frozen(slots=True)
class ParDim:
    """``nl.par_dim(size)``."""

    size: Affine


@frozen(slots=True)
class Range:
    """``nl.ds(start, size)``."""

    start: Affine
    size: Affine


@define(slots=True, eq=False)
class TileList:
    """A Python list of tiles, filled by ``append`` in at most one loop a level.

    Attributes:
        loops: loops around its creation.
        element: what is appended; None if nothing or several things are.
        filler: loop that fills it.
        broken: used in a way that is not understood.
    """

    name: str
    loops: tuple[Loop, ...]
    element: View | TileList | None = None
    filler: Loop | None = None
    broken: bool = False
    instance: Mapping[Symbol, Affine] = field(factory=dict)


Value = (
    Affine | Literal | ApiRef | Items | Grid | ParDim | Range | TileList | View | DType | Dim | None
)
"""None: unknown."""


def number(value: Value) -> int | float | None:
    """The number that a value stands for, if it is one."""
    if isinstance(value, Affine):
        return value.value
    if isinstance(value, Literal) and isinstance(value.value, int | float):
        return None if isinstance(value.value, bool) else value.value
    return None


def integer(value: Value) -> int | None:
    return value.value if isinstance(value, Affine) else None
