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


# accelopt: x=f8e5m2x4[32,8] target=trn3
@nki.jit
def broken(x):
    tile = load(x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)  # expect: R097 float8_e5m2_x4
    return store(tile)


# accelopt: x=f8e5m2x4[32,8] target=trn3
@nki.jit
def valid(x):
    tile = load(x)
    out = nl.ndarray((32, 8), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=out, src=tile)
    return store(out)
