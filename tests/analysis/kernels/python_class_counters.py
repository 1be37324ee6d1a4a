import nki
import nki.isa as nisa
import nki.language as nl
class Pool:
    made = 0
    def __init__(self, w):
        Pool.made += 1
        self.tile = nl.ndarray((128, w * Pool.made), dtype=nl.float32, buffer=nl.sbuf)
# accelopt: x=f32[128,512]
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    ps = [Pool(4) for _ in range(3)]
    for p in ps:
        nisa.memset(dst=p.tile, value=0.0)
    nisa.dma_copy(dst=out[:, 0:12], src=ps[-1].tile)
    return out
