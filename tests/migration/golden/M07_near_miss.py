"""NKI 0.3 brought nl.load and nl.store back."""

import nki
import nki.language as nl


# accelopt: x=f32[128,512] nki-version=0.3
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, value=tile)
    return out
