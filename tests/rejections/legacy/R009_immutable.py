import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt


# accelopt: x=f32[128,512]
@nki.jit
def broken(x):
    tile = nl.load(x)
    nl.store(x, value=nl.exp(tile))  # expect: R009 parameter x
    return x


# accelopt: x=f32[128,512]
@nki.jit
def valid(x: nt.mutable_tensor):
    tile = nl.load(x)
    nl.store(x, value=nl.exp(tile))
    return x
