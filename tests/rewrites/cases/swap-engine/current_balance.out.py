# apply: {"engine": "gpsimd"}
import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=bf16[256,512] y=bf16[256,512]
@nki.jit
def blend(x, y):
    out = nl.ndarray((256, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(2):
        x_tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        y_tile = nl.ndarray((128, 512), dtype=y.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=x_tile, src=x[i * 128:(i + 1) * 128, 0:512])
        nisa.dma_copy(dst=y_tile, src=y[i * 128:(i + 1) * 128, 0:512])
        half = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=half, data1=x_tile, data2=y_tile, op=nl.add,
                           engine=nisa.gpsimd_engine)
        mean = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=mean, data=half, op0=nl.multiply, operand0=0.5, reverse0=False)
        nisa.dma_copy(dst=out[i * 128:(i + 1) * 128, 0:512], src=mean)
    return out
