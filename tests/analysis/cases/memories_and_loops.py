"""Memories compare equal by any of their names; ``nl.range`` is a loop."""

import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512] y=f32[128,512]
@nki.jit
def kernel(x, y):
    assert x.buffer == y.buffer == nl.hbm
    assert x.buffer != nl.sbuf
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    assert tile.buffer == nl.sbuf
    for i in nl.range(2):
        nisa.dma_copy(dst=tile[:, nl.ds(i * 256, 256)], src=x[:, nl.ds(i * 256, 256)])
    nisa.dma_copy(dst=out, src=tile)
    assert out.buffer == nl.sbuf  # expect: A001
    return out
