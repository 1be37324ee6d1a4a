import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512] w=f8e4m3[128,2,128] v=f8e5m2[128,2,512] n=i32[128,512] target=trn3
@nki.jit
def kernel(x, w, v, n):
    """One call of each compute instruction and of its less usual parameters."""
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    numbers = nl.ndarray((128, 512), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=numbers, src=n)
    w_tile = nl.ndarray((128, 2, 128), dtype=w.dtype, buffer=nl.sbuf)
    v_tile = nl.ndarray((128, 2, 512), dtype=v.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=w_tile, src=w)
    nisa.dma_copy(dst=v_tile, src=v)

    stats = nl.ndarray((128, 6), dtype=nl.float32, buffer=nl.sbuf)
    moments = nl.ndarray((128, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.bn_stats(dst=stats, data=tile)
    nisa.bn_aggr(dst=moments, data=stats)

    total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    work = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(work, nl.exp, tile, reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reset_reduce)
    nisa.activation(
        work,
        nl.copy,
        tile,
        bias=moments[:, 0:1],
        scale=2.0,
        reduce_op=nl.add,
        reduce_res=total,
        reduce_cmd=nisa.reduce_cmd.reduce,
    )
    nisa.activate2(
        work,
        nl.prelu,
        work,
        imm0=total,
        imm1=0.0,
        op0=nl.subtract,
        op1=nl.bypass,
        relu_param=0.25,
        reduce_op=nl.maximum,
        reduce_res=total,
        reduce_cmd=nisa.reduce_cmd.reset_reduce,
    )
    nisa.exponential(
        work, work, max_value=total, reduce_res=total, reduce_cmd=nisa.reduce_cmd.reset_reduce
    )
    nisa.tensor_scalar_reduce(
        work, work, nl.abs, None, nl.maximum, reduce_res=total, reduce_res_negate=True
    )
    nisa.tensor_scalar_reduce(work, work, nl.multiply, 2.0, nl.maximum)
    nisa.tensor_scalar_cumulative(work, work, nl.add, nl.add, imm0=total)

    nisa.tensor_scalar(numbers, numbers, nl.bitwise_and, 255, op1=nl.right_shift, operand1=2)
    nisa.tensor_tensor(numbers, numbers, numbers, nl.add)
    first = nl.ndarray((1, 512), dtype=nl.int32, buffer=nl.sbuf)
    nisa.tensor_partition_reduce(first, nl.bitwise_or, numbers)

    acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(acc, w_tile, v_tile, perf_mode=nisa.matmul_perf_mode.double_row)
    if nisa.get_nc_version() >= nisa.nc_version.gen4:
        nisa.tensor_tensor(work, work, acc, nl.add)
    nisa.dma_copy(dst=out, src=work)
    return out
