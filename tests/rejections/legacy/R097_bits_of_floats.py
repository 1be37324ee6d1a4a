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
    return store(nisa.tensor_scalar(tile, op0=nl.bitwise_and, operand0=15))  # expect: R097 float32


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    tile = nl.load(x, dtype=nl.int32)
    return store(nisa.tensor_scalar(tile, op0=nl.bitwise_and, operand0=15))
