import neuronxcc.nki as nki  # expect: M01
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: x=f32[128,512] nki-version=0.6
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    inverse = nisa.reciprocal(tile)  # expect: M02
    squares = nisa.tensor_tensor(inverse, inverse, op=nl.multiply)
    nl.store(out, value=squares)
    return out


# accelopt: x=f32[128,512] nki-version=0.6
@nki.jit
def near_miss(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    return out
