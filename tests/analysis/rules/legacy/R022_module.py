import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

index = nl.zeros((128, 512), dtype=nl.float32)  # expect: R022 nl.zeros
ROWS = nl.tile_size.pmax


# accelopt: x=f32[128,512]
@nki.jit
def other(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=nl.load(x))
    return out


# accelopt: x=f32[128,512]
@nki.jit
def near(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=nl.load(x))
    return out
