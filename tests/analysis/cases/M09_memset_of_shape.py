import neuronxcc.nki as nki  # expect: M01
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: x=f32[128,512] nki-version=0.6
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    half = nisa.memset((128, 1), 0.5, nl.float32)  # expect: M02 M09
    shifted = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    shifted[...] = nisa.tensor_scalar(tile, nl.add, half)
    nl.store(out, value=shifted)
    return out


# accelopt: x=f32[128,512] nki-version=0.6
@nki.jit
def near_miss(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    half = nl.full((128, 512), 0.5, dtype=nl.float32, buffer=nl.sbuf)
    nl.store(out, value=nl.add(nl.load(x), half))
    return out
