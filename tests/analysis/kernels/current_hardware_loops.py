"""Registers and loops of the hardware whose number of iterations the text gives."""

import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512] target=trn2
@nki.jit
def accumulate(x):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    kept = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(dst=total, value=0.0)
    nisa.dma_copy(dst=tile, src=x)
    count = nisa.register_alloc(7)
    copied = nisa.register_alloc()
    nisa.register_move(copied, count)
    nisa.register_store(kept, copied)
    nisa.register_load(copied, kept)
    for _ in nl.dynamic_range(3):
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
        for _ in nl.dynamic_range(0, 8, 2):
            with nl.no_reorder():
                nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=0.5)
    nisa.dma_copy(dst=out, src=total)
    return out
