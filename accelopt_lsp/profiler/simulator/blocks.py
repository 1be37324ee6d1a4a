"""Tensors with block dimensions, which only the dialect of NKI 0.1 has."""

from __future__ import annotations

import sys
from math import prod
from typing import Any

from accelopt_lsp.nki.dtypes import DType
from accelopt_lsp.nki.operands import Buffer, row_major_strides
from accelopt_lsp.profiler.simulator import state as sessions
from accelopt_lsp.profiler.simulator import views
from accelopt_lsp.profiler.simulator.abridging_blocks import looked_up
from accelopt_lsp.profiler.simulator.abridging_values import (
    LoopIndex,
    LoopValue,
    plain,
    within,
)
from accelopt_lsp.profiler.simulator.elements import ELEMENTS, ElementType
from accelopt_lsp.profiler.simulator.errors import KernelRejected
from accelopt_lsp.profiler.simulator.indexing import Affine
from accelopt_lsp.profiler.simulator.tensors import KEYS, Tensor

_WHOLE = frozenset({int, LoopIndex})


class BlockTable:
    """The blocks of a tensor with block dimensions, which its views share.

    Attributes:
        sizes: of the block dimensions.
        strides: places in the table from one block to the next along each of them.
        serial: number among those of abridged loops; 0 where nothing is abridged.
        born: number of records before it.
        made: tiles of blocks that were used.
        like: a tile like each of them.
        ids: storage of every block by its place, -1 for none; None where nothing is abridged.
            A block may have a storage and no tile yet.
    """

    __slots__ = ("born", "ids", "like", "made", "serial", "sizes", "strides")

    def __init__(self, sizes: tuple[int, ...], serial: int, born: int) -> None:
        self.sizes = sizes
        self.strides = row_major_strides(sizes)
        self.serial = serial
        self.born = born
        self.made: dict[tuple[int, ...], Tensor] = {}
        self.like: Tensor | None = None
        self.ids: list[int] | None = [-1] * prod(sizes) if serial else None

    def place(self, index: tuple[int, ...]) -> int:
        """Place of a block."""
        return sum([n * s for n, s in zip(index, self.strides, strict=True)])


class BlockTensor:
    """A legacy tensor with block dimensions: one allocation a block, made when first used.

    Attributes:
        blocks: sizes of the block dimensions.
        tile: sizes of one block; dimension 0 is the partition dimension.
        prefix: block indices already given.
        table: all its blocks.
    """

    __slots__ = (
        "_made",
        "_views",
        "blocks",
        "buffer",
        "element",
        "make",
        "prefix",
        "table",
        "tile",
    )

    def __init__(
        self,
        blocks: tuple[int, ...],
        tile: tuple[int, ...],
        element: DType,
        buffer: Buffer,
        make: Any,
        table: BlockTable,
    ) -> None:
        self.table = table
        self.blocks = blocks
        self.tile = tile
        self.element = element
        self.buffer = buffer
        self.make = make
        self.prefix: tuple[int, ...] = ()
        self._made = table.made
        self._views: dict[tuple[Any, ...], Tensor] = {}

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.blocks[len(self.prefix) :], *self.tile)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> ElementType:
        return ELEMENTS[self.element]

    def __repr__(self) -> str:
        sizes = ",".join(map(str, self.shape))
        return f"{self.element.short}[{sizes}] in {self.buffer.upper()} (blocks)"

    def block(self, index: tuple[int, ...], moving: tuple[Any, ...] = ()) -> Tensor:
        """The tile of one block.

        Args:
            moving: the index as an abridged loop moves it.
        """
        if LoopValue in map(type, index):
            return self._moving(index)
        found = self._made.get(index)
        if found is None:
            for position, size in zip(index, self.blocks):  # noqa: B905 - equally many
                if not 0 <= position < size:
                    raise KernelRejected(
                        f"block index {list(index)} is out of bounds for block dimensions "
                        f"{list(self.blocks)}",
                        "R028",
                    )
            ids = self.table.ids
            if ids is None:
                found = self._made[index] = self.make(index, self.table)
            else:
                found = self._made[index] = self._known(index, ids, moving)
        return found

    def _known(self, index: tuple[int, ...], ids: list[int], moving: tuple[Any, ...]) -> Tensor:
        """The tile of a block in an abridged trace, where iterations left out may have made it."""
        place = self.table.place(index)
        if ids[place] < 0:
            abridging = sessions.active().abridging
            if abridging is not None:
                abridging.made(self.table, moving)
            tile: Tensor = self.make(index, self.table)
            ids[place] = tile.settle().id
            if self.table.like is None:
                # Not the tile itself: the moves of abridged loops change that.
                self.table.like = tile.copied(ids[place])
            return tile
        assert self.table.like is not None
        return self.table.like.copied(ids[place])

    def _moving(self, index: tuple[Any, ...]) -> Tensor:
        """The tile of a block that an abridged loop moves over."""
        place = tuple(map(plain, index))
        if not all(map(within, index, self.blocks)):
            return self.block(tuple(map(int, index)))
        ids = self.table.ids
        fresh = ids is not None and ids[self.table.place(place)] < 0
        found = self.block(place, index)
        looked_up(self.table, index, fresh)
        return found

    def _split(self, key: Any) -> tuple[Tensor | BlockTensor, tuple[Any, ...]]:
        parts = key if type(key) is tuple else (key,)
        wanted = len(self.blocks) - len(self.prefix)
        index = parts[:wanted]
        moving = LoopValue in map(type, index)
        if not self.prefix and not moving:
            try:
                known = self._made.get(index)
            except TypeError:
                known = None
            if known is not None:
                return known, parts[wanted:]
        if len(index) == wanted and not self.prefix and _WHOLE.issuperset(map(type, index)):
            return self.block(tuple(map(int, index))), parts[wanted:]
        if not moving and Ellipsis in index:
            raise KernelRejected("index the block dimensions first, each by an integer", "R014")
        numbers: list[Any] = []
        for part in index:
            if isinstance(part, slice) or not hasattr(part, "__index__"):
                raise KernelRejected(
                    "block dimensions are indexed by integers and loop variables", "R014"
                )
            numbers.append(part if type(part) is LoopValue else part.__index__())
        prefix = (*self.prefix, *numbers)
        if len(prefix) == len(self.blocks):
            return self.block(prefix), parts[wanted:]
        view = BlockTensor(self.blocks, self.tile, self.element, self.buffer, self.make, self.table)
        view.prefix = prefix
        return view, ()

    def __getitem__(self, key: Any) -> Any:
        if (
            type(key) is tuple
            and key
            and type(key[-1]) in KEYS
            and not self.prefix
            and LoopValue not in map(type, key)
        ):
            # Views by block and affine indices, once more: most kernels of NKI 0.1 use each of
            # them for writing and for reading.
            try:
                known = self._views.get(key)
            except TypeError:
                known = None
            if known is not None:
                return known
        found, rest = self._split(key)
        if not rest or not isinstance(found, Tensor):
            return found
        if type(rest[0]) is not Affine:
            return found[rest]
        view = views.advanced(found, rest)
        if view.shared and not self.prefix and LoopValue not in map(type, key):
            self._views[key] = view
        return view

    def __setitem__(self, key: Any, value: Any) -> None:
        found = self[key]
        if isinstance(found, BlockTensor):
            raise KernelRejected("assign to one block at a time", "R014")
        sessions.active().assign(found, Ellipsis, value, sys._getframe(1))
