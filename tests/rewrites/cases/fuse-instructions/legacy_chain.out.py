# apply: {"pattern": "tensor-scalar-chain"}
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: x=f32[128,512] low=f32[128,1]
@nki.jit
def shift(x, low):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x[0:128, 0:512])
    l = nl.load(low[0:128, 0:1])
    # mirrored
    b = nisa.tensor_scalar(data=t, op0=nl.subtract, operand0=l, op1=nl.subtract, operand1=2.0,
                           reverse1=True)
    nl.store(out[0:128, 0:512], value=b)
    return out
