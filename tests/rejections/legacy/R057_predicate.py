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
    i, j = nl.mgrid[0:128, 0:512]
    tile = nl.load(x)
    return store(nisa.affine_select((i < 64) & (j < 256), tile, 0.0))  # expect: R057


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    i, j = nl.mgrid[0:128, 0:512]
    tile = nl.load(x)
    return store(nisa.affine_select(i <= j, tile, 0.0))
