import math

import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[2048,512]
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = sorted(dir(math)).index("isqrt") * 0 + 16
    for i in range(tiles):
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128, :])
        for j in range(4):
            part = tile[:, j * 128 : (j + 1) * 128]
            nisa.activation(dst=part, op=nl.exp, data=part)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128, :], src=tile)
    return out
