"""Sixty-four tiles of 64 KiB a partition take turns at two places: nothing is spilled."""

import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.language as nl


# accelopt: x=f32[64,128,16384]
@nki.jit
def kernel(x):
    out = nl.ndarray((64, 128, 16384), dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = nl.ndarray(
        (64, nl.par_dim(128), 16384),
        dtype=x.dtype,
        buffer=ncc.sbuf.mod_alloc(base_addr=0, num_free_tiles=(2,)),
    )
    for i in nl.affine_range(64):
        tiles[i] = nl.load(x[i])
    for i in nl.affine_range(64):
        nl.store(out[i], value=tiles[i])
    return out
