import nki
import nki.language as nl


# accelopt: x=f32[128,512] nki-version=0.6
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    count = 0
    for i in nl.affine_range(4):
        part = nl.exp(tile[:, nl.ds(i * 128, 128)])
        nl.store(out[:, nl.ds(i * 128, 128)], value=part)
        count += 1
    return out


# accelopt: x=f32[128,512] nki-version=0.6
@nki.jit
def near_miss(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for i in nl.affine_range(4):
        start = 0
        start += i * 128
        nl.store(out[:, nl.ds(start, 128)], value=nl.copy(tile[:, nl.ds(start, 128)]))
    return out
