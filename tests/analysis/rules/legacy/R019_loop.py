import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


# accelopt: x=f32[128,512]
@nki.jit
def trip(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(2):
        tile = nl.load(x)
    nl.store(out, value=tile)  # expect: R019 create it before
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def near(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for i in nl.affine_range(2):
        tile[...] = nl.load(x)
    nl.store(out, value=tile)
    return out
