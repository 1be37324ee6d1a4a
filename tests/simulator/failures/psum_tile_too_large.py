# expect: rejected line=11 code=R051 does not fit PSUM
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.ndarray((128, 8192), dtype=nl.float32, buffer=nl.psum)
    nl.store(out, tile)
    return out
