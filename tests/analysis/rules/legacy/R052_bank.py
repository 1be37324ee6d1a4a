import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: x=bf16[128,128] y=bf16[128,1024]
@nki.jit
def trip(x, y):
    out = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.shared_hbm)
    left, right = nl.load(x), nl.load(y)
    total = nisa.nc_matmul(left, right)  # expect: R052 4096
    nl.store(out, value=nl.copy(total))
    return out


# accelopt: x=bf16[128,128] y=bf16[128,512]
@nki.jit
def near(x, y):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    left, right = nl.load(x), nl.load(y)
    total = nisa.nc_matmul(left, right)
    nl.store(out, value=nl.copy(total))
    return out
