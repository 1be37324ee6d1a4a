import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[2048,2048]
@nki.jit
def kernel(x):
    out = nl.ndarray((2048, 2048), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(16):
        tile = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128, :])
        for j in range(64):
            nisa.activation(
                dst=tile[:, j * 32 : (j + 1) * 32], op=nl.exp, data=tile[:, j * 32 : (j + 1) * 32]
            )  # expect-above: P05
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128, :], src=tile)
    return out
