import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.language as nl


# accelopt: x=f32[128,512]
@nki.jit
def broken(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((nl.par_dim(128), 512), dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    tile[...] = nl.load(x)
    squared = nl.multiply(tile, tile)  # expect: R047 squared
    nl.store(out, value=squared)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((nl.par_dim(128), 512), dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    tile[...] = nl.load(x)
    tile[...] = nl.multiply(tile, tile)
    nl.store(out, value=tile)
    return out
