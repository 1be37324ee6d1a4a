import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np


# accelopt: x=f32[256,512] index=i32[128,1] offsets=i32[1,8]
@nki.jit
def kernel(x, index, offsets):
    """Rows by a tile of indices, under a mask too; columns at an offset in SBUF."""
    out = nl.ndarray((256, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(128)[:, None]
    i_f = nl.arange(512)[None, :]
    idx = nl.load(index)
    off = nl.load(offsets)
    rows = nl.load(x[idx[i_p, 0], i_f])
    some = nl.load(x[idx[i_p, 0], i_f], mask=(i_p < 100))
    rows[i_p, i_f] = nl.add(rows, some, mask=(i_p < 100))
    i_q, i_g = nl.mgrid[0:128, 0:16]
    columns = nl.ndarray((nl.par_dim(128), 16), dtype=x.dtype, buffer=nl.sbuf)
    for k in nl.affine_range(8):
        columns[i_q, i_g] = nisa.tensor_copy_dynamic_src(rows[i_q, off[0, k] + i_g])
        nisa.tensor_copy_dynamic_dst(dst=rows[i_q, off[0, k] + i_g], src=columns)
    nl.store(out[idx, i_f], value=rows)
    nisa.dma_copy(dst=out[idx, i_f], src=rows, dst_rmw_op=np.add)
    return out
