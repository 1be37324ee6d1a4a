import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=tile)
    return out


# accelopt: x=bf16[128,128] y=bf16[128,1024]
@nki.jit
def broken(x, y):
    total = nl.zeros((128, 8192), dtype=nl.float32, buffer=nl.psum)  # expect: R051 32768
    return store(nl.load(x))


# accelopt: x=bf16[128,128] y=bf16[128,1024]
@nki.jit
def valid(x, y):
    left, right = nl.load(x), nl.load(y)
    total = nl.matmul(left, right[:, 0:512], transpose_x=True)
    return store(nl.copy(total))
