import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


# accelopt: x=f32[128,512]
@nki.jit
def broken(x):
    tile = nl.load(x)
    for _ in nl.affine_range(2):
        out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)  # expect: R025 1 loop
        nl.store(out, value=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    tile = nl.load(x)
    out = nl.ndarray((2, 128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(2):
        nl.store(out[i], value=tile)
    return out
