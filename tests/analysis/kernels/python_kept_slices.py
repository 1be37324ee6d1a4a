import nki
import nki.isa as nisa
import nki.language as nl
# accelopt: x=f32[128,2048]
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf)
    ss = [nl.ds(i * 128, 64 + 8 * i) for i in range(4)]
    rs = [slice(i * 128, i * 128 + 8 * (i + 1)) for i in range(12)]
    for s in ss:
        nisa.dma_copy(dst=t[:, s], src=x[:, s])
    for r in rs:
        nisa.memset(dst=t[:, r], value=0.0)
    for r in [range(i) for i in range(12)]:
        for k in r:
            nisa.memset(dst=t[:, 0:k + 1], value=1.0)
    return out
