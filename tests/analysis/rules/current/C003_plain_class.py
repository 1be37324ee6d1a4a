from enum import Enum

import nki
import nki.isa as nisa
import nki.language as nl


class Place:
    def __init__(self, start):
        self.start = start


class Tile(nl.NKIObject):
    start: int = 0


class Kind(Enum):
    ROWS = 1


# accelopt: x=f32[128,512]
@nki.jit
def trip(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    place = Place(4)  # expect: C003 nothing
    nisa.dma_copy(dst=out, src=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def near(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    place = Tile(4)
    kind = Kind.ROWS
    nisa.dma_copy(dst=out, src=tile)
    return out
