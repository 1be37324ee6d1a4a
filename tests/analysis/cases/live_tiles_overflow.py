import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,65536] target=trn1
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 65536), dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = []
    for i in range(32):
        tile = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf)  # expect: P02
        nisa.dma_copy(dst=tile, src=x[:, i * 2048 : (i + 1) * 2048])
        tiles.append(tile)
    for i in range(32):
        nisa.dma_copy(dst=out[:, i * 2048 : (i + 1) * 2048], src=tiles[i])
    return out
