import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,2048] nki-version=0.6
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.shared_hbm)
    peak = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    for i in nl.affine_range(4):
        part = nl.max(nl.load(x[:, nl.ds(i * 512, 512)]), axis=1, keepdims=True)
        if i == 0:
            nisa.tensor_copy(dst=peak, src=part)
        else:
            nisa.tensor_tensor(dst=peak, data1=peak, data2=part, op=nl.maximum)
    nl.store(out, value=peak)
    return out


# accelopt: x=f32[128,512] nki-version=0.6
@nki.jit
def near_miss(x):
    out = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=nl.max(nl.load(x), axis=1, keepdims=True))
    return out
