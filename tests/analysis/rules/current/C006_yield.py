import nki
import nki.isa as nisa
import nki.language as nl


def starts(count):
    for i in range(count):
        yield i + 1  # expect: C006 list


def places(count):
    found = []
    for i in range(count):
        found.append(i + 1)
    return found


# accelopt: x=f32[128,512]
@nki.jit
def trip(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for i in starts(4):
        nisa.tensor_copy(dst=tile[:, i : i + 1], src=tile[:, 0:1])
    nisa.dma_copy(dst=out, src=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def near(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for i in places(4):
        nisa.tensor_copy(dst=tile[:, i : i + 1], src=tile[:, 0:1])
    nisa.dma_copy(dst=out, src=tile)
    return out
