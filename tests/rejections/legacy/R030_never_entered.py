import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


# accelopt: x=f32[128,512]
@nki.jit
def broken(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)  # expect: R030 0 instructions
    for _ in nl.affine_range(128 // 256):
        nl.store(out, value=nl.load(x))
    return out


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    for _ in nl.affine_range(256 // 256):
        nl.store(out, value=nl.load(x))
    return out
