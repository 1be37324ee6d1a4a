import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: w=bf16[128,128] x=bf16[128,512]
@nki.jit
def kernel(w, x):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    w_tile = nl.ndarray((128, 128), dtype=w.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=w_tile, src=w)
    result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.nc_matmul(
        dst=result,  # expect: R034
        stationary=w_tile,
        moving=x,  # expect: R034
    )
    acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    nisa.dma_copy(dst=out, src=acc)  # expect: R034 R099
    return out
