import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[128,128]
@nki.jit
def broken(x):
    tile = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
    total = nl.matmul(nl.load(x), tile, transpose_x=True)  # expect: R099 tile (created on line 14)
    return store(nl.copy(total))


# accelopt: x=f32[128,128]
@nki.jit
def valid(x):
    tile = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
    tile[...] = nl.load(x)
    return store(nl.copy(nl.matmul(tile, tile, transpose_x=True)))
