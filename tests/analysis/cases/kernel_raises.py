import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[100,512]
@nki.jit
def kernel(x):
    rows, columns = x.shape
    assert columns % 128 == 0
    assert rows % 128 == 0, "rows must be a multiple of 128"  # expect: A001
    return x
