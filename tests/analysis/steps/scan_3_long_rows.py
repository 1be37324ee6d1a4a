import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: delta=f32[128,12288] u=f32[128,12288] a=f32[128,16]
# accelopt: b=f32[16,128,12288] c=f32[16,128,12288]
@nki.jit
def kernel(delta, u, a, b, c):
    out = nl.ndarray((128, 12288), dtype=delta.dtype, buffer=nl.shared_hbm)
    total = nl.ndarray((128, 12288), dtype=delta.dtype, buffer=nl.sbuf)
    nisa.memset(dst=total, value=0.0)
    step = nl.ndarray((128, 12288), dtype=delta.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=step, src=delta[:, :])
    signal = nl.ndarray((128, 12288), dtype=delta.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=signal, src=u[:, :])
    for s in range(16):
        gain = nl.ndarray((128, 1), dtype=delta.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=gain, src=a[:, s : s + 1])
        decay = nl.ndarray((128, 12288), dtype=delta.dtype, buffer=nl.sbuf)
        nisa.activation(dst=decay, op=nl.exp, data=step, scale=gain)
        drive = nl.ndarray((128, 12288), dtype=delta.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=drive, data1=step, data2=signal, op=nl.multiply)
        row = nl.ndarray((128, 12288), dtype=delta.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=row, src=b[s, :, :])
        nisa.tensor_tensor(dst=drive, data1=drive, data2=row, op=nl.multiply)
        state = nl.ndarray((128, 12288), dtype=delta.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor_scan(
            dst=state, data0=decay, data1=drive, initial=0.0, op0=nl.multiply, op1=nl.add
        )
        weight = nl.ndarray((128, 12288), dtype=delta.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=weight, src=c[s, :, :])
        nisa.tensor_tensor(dst=state, data1=state, data2=weight, op=nl.multiply)
        nisa.tensor_tensor(dst=total, data1=total, data2=state, op=nl.add)
    nisa.dma_copy(dst=out, src=total)
    return out
