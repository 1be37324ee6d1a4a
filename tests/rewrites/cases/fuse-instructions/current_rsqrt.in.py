# apply: {"pattern": "rsqrt"}
import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512]~uniform
@nki.jit
def inverse_root(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x[0:128, 0:512])
    root = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=root, op=nl.sqrt, data=t, scale=4.0)
    nisa.reciprocal(dst=root, data=root)
    y = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=y, op=nl.sqrt, data=t)
    z = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.reciprocal(dst=z, data=y)
    nisa.tensor_tensor(dst=z, data1=z, data2=root, op=nl.add)
    nisa.dma_copy(dst=out[0:128, 0:512], src=z)
    return out
