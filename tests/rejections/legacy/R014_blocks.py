import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def broken(x):
    tiles = nl.ndarray((2, nl.par_dim(128), 512), dtype=x.dtype, buffer=nl.sbuf)
    for i in nl.affine_range(2):
        tiles[i] = nl.load(x)
    return store(nl.exp(tiles))  # expect: R014 [2]


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    tiles = nl.ndarray((2, nl.par_dim(128), 512), dtype=x.dtype, buffer=nl.sbuf)
    for i in nl.affine_range(2):
        tiles[i] = nl.load(x)
    return store(nl.exp(tiles[1]))
