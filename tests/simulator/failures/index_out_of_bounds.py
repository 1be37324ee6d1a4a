# expect: rejected line=12 code=R028 indices 1 to 128 leave dimension 0
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    i = nl.arange(128)[:, None]
    tile = nl.load(x[i + 1, nl.arange(512)[None, :]])
    nl.store(out, tile)
    return out
