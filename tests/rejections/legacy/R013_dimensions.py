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
    tile = nl.load(x).reshape((128, 4, 4, 4, 4, 2))
    return store(nisa.tensor_reduce(nl.add, tile, axis=[5]))  # expect: R013 5 free axes


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    tile = nl.load(x).reshape((128, 4, 4, 4, 8))
    return store(nisa.tensor_reduce(nl.add, tile, axis=[4]).reshape((128, 64)))
