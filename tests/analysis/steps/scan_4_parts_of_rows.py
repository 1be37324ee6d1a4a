import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: delta=f32[128,12288] u=f32[128,12288] a=f32[128,16]
# accelopt: b=f32[16,128,12288] c=f32[16,128,12288]
@nki.jit
def kernel(delta, u, a, b, c):
    out = nl.ndarray((128, 12288), dtype=delta.dtype, buffer=nl.shared_hbm)
    last = nl.ndarray((128, 16), dtype=delta.dtype, buffer=nl.sbuf)
    nisa.memset(dst=last, value=0.0)
    for t in range(6):
        total = nl.ndarray((128, 2048), dtype=delta.dtype, buffer=nl.sbuf)
        nisa.memset(dst=total, value=0.0)
        step = nl.ndarray((128, 2048), dtype=delta.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=step, src=delta[:, t * 2048 : (t + 1) * 2048])
        signal = nl.ndarray((128, 2048), dtype=delta.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=signal, src=u[:, t * 2048 : (t + 1) * 2048])
        for s in range(16):
            gain = nl.ndarray((128, 1), dtype=delta.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=gain, src=a[:, s : s + 1])
            decay = nl.ndarray((128, 2048), dtype=delta.dtype, buffer=nl.sbuf)
            nisa.activation(dst=decay, op=nl.exp, data=step, scale=gain)
            drive = nl.ndarray((128, 2048), dtype=delta.dtype, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=drive, data1=step, data2=signal, op=nl.multiply)
            row = nl.ndarray((128, 2048), dtype=delta.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=row, src=b[s, :, t * 2048 : (t + 1) * 2048])
            nisa.tensor_tensor(dst=drive, data1=drive, data2=row, op=nl.multiply)
            state = nl.ndarray((128, 2048), dtype=delta.dtype, buffer=nl.sbuf)
            nisa.tensor_tensor_scan(
                dst=state,
                data0=decay,
                data1=drive,
                initial=last[:, s : s + 1],
                op0=nl.multiply,
                op1=nl.add,
            )
            nisa.tensor_copy(dst=last[:, s : s + 1], src=state[:, 2047:2048])
            weight = nl.ndarray((128, 2048), dtype=delta.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=weight, src=c[s, :, t * 2048 : (t + 1) * 2048])
            nisa.tensor_tensor(dst=state, data1=state, data2=weight, op=nl.multiply)
            nisa.tensor_tensor(dst=total, data1=total, data2=state, op=nl.add)
        nisa.dma_copy(dst=out[:, t * 2048 : (t + 1) * 2048], src=total)
    return out
