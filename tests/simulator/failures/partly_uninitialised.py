# expect: rejected line=14 code=R099 (tile, created on line 13
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    other = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    other[0:64, :] = nl.copy(tile[0:64, :])
    tile = nl.add(tile, other)
    nl.store(out, tile)
    return out
