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
    return store(nisa.tensor_tensor(tile, tile[0:64], op=nl.add))  # expect: R024 64


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    tile = nl.load(x)
    return store(nisa.tensor_tensor(tile[0:64], tile[64:128], op=nl.add))
