# apply: {"over": "i"}
import nki
import nki.isa as nisa
import nki.language as nl

P = 128


# accelopt: x=f32[512,256] gain=f32[256]
@nki.jit
def scale_rows(x, gain):
    rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)

    gain_row = nl.ndarray((1, columns), dtype=gain.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=gain_row, src=gain.reshape((1, columns)))

    gain_tile = nl.broadcast_to(gain_row, (P, columns))

    for i in range(rows // P):
        x_tile = nl.ndarray((P, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=x_tile, src=x[i * P : (i + 1) * P, 0:columns])
        y = nl.ndarray((P, columns), dtype=out.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=y, data1=x_tile, data2=gain_tile, op=nl.multiply)
        nisa.dma_copy(dst=out[i * P : (i + 1) * P, 0:columns], src=y)

    return out
