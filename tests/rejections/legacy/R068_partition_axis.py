import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def broken(x):
    return store(nisa.tensor_reduce(nl.add, nl.load(x), axis=[0]))  # expect: R068 axis 0


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    return store(nisa.tensor_reduce(nl.add, nl.load(x), axis=[1]))
