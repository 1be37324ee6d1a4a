import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.language as nl


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[128,512]
@nki.jit
def broken(x):
    tile = nl.ndarray(
        (nl.par_dim(128), 256),
        dtype=nl.float32,
        buffer=ncc.psum.mod_alloc(base_bank=0, base_addr=64),
    )  # expect: R049 byte 64
    return store(nl.load(x))


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((nl.par_dim(128), 512), dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    total = nl.ndarray(
        (nl.par_dim(128), 512), dtype=nl.float32, buffer=ncc.psum.mod_alloc(base_bank=3)
    )
    tile[...] = nl.load(x)
    total[...] = nl.copy(tile)
    tile[...] = nl.copy(total)
    nl.store(out, value=tile)
    return out
