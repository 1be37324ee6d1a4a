import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512] low=f32[128,1]~zeros high=f32[128,1] nki-version=0.6 target=trn2
@nki.jit
def kernel(x, low, high):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    largest = nl.zeros((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    ranged = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.range_select(
        dst=ranged,
        on_true_tile=nl.load(x),
        comp_op0=nl.greater_equal,
        comp_op1=nl.less,
        bound0=nl.load(low),
        bound1=nl.load(high),
        reduce_res=largest,
        on_false_value=-3.4028234663852886e38,
        reduce_cmd=nisa.reduce_cmd.reset_reduce,
    )
    nl.store(out, value=ranged)
    return out


# accelopt: x=f32[128,512] low=f32[128,1]~zeros high=f32[128,1] nki-version=0.6 target=trn2
@nki.jit
def near_miss(x, low, high):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    ranged = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.range_select(
        dst=ranged,
        on_true_tile=nl.load(x),
        comp_op0=nl.greater_equal,
        comp_op1=nl.less,
        bound0=nl.load(low),
        bound1=nl.load(high),
        on_false_value=-3.4028234663852886e38,
    )
    nl.store(out, value=ranged)
    return out
