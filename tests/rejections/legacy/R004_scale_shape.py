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
    tile = nl.load(x)
    return store(nisa.activation(op=nl.exp, data=tile, scale=tile[:, 0:2]))  # expect: R004 it has 2


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    tile = nl.load(x)
    return store(nisa.activation(op=nl.exp, data=tile, scale=tile[:, 0:1]))
