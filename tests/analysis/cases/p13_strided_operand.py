import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[1024,4096]
@nki.jit
def kernel(x):
    out = nl.ndarray((1024, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(8):
        tile = nl.ndarray((128, 4096), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128, :])
        result = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        for again in range(8):
            nisa.activation(dst=result, op=nl.exp, data=tile[:, 0:4096:8])  # expect: P13
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128, :], src=result)
    return out
