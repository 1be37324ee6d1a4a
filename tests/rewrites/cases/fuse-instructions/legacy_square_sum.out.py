# apply: {"pattern": "activation-sum"}
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: x=f32[256,512]
@nki.jit
def normalise(x):
    rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(rows // 128):
        x_tile = nl.load(x[i * 128:(i + 1) * 128, 0:columns])
        # and their sum
        # Squares of the row
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        squares = nisa.activation_reduce(op=nl.square, data=x_tile, reduce_op=nl.add,
                                         reduce_res=total)

        y = nl.multiply(x_tile, nl.rsqrt(total))
        nl.store(out[i * 128:(i + 1) * 128, 0:columns], value=y)
    return out
