import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: x=f32[128,128]
@nki.jit
def broken(x):
    out = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((nl.par_dim(128), 128), dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    turned = nl.ndarray(
        (nl.par_dim(128), 128), dtype=x.dtype, buffer=ncc.psum.mod_alloc(base_bank=0)
    )
    tile[...] = nl.load(x)
    turned[...] = nisa.nc_transpose(tile, engine=nisa.tensor_engine)  # expect: R031 line 11
    tile[...] = nl.copy(turned)
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[128,128]
@nki.jit
def valid(x):
    out = nl.ndarray((32, 32), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((nl.par_dim(32), 32), dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    turned = nl.ndarray(
        (nl.par_dim(32), 32), dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=128)
    )
    tile[...] = nl.load(x[0:32, 0:32])
    turned[...] = nisa.nc_transpose(tile, engine=nisa.vector_engine)
    nl.store(out, value=turned)
    return out
