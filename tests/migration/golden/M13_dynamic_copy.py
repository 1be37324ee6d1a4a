import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512] starts=i32[1,4]~ones nki-version=0.6
@nki.jit
def kernel(x, starts):
    out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    start = nl.load(starts)
    for k in nl.affine_range(4):
        part = nl.ndarray((128, 16), dtype=tile.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(
            dst=part,
            src=tile.ap(pattern=[[512, 128], [1, 16]], scalar_offset=start[0, k], indirect_dim=1),
        )
        nl.store(out[0:128, 16 * k : 16 * k + 16], value=part)
    return out


# accelopt: x=f32[128,512] nki-version=0.6
@nki.jit
def near_miss(x):
    out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, value=nl.copy(tile[:, 64:128]))
    return out
