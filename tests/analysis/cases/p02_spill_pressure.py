import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[2048,8192]
@nki.jit
def kernel(x):
    out = nl.ndarray((2048, 8192), dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = []
    for i in range(16):
        tile = nl.ndarray((128, 8192), dtype=x.dtype, buffer=nl.sbuf)  # expect: P02
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128, :])
        tiles.append(tile)
    for i in range(16):
        result = nl.ndarray((128, 8192), dtype=x.dtype, buffer=nl.sbuf)
        nisa.activation(dst=result, op=nl.exp, data=tiles[i])
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128, :], src=result)
    return out
