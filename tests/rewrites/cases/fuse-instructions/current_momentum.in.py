# apply: {"pattern": "scalar-tensor-tensor"}
import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: m=f32[128,512] g=f32[128,512]
@nki.jit
def momentum(m, g):
    out = nl.ndarray((128, 512), dtype=m.dtype, buffer=nl.shared_hbm)
    m_tile = nl.ndarray((128, 512), dtype=m.dtype, buffer=nl.sbuf)
    g_tile = nl.ndarray((128, 512), dtype=g.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=m_tile, src=m[0:128, 0:512])
    nisa.dma_copy(dst=g_tile, src=g[0:128, 0:512])
    step = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=step, data=g_tile, op0=nl.multiply, operand0=0.1)
    nisa.tensor_tensor(dst=m_tile, data1=m_tile, data2=step, op=nl.subtract)
    nisa.dma_copy(dst=out[0:128, 0:512], src=m_tile)
    return out
