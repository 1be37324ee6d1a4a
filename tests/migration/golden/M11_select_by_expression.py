import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512] nki-version=0.6
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    lower = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
    nisa.affine_select(
        dst=lower,
        pattern=[[-1, 512]],
        channel_multiplier=1,
        on_true_tile=tile,
        on_false_value=-9984.0,
        cmp_op=nl.greater_equal,
    )
    nl.store(out, value=lower)
    return out


# accelopt: x=f32[128,512] nki-version=0.6
@nki.jit
def near_miss(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    zeros = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nl.store(out, value=nl.where(nl.greater(tile, zeros, dtype=nl.bool_), tile, zeros))
    return out
