# apply: {"factor": 2}
import nki
import nki.isa as nisa
import nki.language as nl

COLUMNS = 1024


# accelopt: x=f32[256,4096] y=f32[256,4096]
@nki.jit
def add(x, y):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(x.shape[0] // 128):
        for j in nl.affine_range(x.shape[1] // COLUMNS):
            a = nl.ndarray((128, COLUMNS), dtype=x.dtype, buffer=nl.sbuf)
            b = nl.ndarray((128, COLUMNS), dtype=y.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=a, src=x[i * 128:(i + 1) * 128, j * COLUMNS:(j + 1) * COLUMNS])
            nisa.dma_copy(dst=b, src=y[i * 128:(i + 1) * 128, j * COLUMNS:(j + 1) * COLUMNS])
            nisa.tensor_tensor(dst=a, data1=a, data2=b, op=nl.add)
            nisa.dma_copy(dst=out[i * 128:(i + 1) * 128, j * COLUMNS:(j + 1) * COLUMNS], src=a)
    return out
