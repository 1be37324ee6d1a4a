import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=bf16[128,128] y=bf16[128,1024]
@nki.jit
def trip(x, y):
    out = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.shared_hbm)
    left, right = nl.load(x), nl.load(y)
    total = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(
        dst=total,  # expect: R052 4096
        stationary=left,
        moving=right,
    )
    nl.store(out, value=nl.copy(total))
    return out


# accelopt: x=bf16[128,128] y=bf16[128,512]
@nki.jit
def near(x, y):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    left, right = nl.load(x), nl.load(y)
    total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=left, moving=right)
    nl.store(out, value=nl.copy(total))
    return out
