import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: x=f32[256,512]
@nki.jit
def kernel(x):
    out = nl.ndarray((256, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x[0:256, 0:512])  # expect: R023
    nl.store(out[0:256, 0:512], value=tile)
    return out
