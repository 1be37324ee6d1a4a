import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,4096]
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 4096), dtype=x.dtype, buffer=nl.shared_hbm)
    state = nl.ndarray((128, 4096), dtype=x.dtype, buffer=nl.sbuf)  # expect: P03
    nisa.dma_copy(dst=state, src=x)
    for _ in range(16):
        step = nl.ndarray((128, 4096), dtype=x.dtype, buffer=nl.sbuf)
        nisa.activation(dst=step, op=nl.tanh, data=state)
        nisa.tensor_tensor(dst=state, data1=state, data2=step, op=nl.subtract)
    nisa.dma_copy(dst=out, src=state)
    return out
