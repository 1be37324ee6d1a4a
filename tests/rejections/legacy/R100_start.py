import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def broken(x):
    tile = nl.load(x)
    return store(nl.exp(tile[16:48]))  # expect: R100 partition 16


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    tile = nl.load(x)
    return store(nl.exp(tile[32:64]))
