import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def broken(x: nt.mutable_tensor):
    tile = nl.load(x)
    nl.store(x, value=nl.exp(tile))  # expect: R020 x is an nt.mutable_tensor
    return store(tile)


# accelopt: x=f32[128,512]
@nki.jit
def valid(x: nt.mutable_tensor):
    tile = nl.load(x)
    nl.store(x, value=nl.exp(tile))
    return store(tile), x
