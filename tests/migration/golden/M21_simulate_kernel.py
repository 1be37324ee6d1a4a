import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


# accelopt: x=f32[128,512]
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    return out


def main():
    x = np.ones((128, 512), dtype=np.float32)
    print(nki.simulate(kernel)(x).sum())
    print(nki.simulate(kernel)(x).sum())
