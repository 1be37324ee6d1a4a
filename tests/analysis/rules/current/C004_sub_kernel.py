import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def part(tile):
    nisa.tensor_copy(dst=tile, src=tile)


def plain(tile):
    nisa.tensor_copy(dst=tile, src=tile)


# accelopt: x=f32[128,512]
@nki.jit
def trip(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    part(tile)  # expect: C004 part
    nisa.dma_copy(dst=out, src=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def near(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    plain(tile)
    nisa.dma_copy(dst=out, src=tile)
    return out
