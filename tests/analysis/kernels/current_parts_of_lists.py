"""Parts of lists that loops filled, also with ends that depend on the iteration."""

import nki
import nki.isa as nisa
import nki.language as nl


def nested(outer, inner, width):
    tiles = []
    for _ in range(outer * inner):
        tiles.append(nl.ndarray((128, width), dtype=nl.float32, buffer=nl.sbuf))
        nisa.memset(dst=tiles[-1], value=0.0)
    rows = []
    for i in range(outer):
        rows.append(tiles[i * inner : (i + 1) * inner])
    return rows


# accelopt: x=f32[128,512]
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = nested(3, 2, 64)
    for row in rows:
        for tile in row:
            nisa.dma_copy(dst=tile, src=x[:, 0:64])
    for i in range(3):
        nisa.activation(dst=rows[i][1], op=nl.exp, data=rows[i][0])
    widths = []
    for i in range(6):
        widths.append(8 * (i + 1))
    for width in widths[1:4]:
        nisa.memset(dst=rows[0][0][:, 0:width], value=1.0)
    for width in widths[::-2]:
        nisa.memset(dst=rows[0][0][:, 0:width], value=2.0)
    copied = widths[:]
    copied.append(64)
    for width in copied:
        nisa.memset(dst=rows[1][0][:, 0:width], value=3.0)
    for i in range(3):
        for width in widths[i:]:
            nisa.memset(dst=rows[2][0][:, 0:width], value=4.0)
    assert len(widths) == 6 and len(copied) == 7
    nisa.dma_copy(dst=out[:, 0:64], src=rows[2][1])
    return out
