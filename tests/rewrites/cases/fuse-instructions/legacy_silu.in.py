# apply: {"pattern": "silu"}
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: x=f32[128,512]
@nki.jit
def silu(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x[0:128, 0:512])
    # exp(-x)
    e = nisa.activation(op=nl.exp, data=t, scale=-1.0)
    d = nl.add(e, 1.0)
    g = nl.reciprocal(d)
    # x * sigmoid(x)
    y = nl.multiply(t, g)
    nl.store(out[0:128, 0:512], value=y)
    return out
