import neuronxcc.nki as nki  # expect: M01
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: x=f32[128,512] nki-version=0.6
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    tile = nl.load(x)
    short = nisa.tensor_copy(tile, dtype=nl.bfloat16)  # expect: M02 M03
    nl.store(out, value=short)
    return out


# accelopt: x=f32[128,512] nki-version=0.6
@nki.jit
def near_miss(x):
    out = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, value=nl.copy(tile, dtype=nl.bfloat16))
    return out
