import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np


# accelopt: x=f32[128,4096]
@nki.jit
def kernel(x):
    """A reduction over loops: a copy the first time, an addition afterwards."""
    out = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.shared_hbm)
    peaks = nl.ndarray((2, 4, nl.par_dim(128), 1), dtype=nl.float32, buffer=nl.sbuf)
    peak = nl.ndarray((nl.par_dim(128), 1), dtype=nl.float32, buffer=nl.sbuf)
    for i in nl.affine_range(2):
        for j in nl.affine_range(4):
            tile = nl.load(x[:, nl.ds(i * 2048 + j * 512, 512)])
            peaks[i, j] = nisa.tensor_reduce(np.max, tile, axis=[1])
            peak[...] = nl.loop_reduce(peaks[i, j], op=np.max, loop_indices=[i, j])
    nl.store(out, value=peak)
    return out
