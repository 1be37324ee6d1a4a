# apply: {"pattern": "silu"}
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: x=f32[128,512]
@nki.jit
def silu(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x[0:128, 0:512])
    # x * sigmoid(x)
    y = nisa.activation(op=nl.silu, data=t)
    nl.store(out[0:128, 0:512], value=y)
    return out
