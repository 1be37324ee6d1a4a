# expect: sandbox line=11 may not read the files of its inputs
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    import numpy
    numpy.load('input-0-0.npy')
    nl.store(out, tile)
    return out
