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
    bias = nl.zeros((128, 1), dtype=nl.int32, buffer=nl.sbuf)
    return store(nisa.activation(op=nl.exp, data=tile, bias=bias))  # expect: R002 int32


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    tile = nl.load(x)
    bias = nl.zeros((128, 1), dtype=nl.bfloat16, buffer=nl.sbuf)
    return store(nisa.activation(op=nl.exp, data=tile, bias=bias))
