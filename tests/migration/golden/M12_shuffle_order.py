import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512] nki-version=0.6
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    turned = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.nc_stream_shuffle(dst=turned, src=tile, shuffle_mask=[(k + 1) % 32 for k in range(32)])
    nl.store(out, value=turned)
    return out


# accelopt: x=f32[128,512] nki-version=0.6
@nki.jit
def near_miss(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    turned = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.nc_stream_shuffle(dst=turned, src=tile, shuffle_mask=[(k + 1) % 32 for k in range(32)])
    nl.store(out, value=turned)
    return out
