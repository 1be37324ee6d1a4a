import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[4096,2048]
@nki.jit
def kernel(x):
    out = nl.ndarray((4096, 2048), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(32):
        tile = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128, :])
        scaled = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=scaled, data=tile, op0=nl.multiply, operand0=0.125)
        result = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf)
        nisa.activation(dst=result, op=nl.exp, data=scaled)  # expect: P07
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128, :], src=result)
    return out
