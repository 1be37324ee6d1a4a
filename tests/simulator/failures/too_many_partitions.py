# expect: rejected line=11 code=R023 at most 128 partitions
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.ndarray((256, 512), dtype=x.dtype, buffer=nl.sbuf)
    nl.store(out, tile)
    return out
