import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: w=bf16[128,2,128] x=bf16[128,2,512] target=trn2
@nki.jit
def kernel(w, x):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    w_tile = nl.ndarray((128, 2, 128), dtype=w.dtype, buffer=nl.sbuf)
    x_tile = nl.ndarray((128, 2, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=w_tile, src=w)
    nisa.dma_copy(dst=x_tile, src=x)
    acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(acc, w_tile, x_tile, perf_mode=nisa.matmul_perf_mode.double_row)  # expect: R072
    result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=acc)
    nisa.dma_copy(dst=out, src=result)
    return out
