import nki
import nki.isa as nisa
import nki.language as nl


def apply(tile, function):
    function(tile)


def copied(tile):
    nisa.tensor_copy(dst=tile, src=tile)


# accelopt: x=f32[128,512]
@nki.jit
def trip(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    apply(tile, lambda t: nisa.tensor_copy(dst=t, src=t))  # expect: C013
    nisa.dma_copy(dst=out, src=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def near(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    apply(tile, copied)
    nisa.dma_copy(dst=out, src=tile)
    return out
