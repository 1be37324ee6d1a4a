import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.language as nl


# accelopt: x=f32[128,512]
@nki.jit
def broken(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    scratch = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.hbm)  # expect: R046 scratch in hbm
    tile = nl.ndarray((nl.par_dim(128), 512), dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    tile[...] = nl.load(x)
    nl.store(scratch, value=tile)
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    other = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((nl.par_dim(128), 512), dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    tile[...] = nl.load(x)
    nl.store(other, value=tile)
    nl.store(out, value=tile)
    return out, other
