# apply: {"engine": "vector"}
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: aT=f32[128,128] b=f32[128,512]
@nki.jit
def product(aT, b):
    out = nl.ndarray((128, 512), dtype=aT.dtype, buffer=nl.shared_hbm)
    a_tile = nl.load(aT[0:128, 0:128])
    b_tile = nl.load(b[0:128, 0:512])
    acc = nl.matmul(a_tile, b_tile, transpose_x=True)
    res = nisa.tensor_copy(acc, dtype=out.dtype, engine=nisa.vector_engine)  # out of PSUM
    nl.store(out[0:128, 0:512], value=res)
    return out
