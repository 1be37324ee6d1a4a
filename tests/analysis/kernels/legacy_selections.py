import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np


# accelopt: x=f32[256,512] scales=f32[256,1] target=trn2
@nki.jit
def kernel(x, scales):
    """Patterns and predicates of index expressions, searches and shuffles."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    places = nl.ndarray((256, 8), dtype=nl.uint32, buffer=nl.shared_hbm)
    i_p = nl.arange(128)[:, None]
    i_f = nl.arange(512)[None, :]
    ramp = nisa.iota(i_p + 2 * i_f, dtype=nl.int32)
    short = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    short[i_p, i_f] = nisa.iota(5 - i_f + 0 * i_p, dtype=nl.float32, mask=i_p < 96)
    for i in nl.affine_range(2):
        tile = nl.load(x[i * 128 + i_p, i_f])
        bound = nl.load(scales[i * 128 : (i + 1) * 128, :])
        lower = nisa.affine_select(
            pred=i * 128 + i_p >= i_f, on_true_tile=tile, on_false_value=nl.fp32.min
        )
        diagonal = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        diagonal[i_p, i_f] = nisa.affine_select(
            pred=i_p == i_f, on_true_tile=tile[i_p, i_f], on_false_value=0.0, mask=i_p < 64
        )
        largest = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        ranged = nisa.range_select(
            on_true_tile=lower,
            comp_op0=np.greater_equal,
            comp_op1=np.less,
            bound0=bound,
            bound1=bound,
            reduce_res=largest,
            reduce_op=np.max,
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
            on_false_value=nl.fp32.min,
        )
        best = nisa.max8(src=tile)
        found = nisa.nc_find_index8(data=tile, vals=best)
        taken = nl.ndarray((128, 8), dtype=nl.uint32, buffer=nl.sbuf)
        rest = nisa.nc_match_replace8(data=tile, vals=best, imm=0.0, dst_idx=taken)
        even = nl.equal(found, taken, dtype=nl.uint8)
        kept = nl.copy(best)
        nisa.tensor_copy_predicated(src=rest[:, 0:8], dst=kept, predicate=even)
        nisa.nc_stream_shuffle(src=rest, dst=rest, shuffle_mask=[(k + 1) % 32 for k in range(32)])
        dropped = nisa.dropout(rest, prob=0.25)
        total = nl.add(nl.add(dropped, ranged), nl.add(short, nl.copy(ramp, dtype=nl.float32)))
        nl.store(out[i * 128 + i_p, i_f], value=total)
        nl.store(places[i * 128 : (i + 1) * 128, :], value=found)
    return out, places
