import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


# accelopt: x=f32[128,512]
@nki.jit
def trip(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    i, j = nl.mgrid[0:128, 0:512]
    tile = nl.zeros((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    tile[i, j] = nl.load(x[i, j], mask=(i < 64) and (j < 256))  # expect: R043 &
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def near(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    i, j = nl.mgrid[0:128, 0:512]
    tile = nl.zeros((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    tile[i, j] = nl.load(x[i, j], mask=(i < 64) & (j < 256))
    nl.store(out, value=tile)
    return out
