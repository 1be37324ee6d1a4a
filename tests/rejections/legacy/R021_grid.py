import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=tile)
    return out


@nki.jit
def double(x):
    tile = nl.load(x)
    return store(nl.add(tile, tile))


# accelopt: x=f32[128,512]
@nki.jit
def broken(x):
    return double[2](x)  # expect: R021


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    return double(x)
