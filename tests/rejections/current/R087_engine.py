import nki
import nki.isa as nisa
import nki.language as nl


def load(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return tile


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


# accelopt: x=f32[128,16] places=u32[128,1] target=trn3
@nki.jit
def broken(x, places):
    tile = load(x)
    index = load(places)
    out = nl.ndarray((32, 16), dtype=x.dtype, buffer=nl.sbuf)
    gathered = tile[0:32].indirect(index[0:32], num_elem=16)
    nisa.tensor_copy(dst=out, src=gathered, engine=nisa.engine.gpsimd)  # expect: R087 gpsimd
    return store(out)


# accelopt: x=f32[128,16] places=u32[128,1] target=trn3
@nki.jit
def valid(x, places):
    tile = load(x)
    index = load(places)
    out = nl.ndarray((32, 16), dtype=x.dtype, buffer=nl.sbuf)
    gathered = tile[0:32].indirect(index[0:32], num_elem=16)
    nisa.tensor_copy(dst=out, src=gathered, engine=nisa.engine.scalar)
    return store(out)
