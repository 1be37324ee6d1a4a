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
        (nl.par_dim(128), 512), dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=176 * 1024)
    )  # expect: R050 180224
    return store(nl.load(x))


# accelopt: x=f32[256,512]
@nki.jit
def valid(x):
    out = nl.ndarray((256, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    place = 174 * 1024
    for i in nl.sequential_range(2):
        # The compiler sees the body once, so both iterations have their tile at 174 KiB.
        tile = nl.ndarray(
            (nl.par_dim(128), 512), dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=place)
        )
        place += 2048
        tile[...] = nl.load(x[i * 128 : i * 128 + 128])
        nl.store(out[i * 128 : i * 128 + 128], value=tile)
    return out
