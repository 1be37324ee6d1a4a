import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: x=f32[128,128]
@nki.jit
def broken(x):
    out = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((nl.par_dim(128), 128), dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    tile[...] = nl.load(x)
    tile[...] = nisa.activation(op=nl.exp, data=tile)  # expect: R007 line 11
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[128,128]
@nki.jit
def valid(x):
    out = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((nl.par_dim(128), 128), dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    zero = nl.ndarray((nl.par_dim(128), 1), dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=512))
    tile[...] = nl.load(x)
    zero[...] = nisa.memset((128, 1), value=0, dtype=x.dtype)
    tile[...] = nisa.activation(op=nl.exp, data=tile, bias=zero)
    nl.store(out, value=tile)
    return out
