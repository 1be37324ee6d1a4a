import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[256,512] places=i32[128,1]~ones nki-version=0.6
@nki.jit
def kernel(x, places):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    index = nl.load(places)
    rows = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(
        dst=rows, src=x.ap(pattern=[[512, 128], [1, 512]], vector_offset=index, indirect_dim=0)
    )
    nl.store(out, value=rows)
    return out


# accelopt: x=f32[256,512] nki-version=0.6
@nki.jit
def near_miss(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=nl.load(x[64:192, :]))
    return out
