import neuronxcc.nki as nki  # expect: M01
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: x=f32[128,512] nki-version=0.6
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    p, f = nl.mgrid[0:128, 0:512]  # expect: M05
    tile = nl.load(x)
    lower = nisa.affine_select(  # expect: M02 M11
        pred=(p >= f), on_true_tile=tile, on_false_value=-9984.0
    )
    nl.store(out, value=lower)
    return out


# accelopt: x=f32[128,512] nki-version=0.6
@nki.jit
def near_miss(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    zeros = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nl.store(out, value=nl.where(nl.greater(tile, zeros), tile, zeros))
    return out
