# expect: rejected line=11 code=R023 free size 512 exceeds 128
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.matmul(tile, tile, transpose_x=True)
    nl.store(out, tile)
    return out
