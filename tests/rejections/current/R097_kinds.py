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


# accelopt: x=i32[128,512]
@nki.jit
def broken(x):
    tile = load(x)
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(
        dst=out, data=tile, op0=nl.bitwise_and, operand0=15, op1=nl.add, operand1=1
    )  # expect: R097 bitwise_and
    return store(out)


# accelopt: x=i32[128,512]
@nki.jit
def valid(x):
    tile = load(x)
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(
        dst=out, data=tile, op0=nl.bitwise_and, operand0=15, op1=nl.bitwise_or, operand1=1
    )
    return store(out)
