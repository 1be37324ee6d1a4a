import nki
import nki.isa as nisa
import nki.language as nl


# The same steps on rows that do not depend on each other.
# accelopt: x=f32[2048,4096]
@nki.jit
def kernel(x):
    out = nl.ndarray((2048, 4096), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(16):
        state = nl.ndarray((128, 4096), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=state, src=x[i * 128 : (i + 1) * 128, :])
        step = nl.ndarray((128, 4096), dtype=x.dtype, buffer=nl.sbuf)
        nisa.activation(dst=step, op=nl.tanh, data=state)
        nisa.tensor_tensor(dst=state, data1=state, data2=step, op=nl.subtract)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128, :], src=state)
    return out
