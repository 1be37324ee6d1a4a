import nki
import nki.language as nl


# accelopt: x=f32[256,1024] nki-version=0.6
@nki.jit
def kernel(x):
    out = nl.ndarray((256, 1024), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(2):
        even = nl.load(x[i * 128 : i * 128 + 128, 0:1023:2])
        odd = nl.load(x[i * 128 : i * 128 + 128, 1:1024:2])
        nl.store(out[i * 128 : i * 128 + 128, 0:512], value=nl.add(even, odd))
        nl.store(out[i * 128 : i * 128 + 128, 512:1024], value=nl.subtract(even, odd))
    return out


# accelopt: x=f32[256,1024] nki-version=0.6
@nki.jit
def near_miss(x):
    out = nl.ndarray((256, 1024), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(2):
        tile = nl.load(x[nl.ds(i * 128, 128), :])
        nl.store(out[nl.ds(i * 128, 128), :], value=tile)
    return out
