import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512] nki-version=0.6
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    tile = nl.load(x)
    short = nl.ndarray(tile.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.tensor_copy(dst=short, src=tile)
    nl.store(out, value=short)
    return out


# accelopt: x=f32[128,512] nki-version=0.6
@nki.jit
def near_miss(x):
    out = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, value=nl.copy(tile, dtype=nl.bfloat16))
    return out
