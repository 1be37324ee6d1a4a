import nki
import nki.isa as nisa
import nki.language as nl


def halves(tile, size):
    if size > 256:
        halves(tile, size // 2)  # expect: C009 inlined
    nisa.tensor_copy(dst=tile[:, 0:size], src=tile[:, 0:size])


def widths(tile, size):
    while size > 256:
        nisa.tensor_copy(dst=tile[:, 0:size], src=tile[:, 0:size])
        size = size // 2


# accelopt: x=f32[128,512]
@nki.jit
def trip(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    halves(tile, 512)
    nisa.dma_copy(dst=out, src=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def near(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    widths(tile, 512)
    nisa.dma_copy(dst=out, src=tile)
    return out
