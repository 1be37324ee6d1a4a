import neuronxcc.nki as nki  # expect: M01
import neuronxcc.nki.language as nl
import numpy as np


# accelopt: table=f32[128,512] x=f32[1,512] places=i32[1,1]~ones nki-version=0.6
@nki.jit
def kernel(table, x, places):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    p = nl.arange(1)[:, None]  # expect: M05
    f = nl.arange(512)[None, :]
    nl.store(out, value=nl.load(table))
    index = nl.load(places)
    tile = nl.load(x)
    nl.atomic_rmw(out[index[p, 0], f], value=tile, op=np.add)  # expect: M17 M19 M44
    return out


# accelopt: table=f32[128,512] nki-version=0.6
@nki.jit
def near_miss(table):
    out = nl.ndarray((128, 512), dtype=table.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=nl.load(table))
    return out
