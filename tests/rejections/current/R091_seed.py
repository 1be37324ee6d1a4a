import nki
import nki.isa as nisa
import nki.language as nl


def load(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return tile


# accelopt: x=i32[1,2] target=trn2
@nki.jit
def broken(x):
    nl.random_seed(7)  # expect: R091 [1, 1]
    return x


# accelopt: x=i32[1,2] target=trn2
@nki.jit
def valid(x):
    nl.random_seed(load(x)[:, 0:1])
    return x
