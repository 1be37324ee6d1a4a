# apply: {"factor": 4}
import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,4096]
@nki.jit
def square(x):
    out = nl.ndarray((128, 4096), dtype=nl.float32, buffer=nl.shared_hbm)
    for j in range(2):
        t = nl.ndarray((128, 2048), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x[0:128, j * 2048:(j + 1) * 2048])
        s = nl.ndarray((128, 2048), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=s, op=nl.square, data=t)
        nisa.dma_copy(dst=out[0:128, j * 2048:(j + 1) * 2048], src=s)
    return out
