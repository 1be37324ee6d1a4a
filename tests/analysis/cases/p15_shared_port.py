import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[2048,1024] target=trn1
@nki.jit
def kernel(x):
    out = nl.ndarray((2048, 1024), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(16):
        tile = nl.ndarray((128, 1024), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128, :])
        a = nl.ndarray((128, 1024), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=a, data1=tile, data2=tile, op=nl.multiply)
        b = nl.ndarray((128, 1024), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=b, src=tile, engine=nisa.gpsimd_engine)  # expect: P15
        nisa.tensor_tensor(dst=b, data1=a, data2=b, op=nl.add)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128, :], src=b)
    return out
