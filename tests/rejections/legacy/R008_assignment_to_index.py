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
    i = nl.arange(128)[:, None]
    i[0, 0] = 1  # expect: R008
    return store(nl.load(x))


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    places = nisa.iota(nl.arange(512)[None, :], dtype=nl.int32)
    places[0:1, 0:1] = nl.copy(places[0:1, 1:2])
    return store(places)
