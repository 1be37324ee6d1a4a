import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,4096]
@nki.jit
def kernel(x):
    """The first iteration differs, and a variable starts as None."""
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    total = None
    for i in range(8):
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:, i * 512 : (i + 1) * 512])
        if total is None:
            total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=total, src=tile)
        else:
            nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
        if i % 2 == 1:
            nisa.activation(dst=total, op=nl.tanh, data=total)
    nisa.dma_copy(dst=out, src=total)
    return out
