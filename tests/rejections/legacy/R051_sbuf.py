import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def broken(x):
    tile = nl.zeros((128, 65536), dtype=nl.float32, buffer=nl.sbuf)  # expect: R051 262144
    return store(nl.load(x))


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    tile = nl.zeros((128, 16384), dtype=nl.float32, buffer=nl.sbuf)
    return store(nl.add(nl.load(x), tile[:, 0:512]))
