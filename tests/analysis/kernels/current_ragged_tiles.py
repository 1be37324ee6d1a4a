import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[300,700]
@nki.jit
def kernel(x):
    """The last tile of each axis is shorter."""
    rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range((rows + 127) // 128):
        height = min(128, rows - i * 128)
        for j in range((columns + 255) // 256):
            start = j * 256
            stop = min(start + 256, columns)
            tile = nl.ndarray((height, stop - start), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[i * 128 : i * 128 + height, start:stop])
            nisa.activation(dst=tile, op=nl.exp, data=tile)
            nisa.dma_copy(dst=out[i * 128 : i * 128 + height, start:stop], src=tile)
    return out
