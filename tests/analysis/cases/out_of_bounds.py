import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[4096,512]
@nki.jit
def kernel(x):
    out = nl.ndarray((4096, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(33):
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128, :])  # expect: R028
        nisa.dma_copy(
            dst=out[i * 128 : (i + 1) * 128, :],  # expect: R028
            src=tile,
        )
    return out
