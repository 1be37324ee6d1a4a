import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[4,128,512] nki-version=0.6
@nki.jit
def kernel(x):
    out = nl.ndarray((4, 128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = [
        nl.ndarray(
            (128, 512), dtype=x.dtype, buffer=nl.sbuf, address=(0, 1024 + (block_0 % 2) * 2048)
        )
        for block_0 in range(4)
    ]
    for i in nl.affine_range(4):
        nisa.dma_copy(dst=tiles[i], src=x[i])
        nl.store(out[i], value=tiles[i])
    return out


# accelopt: x=f32[4,128,512] nki-version=0.6
@nki.jit
def near_miss(x):
    out = nl.ndarray((4, 128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        nl.store(out[i], value=nl.load(x[i]))
    return out
