import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def broken(x):
    tile = nl.load(x)
    found = nisa.tensor_tensor(
        tile, tile, op=nl.add, engine=nisa.scalar_engine
    )  # expect: R102 scalar
    return store(found)


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    tile = nl.load(x)
    return store(nisa.tensor_tensor(tile, tile, op=nl.add, engine=nisa.gpsimd_engine))
