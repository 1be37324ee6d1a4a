"""Loops whose bodies are functions, registers as bounds and as places."""

import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[8,128,64] target=trn2 nki-version=0.6
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    total = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    wide = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=total, value=0.0)
    nisa.memset(dst=wide, value=0.0)
    rounds = 0

    def plane(i):
        tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i])
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
        nisa.tensor_copy(dst=wide[:, nl.ds(i, 64)], src=tile)

        def again(j):
            nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=0.5)

        nl.fori_loop(0, 4, again, step=3)
        nisa.dma_copy(dst=out.select(0, i), src=total)

    def counted(i):
        nonlocal rounds
        rounds += 1
        nisa.memset(dst=total, value=1.0)

    nl.fori_loop(0, 8, plane)
    first = nisa.register_alloc(2)
    last = nisa.register_alloc(0)
    nisa.register_move(last, nisa.register_alloc(9))
    nl.fori_loop(first, last, counted, step=2)
    nl.fori_loop(3, 3, plane)
    for n in range(3):
        nl.fori_loop(0, n, lambda i: nisa.memset(dst=total, value=2.0))
    for n in nl.dynamic_range(1, last):
        nisa.memset(dst=wide[:, nl.ds(n, 8)], value=3.0)
        nisa.tensor_copy(dst=total, src=wide.ap([[512, 128], [1, 64]], scalar_offset=n, indirect_dim=1))
    left = nisa.register_alloc(5)

    def once(r):
        nisa.memset(dst=total, value=4.0)
        zero = nisa.register_alloc(0)
        return zero

    nl.while_loop(left, once)
    count = nisa.register_alloc(0)
    for n in range(4):
        nisa.register_move(count, n)
        nl.fori_loop(0, count, counted)
    return out
