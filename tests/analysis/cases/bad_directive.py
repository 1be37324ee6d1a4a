import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f99[128,512] y=f32[1] oops  # expect: D001
@nki.jit
def kernel(x):
    return x
