"""A loop whose iterations need each other's results."""

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


# accelopt: x=f32[128,512]
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    state = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    state[...] = nl.load(x)
    for i in nl.sequential_range(4):
        state[...] = nl.sqrt(nl.add(state, 1.0))
    nl.store(out, value=state)
    return out
