# expect: timeout line=11-12 did not end
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    while True:
        tile = nl.exp(tile)
    nl.store(out, tile)
    return out
