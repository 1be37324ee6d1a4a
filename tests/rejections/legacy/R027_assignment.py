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
    half = nl.ndarray((128, 256), dtype=x.dtype, buffer=nl.sbuf)
    half[...] = tile  # expect: R027 512
    return store(half)


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    tile = nl.load(x)
    half = nl.ndarray((128, 256), dtype=x.dtype, buffer=nl.sbuf)
    half[...] = tile[:, 0:256]
    return store(half)
