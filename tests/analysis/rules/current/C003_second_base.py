import nki
import nki.isa as nisa
import nki.language as nl
from elsewhere import Mixin


class Place(nl.NKIObject, Mixin):
    start: int = 0


class Tile(nl.NKIObject):
    start: int = 0


class Deeper(Tile):
    depth: int = 0


# accelopt: x=f32[128,512]
@nki.jit
def trip(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    place = Place(4)  # expect: C003 Mixin
    nisa.dma_copy(dst=out, src=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def near(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    place = Deeper(4)
    nisa.dma_copy(dst=out, src=tile)
    return out
