import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=tile)
    return out


# accelopt: x=f32[128,512] target=trn2
@nki.jit
def broken(x):
    tile = nl.load(x)
    found = nisa.range_select(
        on_true_tile=tile,
        comp_op0=nl.greater_equal,
        comp_op1=nl.less,
        bound0=tile[:, 0:1],
        bound1=tile[:, 1:2],
        on_false_value=0.0,
    )  # expect: R069 0.0
    return store(found)


# accelopt: x=f32[128,512] target=trn2
@nki.jit
def valid(x):
    tile = nl.load(x)
    found = nisa.range_select(
        on_true_tile=tile,
        comp_op0=nl.greater_equal,
        comp_op1=nl.less,
        bound0=tile[:, 0:1],
        bound1=tile[:, 1:2],
    )
    return store(found)
