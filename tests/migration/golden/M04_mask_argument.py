import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[200,512] nki-version=0.6
@nki.jit
def kernel(x):
    out = nl.ndarray((200, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(2):
        rows = min(128, 200 - i * 128)
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile[0:rows, 0:512], src=x[i * 128 : i * 128 + rows, 0:512])
        new_tile = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
        nisa.activation(dst=new_tile[0:rows, 0:512], op=nl.exp, data=tile[0:rows, 0:512])
        tile = new_tile
        nisa.dma_copy(dst=out[i * 128 : i * 128 + rows, 0:512], src=tile[0:rows, 0:512])
    return out


# accelopt: x=f32[200,512] nki-version=0.6
@nki.jit
def near_miss(x):
    out = nl.ndarray((200, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(2):
        tile = nl.load(x[i * 100 : (i + 1) * 100, 0:512])
        nl.store(out[i * 100 : (i + 1) * 100, 0:512], value=tile)
    return out
