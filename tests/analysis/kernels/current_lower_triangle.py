import nki
import nki.isa as nisa
import nki.language as nl


TILE = 128


def load(x, i, j):
    tile = nl.ndarray((TILE, TILE), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(
        dst=tile, src=x[i * TILE : (i + 1) * TILE, j * TILE : (j + 1) * TILE]
    )
    return tile


# accelopt: x=f32[1024,1024]
@nki.jit
def kernel(x):
    """Inner loops whose length depends on the outer one, and a condition over both."""
    rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(rows // TILE):
        for j in range(i + 1):
            tile = load(x, i, j)
            if i == j:
                nisa.activation(dst=tile, op=nl.exp, data=tile)
            nisa.dma_copy(
                dst=out[i * TILE : (i + 1) * TILE, j * TILE : (j + 1) * TILE], src=tile
            )
        for j in range(i + 1, columns // TILE):
            zero = nl.ndarray((TILE, TILE), dtype=x.dtype, buffer=nl.sbuf)
            nisa.memset(dst=zero, value=0.0)
            nisa.dma_copy(
                dst=out[i * TILE : (i + 1) * TILE, j * TILE : (j + 1) * TILE], src=zero
            )
    return out
