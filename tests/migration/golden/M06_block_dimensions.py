import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[4,128,512] nki-version=0.6
@nki.jit
def kernel(x):
    out = nl.ndarray((4, 128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = [nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf) for _ in range(4)]
    for i in nl.affine_range(4):
        nisa.dma_copy(dst=tiles[i], src=x[i])
    for i in nl.affine_range(4):
        for j in nl.affine_range(2):
            halves = nl.ndarray((128, 256), dtype=x.dtype, buffer=nl.sbuf)
            nisa.activation(dst=halves, op=nl.exp, data=tiles[3 - i][:, nl.ds(j * 256, 256)])
            nl.store(out[i, :, nl.ds(j * 256, 256)], value=halves)
    return out


# accelopt: x=f32[4,128,512] nki-version=0.6
@nki.jit
def near_miss(x):
    out = nl.ndarray((4, 128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i])
        nl.store(out[i], value=tile)
    return out
