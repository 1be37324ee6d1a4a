"""A file for NKI 0.2, which has no nl.load."""

import nki
import nki.language as nl


# accelopt: x=f32[128,512] nki-version=0.2
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, value=tile)
    return out
