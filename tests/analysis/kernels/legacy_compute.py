import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np


# accelopt: x=bf16[128,512] target=trn1
@nki.jit
def kernel(x):
    """Calls whose operators are NumPy's, and calls that issue more than one instruction."""
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    sums = nl.ndarray((1, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(x)
    moments = nisa.bn_aggr(nisa.bn_stats(tile, dtype=nl.float32))
    total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    work = nisa.activation_reduce(
        np.exp, tile, reduce_op=np.add, reduce_res=total, bias=moments[:, 0:1], dtype=nl.float32
    )
    work = nisa.tensor_scalar(work, op0=np.maximum, operand0=total, op1=np.subtract, operand1=1.0)
    running = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar_cumulative(src=work, dst=running, op0=np.multiply, op1=np.add, imm0=2.0)
    turned = nisa.nc_transpose(tile[:, 0:128], dtype=nl.bfloat16)
    work = nisa.tensor_tensor(running, work, op=np.add)
    nl.store(sums, nisa.tensor_partition_reduce(np.add, work))
    work[:, 0:128] = nisa.tensor_tensor(work[:, 0:128], turned, op=np.multiply)
    nl.store(out, work)
    return out, sums
