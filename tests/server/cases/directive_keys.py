#: offers b= target= grid= nki-version= reference=
#: lacks a= x= ignore[
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, out):
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)


# accelopt: a=bf16[128,512] ‸
@nki.jit
def second(a, b=1):
    pass
