import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=bf16[32768,512] scale=bf16[128,512]
@nki.jit
def scaling(x, scale):
    rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(rows // 128):
        factor = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=factor, src=scale)
        tile = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[nl.ds(i * 128, 128), 0:columns])
        nisa.tensor_tensor(dst=tile, data1=tile, data2=factor, op=nl.multiply)
        nisa.dma_copy(dst=out[nl.ds(i * 128, 128), 0:columns], src=tile)
    return out
