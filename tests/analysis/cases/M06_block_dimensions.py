import neuronxcc.nki as nki  # expect: M01
import neuronxcc.nki.language as nl


# accelopt: x=f32[4,128,512] nki-version=0.6
@nki.jit
def kernel(x):
    out = nl.ndarray((4, 128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = nl.ndarray((4, nl.par_dim(128), 512), dtype=x.dtype, buffer=nl.sbuf)  # expect: M06
    halves = nl.ndarray((4, 2, nl.par_dim(128), 256), dtype=x.dtype, buffer=nl.sbuf)
    for i in nl.affine_range(4):
        tiles[i] = nl.load(x[i])
    for i in nl.affine_range(4):
        for j in nl.affine_range(2):
            halves[i, j] = nl.exp(tiles[3 - i, :, nl.ds(j * 256, 256)])
            nl.store(out[i, :, nl.ds(j * 256, 256)], value=halves[i, j])
    return out


# accelopt: x=f32[4,128,512] nki-version=0.6
@nki.jit
def near_miss(x):
    out = nl.ndarray((4, 128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        tile[...] = nl.load(x[i])
        nl.store(out[i], value=tile)
    return out
