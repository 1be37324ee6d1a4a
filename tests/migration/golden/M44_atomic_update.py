import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: table=f32[128,512] x=f32[1,512] places=i32[1,1]~ones nki-version=0.6
@nki.jit
def kernel(table, x, places):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=nl.load(table))
    index = nl.load(places)
    tile = nl.load(x)
    nisa.dma_compute(
        dst=out.ap(pattern=[[0, 1], [1, 512]], scalar_offset=index, indirect_dim=0),
        srcs=[tile, out.ap(pattern=[[0, 1], [1, 512]], scalar_offset=index, indirect_dim=0)],
        reduce_op=nl.add,
    )
    return out


# accelopt: table=f32[128,512] nki-version=0.6
@nki.jit
def near_miss(table):
    out = nl.ndarray((128, 512), dtype=table.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=nl.load(table))
    return out
