import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def broken(x):
    out = nl.zeros((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)  # expect: R015 shared_hbm
    nl.store(out, value=nl.load(x))
    return out


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    tile = nl.zeros((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    return store(nl.add(tile, nl.load(x)))
