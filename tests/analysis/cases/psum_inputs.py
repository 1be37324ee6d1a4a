import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: w=bf16[128,128] x=bf16[128,512]
@nki.jit
def kernel(w, x):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    w_tile = nl.ndarray((128, 128), dtype=w.dtype, buffer=nl.sbuf)
    x_tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=w_tile, src=w)
    nisa.dma_copy(dst=x_tile, src=x)
    first = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    second = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=first, stationary=w_tile, moving=x_tile)
    nisa.nc_matmul(dst=second, stationary=w_tile, moving=x_tile)
    result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=result, data1=first, data2=second, op=nl.add)  # expect: R094
    nisa.tensor_copy(dst=result, src=first, engine=nisa.gpsimd_engine)  # expect: R094
    nisa.dma_copy(dst=out, src=result)
    return out
