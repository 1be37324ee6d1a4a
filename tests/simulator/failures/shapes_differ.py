# expect: rejected line=11 code=R027 do not broadcast
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.add(tile, tile[:, 0:256])
    nl.store(out, tile)
    return out
