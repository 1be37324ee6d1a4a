# apply: {"pattern": "activation-bias"}
import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[256,512]
@nki.jit
def shifted_exp(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(2):
        t = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x[i * 128:(i + 1) * 128, 0:512])
        peak = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=peak, op=nl.maximum, data=t, axis=1)
        below = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=below, data=t, op0=nl.subtract, operand0=peak)
        e = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.activation(dst=e, op=nl.exp, data=below)
        nisa.dma_copy(dst=out[i * 128:(i + 1) * 128, 0:512], src=e)
    return out
