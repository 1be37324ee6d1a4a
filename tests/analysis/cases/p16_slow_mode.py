import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=bf16[4096,2048]
@nki.jit
def kernel(x):
    out = nl.ndarray((4096, 2048), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in range(32):
        tile = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128, :])
        result = nl.ndarray((128, 2048), dtype=nl.float32, buffer=nl.sbuf)
        for again in range(4):
            nisa.tensor_scalar(dst=result, data=tile, op0=nl.maximum, operand0=0.5)  # expect: P16
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128, :], src=result)
    return out
