import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[4,128,512] which=i32[1,1]~ones nki-version=0.6
@nki.jit
def kernel(x, which):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    batch = nl.load(which)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(
        dst=tile,
        src=x.ap(pattern=[[512, 128], [1, 512]], scalar_offset=batch[0, 0], indirect_dim=0),
    )
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[4,128,512] nki-version=0.6
@nki.jit
def near_miss(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=nl.load(x[2]))
    return out
