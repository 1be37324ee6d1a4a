import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512] nki-version=0.6
@nki.jit
def kernel(x):
    assert 2048 < nl.tile_size.sbuf_fmax_bytes
    assert 512 == nl.tile_size.psum_bank_fmax
    width = nl.tile_size.psum_bank_fmax
    out = nl.ndarray((128, width), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def near_miss(x):
    out = nl.ndarray((128, nl.tile_size.psum_fmax), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    return out
