import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: w=bf16[128,256] x=bf16[128,1024]
@nki.jit
def kernel(w, x):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    w_tile = nl.ndarray((128, 256), dtype=w.dtype, buffer=nl.sbuf)
    x_tile = nl.ndarray((128, 1024), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=w_tile, src=w)
    nisa.dma_copy(dst=x_tile, src=x)
    wide = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=wide, stationary=w_tile[:, 0:128], moving=x_tile)  # expect: R026 R052
    tall = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=tall, stationary=w_tile, moving=x_tile[:, 0:512])  # expect: R026 R027
    out_tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=out_tile, src=tall)
    nisa.dma_copy(dst=out, src=out_tile)
    return out
