import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: delta=f32[256,4096] u=f32[256,4096] a=f32[256,16] b=f32[16,128,4096] c=f32[16,128,4096]
@nki.jit
def kernel(delta, u, a, b, c):
    out = nl.ndarray((256, 4096), dtype=delta.dtype, buffer=nl.shared_hbm)
    totals = []
    for _ in range(2):
        total = nl.ndarray((128, 4096), dtype=delta.dtype, buffer=nl.sbuf)
        nisa.memset(dst=total, value=0.0)
        totals.append(total)
    for s in range(16):
        for p in range(2):
            total = totals[p]
            step = nl.ndarray((128, 4096), dtype=delta.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=step, src=delta[p * 128 : (p + 1) * 128, :])
            signal = nl.ndarray((128, 4096), dtype=delta.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=signal, src=u[p * 128 : (p + 1) * 128, :])
            gain = nl.ndarray((128, 1), dtype=delta.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=gain, src=a[p * 128 : (p + 1) * 128, s : s + 1])
            decay = nl.ndarray((128, 4096), dtype=delta.dtype, buffer=nl.sbuf)
            nisa.activation(dst=decay, op=nl.exp, data=step, scale=gain)
            drive = nl.ndarray((128, 4096), dtype=delta.dtype, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=drive, data1=step, data2=signal, op=nl.multiply)
            row = nl.ndarray((128, 4096), dtype=delta.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=row, src=b[s, :, :])
            nisa.tensor_tensor(dst=drive, data1=drive, data2=row, op=nl.multiply)
            state = nl.ndarray((128, 4096), dtype=delta.dtype, buffer=nl.sbuf)
            nisa.tensor_tensor_scan(
                dst=state, data0=decay, data1=drive, initial=0.0, op0=nl.multiply, op1=nl.add
            )
            weight = nl.ndarray((128, 4096), dtype=delta.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=weight, src=c[s, :, :])
            nisa.tensor_tensor(dst=state, data1=state, data2=weight, op=nl.multiply)
            nisa.tensor_tensor(dst=total, data1=total, data2=state, op=nl.add)
    for p in range(2):
        nisa.dma_copy(dst=out[p * 128 : (p + 1) * 128, :], src=totals[p])
    return out
