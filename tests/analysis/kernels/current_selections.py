import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[256,512] target=trn2
@nki.jit
def kernel(x):
    """Patterns, selections, searches, gathers, random numbers and sums of DMAs."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    seed = nl.ndarray((1, 1), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.memset(dst=seed, value=7)
    nisa.set_rng_seed(src_seeds=seed)
    ramp = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.iota(dst=ramp, pattern=[[1, 512]], offset=-3, channel_multiplier=2)
    bound = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.iota(dst=bound, pattern=[[0, 1]], channel_multiplier=4)
    index = nl.ndarray((128, 4), dtype=nl.uint16, buffer=nl.sbuf)
    nisa.iota(dst=index, pattern=[[16, 4]], channel_multiplier=0)
    for i in range(2):
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        rows = x[i * 128 : (i + 1) * 128, :]
        nisa.dma_compute(tile, [rows, rows], reduce_op=nl.add)
        chosen = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.affine_select(
            dst=chosen,
            pattern=[[-1, 512]],
            offset=i * 128,
            channel_multiplier=1,
            on_true_tile=tile,
            on_false_value=0.0,
            cmp_op=nl.greater_equal,
        )
        ranged = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        largest = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.range_select(
            dst=ranged,
            on_true_tile=chosen,
            comp_op0=nl.greater_equal,
            comp_op1=nl.less_equal,
            bound0=bound,
            bound1=bound,
            reduce_res=largest,
            range_start=i * 512,
        )
        bits = nl.ndarray((128, 512), dtype=nl.uint8, buffer=nl.sbuf)
        nisa.rng(dst=bits)
        nisa.select_reduce(
            dst=ranged,
            predicate=bits,
            on_true=ranged,
            on_false=largest,
            reduce_res=largest,
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )
        best = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
        where = nl.ndarray((128, 8), dtype=nl.uint32, buffer=nl.sbuf)
        nisa.max8(dst=best, src=tile)
        nisa.nc_find_index8(dst=where, data=tile, vals=best)
        picked = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.nc_n_gather(dst=picked, data=tile, indices=where)
        nisa.nc_match_replace8(dst=tile, data=tile, vals=picked, imm=0.0, dst_idx=where)
        gathered = nl.ndarray((128, 64, 4), dtype=nl.float32, buffer=nl.sbuf)
        nisa.local_gather(gathered, ranged, index, num_elem_per_idx=4)
        nisa.tensor_copy_predicated(dst=tile, src=ranged, predicate=bits)
        nisa.tensor_tensor(
            dst=tile[:, 0:256], data1=tile[:, 0:256], data2=gathered.reshape((128, 256)), op=nl.add
        )
        nisa.tensor_tensor(dst=tile, data1=tile, data2=ramp, op=nl.add)
        nisa.dropout(dst=tile, data=tile, prob=0.1)
        nisa.nc_stream_shuffle(dst=tile, src=tile, shuffle_mask=[31 - k for k in range(32)])
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128, :], src=tile)
    return out
