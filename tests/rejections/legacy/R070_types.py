import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=tile)
    return out


# accelopt: x=bf16[128,128] y=f32[128,512]
@nki.jit
def broken(x, y):
    total = nisa.nc_matmul(nl.load(x), nl.load(y))  # expect: R070 bfloat16 with float32
    return store(nl.copy(total))


# accelopt: x=bf16[128,128] y=f32[128,512]
@nki.jit
def valid(x, y):
    total = nisa.nc_matmul(nl.load(x, dtype=nl.float32), nl.load(y))
    return store(nl.copy(total))
