import nki
import nki.isa as nisa
import nki.language as nl
import functools, operator
def compose(*fs):
    return functools.reduce(lambda f, g: lambda v: g(f(v)), fs)
# accelopt: x=f32[128,512]
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    def act(op, w):
        def run(u):
            nisa.activation(dst=u[:, 0:w], op=op, data=u[:, 0:w])
            return u
        return run
    stages = [act(op, 32 * (i + 1)) for i, op in enumerate((nl.exp, nl.sqrt, nl.tanh))]
    stages2 = [act(nl.exp, w) for w in range(16, 160, 16)]
    compose(*stages)(t)
    for s in stages2:
        s(t)
    nisa.dma_copy(dst=out, src=t)
    return out
