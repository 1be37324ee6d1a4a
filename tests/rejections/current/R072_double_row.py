import nki
import nki.isa as nisa
import nki.language as nl


def load(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return tile


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


# accelopt: x=bf16[128,128] y=bf16[128,512]
@nki.jit
def broken(x, y):
    left, right = load(x), load(y)
    total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    mode = nisa.matmul_perf_mode.double_row
    nisa.nc_matmul(
        dst=total, stationary=left, moving=right, perf_mode=mode
    )  # expect: R072 bfloat16
    nisa.tensor_copy(dst=out, src=total)
    return store(out)


# accelopt: x=bf16[128,128] y=bf16[128,512]
@nki.jit
def valid(x, y):
    left, right = load(x), load(y)
    total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.nc_matmul(dst=total, stationary=left, moving=right)
    nisa.tensor_copy(dst=out, src=total)
    return store(out)
