import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[128,128] y=f32[128,512]
@nki.jit
def broken(x, y):
    total = nisa.nc_matmul(nl.load(x), nl.load(y))
    return store(nisa.tensor_copy(total, engine=nisa.gpsimd_engine))  # expect: R094 PSUM


# accelopt: x=f32[128,128] y=f32[128,512]
@nki.jit
def valid(x, y):
    total = nisa.nc_matmul(nl.load(x), nl.load(y))
    return store(nisa.tensor_copy(total, engine=nisa.vector_engine))
