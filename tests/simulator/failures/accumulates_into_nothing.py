# expect: rejected line=12 code=R099 nl.zeros
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    total += nl.matmul(tile[:, 0:128], tile, transpose_x=True)
    nl.store(out, tile)
    return out
