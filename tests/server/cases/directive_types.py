#: offers bf16 f32 f8e4m3
#: lacks f8e4m3fnx4
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, out):
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)


# accelopt: a=(bf16[2,2], ‸
@nki.jit
def second(a):
    pass
