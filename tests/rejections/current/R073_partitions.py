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


# accelopt: x=bf16[48,32] target=trn3
@nki.jit
def broken(x):
    tile = load(x)
    packed = nl.ndarray((48, 8), dtype=nl.float8_e5m2_x4, buffer=nl.sbuf)
    scale = nl.ndarray((48, 8), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.quantize_mx(dst=packed, src=tile, dst_scale=scale)  # expect: R073 48
    return store(packed)


# accelopt: x=bf16[48,32] target=trn3
@nki.jit
def valid(x):
    tile = load(x)
    packed = nl.ndarray((32, 8), dtype=nl.float8_e5m2_x4, buffer=nl.sbuf)
    scale = nl.ndarray((32, 8), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.quantize_mx(dst=packed, src=tile[0:32], dst_scale=scale)
    return store(packed)
