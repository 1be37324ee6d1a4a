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


# accelopt: x=f32[128,512]
@nki.jit
def broken(x):
    tile = load(x)
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=out[:, 0:256], src=tile[:, 0:256])
    nisa.tensor_reduce(
        dst=tile[:, 0:1], op=nl.add, data=out, axis=1
    )  # expect: R099 parts of out (created on line 22)
    return store(tile[:, 0:1])


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    tile = load(x)
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=out[:, 0:256], src=tile[:, 0:256])
    nisa.tensor_reduce(dst=tile[:, 0:1], op=nl.add, data=out[:, 0:256], axis=1)
    return store(tile[:, 0:1])
