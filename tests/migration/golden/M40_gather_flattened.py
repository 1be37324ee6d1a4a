import nki
import nki.language as nl


# accelopt: x=f32[128,512] places=u32[128,64]~ones nki-version=0.6
@nki.jit
def kernel(x, places):
    out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    index = nl.load(places)
    taken = nl.gather_flattened(data=tile, indices=index)
    nl.store(out, value=taken)
    return out


# accelopt: x=f32[128,512] nki-version=0.6
@nki.jit
def near_miss(x):
    out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, value=nl.copy(tile[:, 0:64]))
    return out
