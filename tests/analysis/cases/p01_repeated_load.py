import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[4096,512] w=f32[4096,512] target=trn1
@nki.jit
def kernel(x, w):
    out = nl.ndarray((4096, 4096), dtype=x.dtype, buffer=nl.shared_hbm)
    for m in range(32):
        for n in range(32):
            a = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=a, src=x[m * 128 : (m + 1) * 128, :])  # expect: P01
            b = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=b, src=w[n * 128 : (n + 1) * 128, :])  # expect: P01
            c = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=c, data1=a, data2=b, op=nl.add)
            total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_reduce(dst=total, op=nl.add, data=c, axis=1)
            row = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
            nisa.tensor_scalar(dst=row, data=a[:, 0:128], op0=nl.add, operand0=total)
            nisa.dma_copy(dst=out[m * 128 : (m + 1) * 128, n * 128 : (n + 1) * 128], src=row)
    return out
