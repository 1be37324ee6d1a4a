import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512]
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_copy(src=tile)  # expect: R101
    nisa.tensor_copy(dst=tile, src=tile, colour="red")  # expect: R101
    nisa.activation(dst=tile, op=nl.exp, data=tile, engine=nisa.vector_engine)  # expect: R101
    nisa.tensor_tensor(
        dst=tile, data1=tile, data2=tile, op=nl.add, engine=nisa.scalar_engine
    )  # expect-above: R102
    nisa.dma_copy(dst=out, src=tile)
    return out
