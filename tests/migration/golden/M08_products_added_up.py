import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[512,128] y=f32[512,512] nki-version=0.6
@nki.jit
def kernel(x, y):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    for k in nl.affine_range(4):
        left = nl.load(x[nl.ds(k * 128, 128), :])
        right = nl.load(y[nl.ds(k * 128, 128), :])
        nisa.nc_matmul(dst=total, stationary=left, moving=right)
    nl.store(out, value=nl.copy(total))
    return out


# accelopt: x=f32[128,128] y=f32[128,512] nki-version=0.6
@nki.jit
def near_miss(x, y):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    left = nl.load(x)
    right = nl.load(y)
    product = nl.matmul(left, right, transpose_x=True)
    nl.store(out, value=nl.copy(product))
    return out
