import neuronxcc.nki as nki  # expect: M01
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: x=f32[128,512] low=f32[128,1]~zeros high=f32[128,1] nki-version=0.6 target=trn2
@nki.jit
def kernel(x, low, high):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    largest = nl.zeros((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    ranged = nisa.range_select(  # expect: M02 M38
        on_true_tile=nl.load(x),
        comp_op0=nl.greater_equal,
        comp_op1=nl.less,
        bound0=nl.load(low),
        bound1=nl.load(high),
        reduce_res=largest,
        on_false_value=nl.fp32.min,
    )
    nl.store(out, value=ranged)
    return out


# accelopt: x=f32[128,512] low=f32[128,1]~zeros high=f32[128,1] nki-version=0.6 target=trn2
@nki.jit
def near_miss(x, low, high):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    ranged = nisa.range_select(  # expect: M02
        on_true_tile=nl.load(x),
        comp_op0=nl.greater_equal,
        comp_op1=nl.less,
        bound0=nl.load(low),
        bound1=nl.load(high),
        on_false_value=nl.fp32.min,
    )
    nl.store(out, value=ranged)
    return out
