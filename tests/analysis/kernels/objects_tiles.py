"""Objects that loops make: kept in lists, gone through by other loops, the last one kept."""

from enum import Enum
from typing import NamedTuple

import nki
import nki.isa as nisa
import nki.language as nl


class Kind(Enum):
    WHOLE = 0
    RAGGED = 1


class Reach(NamedTuple):
    start: int
    size: int

    @property
    def end(self):
        return self.start + self.size


class Tile(nl.NKIObject):
    def __init__(self, index, size, step):
        self.reach = Reach(index * step, size)
        self.kind = Kind.WHOLE if size == step else Kind.RAGGED
        self.buffer = None

    @property
    def size(self):
        return self.reach.size

    @staticmethod
    def cover(total, step):
        tiles = []
        for i in range((total + step - 1) // step):
            tiles.append(Tile(i, min(step, total - i * step), step))
        return tuple(tiles)


class Buffers(nl.NKIObject):
    def __init__(self, count, dtype):
        self.items = [nl.ndarray((128, 256), dtype=dtype, buffer=nl.sbuf) for _ in range(count)]
        self.turn = 0

    def next(self):
        found = self.items[self.turn]
        self.turn = (self.turn + 1) % len(self.items)
        return found


# accelopt: x=f32[128,1000]
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = Tile.cover(x.shape[1], 256)
    for tile in tiles:
        tile.buffer = nl.ndarray((128, 256), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(
            dst=tile.buffer[:, : tile.size], src=x[:, tile.reach.start : tile.reach.end]
        )
    buffers = Buffers(3, x.dtype)
    for position, tile in enumerate(tiles):
        work = buffers.next()
        nisa.tensor_scalar(
            dst=work[:, : tile.size], data=tile.buffer[:, : tile.size], op0=nl.add, operand0=1.0
        )
        if tile.kind is Kind.RAGGED:
            nisa.memset(dst=work[:, tile.size :], value=0.0)
        nisa.dma_copy(
            dst=out[:, tile.reach.start : tile.reach.end], src=work[:, : tiles[position].size]
        )
    last = tiles[-1]
    for _ in range(last.reach.end // 100 + buffers.turn):
        nisa.memset(dst=work, value=3.0)
    return out
