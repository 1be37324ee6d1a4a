import neuronxcc.nki as nki  # expect: M01
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.language as nl


# accelopt: x=f32[4,128,512] nki-version=0.6
@nki.jit
def kernel(x):
    out = nl.ndarray((4, 128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = nl.ndarray(  # expect: M06
        (4, nl.par_dim(128), 512),
        dtype=x.dtype,
        buffer=ncc.sbuf.mod_alloc(base_addr=1024, num_free_tiles=(2,)),  # expect: M18
    )
    for i in nl.affine_range(4):
        tiles[i] = nl.load(x[i])
        nl.store(out[i], value=tiles[i])
    return out


# accelopt: x=f32[4,128,512] nki-version=0.6
@nki.jit
def near_miss(x):
    out = nl.ndarray((4, 128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        nl.store(out[i], value=nl.load(x[i]))
    return out
